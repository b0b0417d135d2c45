/* Keys of elements, and sorting by them: the ground that sort and unique stand on. */
#include "lib_keys.h"

#include <string.h>

typedef struct traits {
    int bytes; /* of an element, or of one part of a complex number */
    enum { UNSIGNED, SIGNED, FLOAT, FLOAT_UNSIGNED_ZERO } kind;
    int bits;
    uint64_t infinity; /* floats: the largest magnitude that is no NaN */
} traits;

static const traits TRAITS[] = {
    [BURN_F64] = {8, FLOAT, 64, 0x7FF0000000000000},
    [BURN_F32] = {4, FLOAT, 32, 0x7F800000},
    [BURN_F16] = {2, FLOAT, 16, 0x7C00},
    [BURN_BF16] = {2, FLOAT, 16, 0x7F80},
    [BURN_F8E4M3FN] = {1, FLOAT, 8, 0x7E},
    [BURN_F8E4M3FNUZ] = {1, FLOAT_UNSIGNED_ZERO, 8, 0},
    [BURN_F8E5M2] = {1, FLOAT, 8, 0x7C},
    [BURN_F8E5M2FNUZ] = {1, FLOAT_UNSIGNED_ZERO, 8, 0},
    [BURN_F8E8M0FNU] = {1, UNSIGNED, 8, 0}, /* an exponent; NaN is its largest code */
    [BURN_F4E2M1FN] = {1, FLOAT, 4, 7},
    [BURN_I2] = {1, SIGNED, 2, 0},
    [BURN_I4] = {1, SIGNED, 4, 0},
    [BURN_I8] = {1, SIGNED, 8, 0},
    [BURN_I16] = {2, SIGNED, 16, 0},
    [BURN_I32] = {4, SIGNED, 32, 0},
    [BURN_I64] = {8, SIGNED, 64, 0},
    [BURN_U2] = {1, UNSIGNED, 2, 0},
    [BURN_U4] = {1, UNSIGNED, 4, 0},
    [BURN_U8] = {1, UNSIGNED, 8, 0},
    [BURN_U16] = {2, UNSIGNED, 16, 0},
    [BURN_U32] = {4, UNSIGNED, 32, 0},
    [BURN_U64] = {8, UNSIGNED, 64, 0},
    [BURN_BOOL] = {1, UNSIGNED, 8, 0},
    [BURN_C64] = {4, FLOAT, 32, 0x7F800000},
    [BURN_C128] = {8, FLOAT, 64, 0x7FF0000000000000},
    [BURN_TEXT] = {8, UNSIGNED, 64, 0}, /* equal strings have equal words; their order says nothing */
    [BURN_LIST] = {8, UNSIGNED, 64, 0},
};

int64_t burn_lib_key_parts(int64_t dtype) { return dtype == BURN_C64 || dtype == BURN_C128 ? 2 : 1; }

int64_t burn_lib_element_bytes(int64_t dtype) { return TRAITS[dtype].bytes * burn_lib_key_parts(dtype); }

int burn_lib_key_bytes(int64_t dtype) { return TRAITS[dtype].bytes; }

uint64_t burn_lib_zero_mask(int64_t dtype) {
    traits t = TRAITS[dtype];
    uint64_t all = t.bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << t.bits) - 1;
    if (dtype == BURN_F8E8M0FNU) /* powers of two */
        return 0;
    return t.kind == FLOAT ? all >> 1 : all;
}

/* Keys of floats take no branches, as signs are not foreseeable. */
static inline uint64_t key_of(uint64_t word, traits t) {
    uint64_t all = t.bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << t.bits) - 1, sign = (all >> 1) + 1;
    word &= all;
    if (t.kind == UNSIGNED)
        return word;
    if (t.kind == SIGNED)
        return word ^ sign;
    uint64_t magnitude = word & ~sign, key = word ^ ((((uint64_t)0 - (word >> (t.bits - 1))) & all) | sign);
    if (t.kind == FLOAT_UNSIGNED_ZERO) /* the code of -0 is NaN */
        return word == sign ? all : key;
    key = magnitude == 0 ? sign : key;
    return magnitude > t.infinity ? all : key;
}

static inline int32_t short_key_of(uint32_t word, traits t) {
    uint32_t sign = (uint32_t)1 << 31, magnitude, infinity = (uint32_t)t.infinity << (32 - t.bits);
    word <<= 32 - t.bits;
    if (t.kind == UNSIGNED)
        return (int32_t)(word ^ sign);
    if (t.kind == SIGNED)
        return (int32_t)word;
    magnitude = word & ~sign;
    int32_t key = (int32_t)(word ^ (((uint32_t)0 - (word >> 31)) & ~sign));
    if (t.kind == FLOAT_UNSIGNED_ZERO)
        return word == sign ? INT32_MAX : key;
    key = magnitude == 0 ? 0 : key;
    return magnitude > infinity ? INT32_MAX : key;
}

#define KEYS(type, step, kept)                                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type word;                                                                                                     \
        memcpy(&word, bytes + i * (step) * (int64_t)sizeof word, sizeof word);                                         \
        kept;                                                                                                          \
    }

