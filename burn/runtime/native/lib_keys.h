/* Elements of any type as unsigned integers, for library code that compares them: `burn_lib_keys`.
 *
 * Keys order as the elements do: -0 and +0 are equal, every NaN is one key above infinity. Sub-byte types are read from
 * the low bits of their byte.
 */
#ifndef BURN_LIB_KEYS_H
#define BURN_LIB_KEYS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of DTYPES in burn/codegen/host/library.py. */
enum burn_dtype {
    BURN_F64, BURN_F32, BURN_F16, BURN_BF16,
    BURN_F8E4M3FN, BURN_F8E4M3FNUZ, BURN_F8E5M2, BURN_F8E5M2FNUZ, BURN_F8E8M0FNU, BURN_F4E2M1FN,
    BURN_I2, BURN_I4, BURN_I8, BURN_I16, BURN_I32, BURN_I64,
    BURN_U2, BURN_U4, BURN_U8, BURN_U16, BURN_U32, BURN_U64,
    BURN_BOOL, BURN_C64, BURN_C128,
    BURN_TEXT, BURN_LIST /* 64-bit words: see heap.h */
};

typedef struct burn_keyed {
    uint64_t key;
    int64_t index;
} burn_keyed;

/* The size of an array. One too large for 64 bits is as large as can be, which no allocation grants. */
static inline int64_t burn_lib_bytes(int64_t count, int64_t each) {
    return each && count > INT64_MAX / each ? INT64_MAX : count * each;
}

int64_t burn_lib_element_bytes(int64_t dtype);
int64_t burn_lib_key_parts(int64_t dtype); /* keys an element has: 2 for complex numbers, real part first */
int burn_lib_key_bytes(int64_t dtype);     /* low bytes of a key that may be other than zero */
/* The keys of `count` elements that lie `step` elements apart; they are stored `stride` words apart. */
void burn_lib_keys(int64_t dtype, const void *x, int64_t count, int64_t step, uint64_t *keys, int64_t stride);
/* The same of a type of at most 4 bytes that is not complex, as signed numbers: the bits of `flip` are inverted. */
void burn_lib_short_keys(int64_t dtype, const void *x, int64_t count, int64_t step, int32_t flip, int32_t *keys);
/* The bits of a part that are all 0 in zero; 0 for a type that has no zero. */
uint64_t burn_lib_zero_mask(int64_t dtype);
/* Writes a number as Python does to `to` (64 bytes), floats with the fewest digits; returns the length. `number` is a bool, an
 * i64, a u64, or for a float type a double. */
int burn_lib_number_text(int64_t dtype, const void *number, char *to);
/* Sorts stably by key. `spare` has room for `count` more; returns whichever of the two holds the result. */
burn_keyed *burn_lib_sort_keyed(burn_keyed *items, burn_keyed *spare, int64_t count, int key_bytes);

#ifdef __cplusplus
}
#endif
#endif