/* The loops of one kind of type: no element needs a branch. */
#define KEYS_OF_KIND(name, kept)                                                                                       \
    case name:                                                                                                         \
        t.kind = name;                                                                                                 \
        switch (t.bytes) {                                                                                             \
        case 1:                                                                                                        \
            KEYS(uint8_t, step, kept)                                                                                  \
            break;                                                                                                     \
        case 2:                                                                                                        \
            KEYS(uint16_t, step, kept)                                                                                 \
            break;                                                                                                     \
        case 4:                                                                                                        \
            t.bits = 32;                                                                                               \
            if (step == 1)                                                                                             \
                KEYS(uint32_t, 1, kept)                                                                                \
            else                                                                                                       \
                KEYS(uint32_t, step, kept)                                                                             \
            break;                                                                                                     \
        default:                                                                                                       \
            KEYS_OF_WORDS(kept)                                                                                        \
            break;                                                                                                     \
        }                                                                                                              \
        break;

#define KEYS_OF_EVERY_KIND(kept)                                                                                       \
    switch (t.kind) {                                                                                                  \
        KEYS_OF_KIND(UNSIGNED, kept)                                                                                   \
        KEYS_OF_KIND(SIGNED, kept)                                                                                     \
        KEYS_OF_KIND(FLOAT, kept)                                                                                      \
        KEYS_OF_KIND(FLOAT_UNSIGNED_ZERO, kept)                                                                        \
    }

static void part_keys(traits t, const char *bytes, int64_t count, int64_t step, uint64_t *keys, int64_t stride) {
#define KEYS_OF_WORDS(kept)                                                                                            \
    t.bits = 64;                                                                                                       \
    KEYS(uint64_t, step, kept)
    KEYS_OF_EVERY_KIND(keys[i * stride] = key_of(word, t))
#undef KEYS_OF_WORDS
}

void burn_lib_short_keys(int64_t dtype, const void *x, int64_t count, int64_t step, int32_t flip, int32_t *keys) {
    traits t = TRAITS[dtype];
    const char *bytes = x;
#define KEYS_OF_WORDS(kept)
    KEYS_OF_EVERY_KIND(keys[i] = short_key_of(word, t) ^ flip)
#undef KEYS_OF_WORDS
}

void burn_lib_keys(int64_t dtype, const void *x, int64_t count, int64_t step, uint64_t *keys, int64_t stride) {
    traits t = TRAITS[dtype];
    int64_t parts = burn_lib_key_parts(dtype);
    for (int64_t part = 0; part < parts; part++)
        part_keys(t, (const char *)x + part * t.bytes, count, step * parts, keys + part, stride);
}

/* ---- sorting ----------------------------------------------------------------------------------------------------- */

enum { INSERTION_RUN = 16, RADIX_LEAST = 512 };

static void insertion_sort(burn_keyed *items, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        burn_keyed item = items[i];
        int64_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static burn_keyed *merge_sort(burn_keyed *items, burn_keyed *spare, int64_t count) {
    for (int64_t at = 0; at < count; at += INSERTION_RUN)
        insertion_sort(items + at, count - at < INSERTION_RUN ? count - at : INSERTION_RUN);
    for (int64_t run = INSERTION_RUN; run < count; run *= 2) {
        for (int64_t at = 0; at < count; at += 2 * run) {
            int64_t a = at, middle = at + run < count ? at + run : count, b = middle;
            int64_t end = middle + run < count ? middle + run : count;
            for (int64_t to = at; to < end; to++)
                spare[to] = b >= end || (a < middle && items[a].key <= items[b].key) ? items[a++] : items[b++];
        }
        burn_keyed *sorted = spare;
        spare = items;
        items = sorted;
    }
    return items;
}

/* A byte at a time from the lowest; bytes that all keys share are passed over. */
static burn_keyed *radix_sort(burn_keyed *items, burn_keyed *spare, int64_t count, int key_bytes) {
    int64_t starts[8][256] = {{0}};
    for (int64_t i = 0; i < count; i++)
        for (int byte = 0; byte < key_bytes; byte++)
            starts[byte][items[i].key >> (8 * byte) & 255]++;
    for (int byte = 0; byte < key_bytes; byte++) {
        int64_t *start = starts[byte], total = 0;
        if (start[items[0].key >> (8 * byte) & 255] == count)
            continue;
        for (int digit = 0; digit < 256; digit++) {
            int64_t here = start[digit];
            start[digit] = total;
            total += here;
        }
        for (int64_t i = 0; i < count; i++)
            spare[start[items[i].key >> (8 * byte) & 255]++] = items[i];
        burn_keyed *sorted = spare;
        spare = items;
        items = sorted;
    }
    return items;
}

burn_keyed *burn_lib_sort_keyed(burn_keyed *items, burn_keyed *spare, int64_t count, int key_bytes) {
    return count < RADIX_LEAST ? merge_sort(items, spare, count) : radix_sort(items, spare, count, key_bytes);
}
