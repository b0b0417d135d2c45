/* The interface of custom ops in C and C++ (burn.custom_op).
 *
 *     #include "burn_custom.h"
 *
 *     int scale(const burn_custom_call *call) {
 *         const float *x = call->input[0].data;
 *         float *y = call->output[0].data;
 *         float factor = (float)burn_custom_float(call, "factor", 1.0);
 *         for (int64_t i = 0; i < call->input[0].elements; i++)
 *             y[i] = factor * x[i];
 *         return 0;
 *     }
 *
 * The function returns 0, or another number to end the run with an error that has this number. It may run in several threads
 * at once, for several calls. It reads inputs, writes all elements of outputs, and keeps no address beyond its return.
 */
#ifndef BURN_CUSTOM_H
#define BURN_CUSTOM_H

#include <stddef.h>
#include <stdint.h>
#if __has_include(<string.h>) /* machines without an operating system may have none */
#include <string.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. Those narrower than a byte take one, bool is 0 or 1, complex numbers are pairs. */
enum burn_custom_type {
    BURN_CUSTOM_FLOAT64, BURN_CUSTOM_FLOAT32, BURN_CUSTOM_FLOAT16, BURN_CUSTOM_BFLOAT16,
    BURN_CUSTOM_FLOAT8_E4M3FN, BURN_CUSTOM_FLOAT8_E4M3FNUZ, BURN_CUSTOM_FLOAT8_E5M2, BURN_CUSTOM_FLOAT8_E5M2FNUZ,
    BURN_CUSTOM_FLOAT8_E8M0FNU, BURN_CUSTOM_FLOAT4_E2M1FN,
    BURN_CUSTOM_INT2, BURN_CUSTOM_INT4, BURN_CUSTOM_INT8, BURN_CUSTOM_INT16, BURN_CUSTOM_INT32, BURN_CUSTOM_INT64,
    BURN_CUSTOM_UINT2, BURN_CUSTOM_UINT4, BURN_CUSTOM_UINT8, BURN_CUSTOM_UINT16, BURN_CUSTOM_UINT32, BURN_CUSTOM_UINT64,
    BURN_CUSTOM_BOOL, BURN_CUSTOM_COMPLEX64, BURN_CUSTOM_COMPLEX128,
    BURN_CUSTOM_ABSENT = -1 /* an optional operand that the call lacks: its data is NULL, and it has no elements */
};

/* A tensor: dense, in row-major order. */
typedef struct burn_custom_tensor {
    void *data;
    int64_t type; /* burn_custom_type */
    int64_t rank;
    const int64_t *sizes;
    int64_t elements; /* the product of its sizes */
} burn_custom_tensor;

typedef struct burn_custom_call burn_custom_call;

/* A part of the work: iterations from `begin` to `end`, without `end`. */
typedef void (*burn_custom_body)(void *context, int64_t begin, int64_t end);

struct burn_custom_call {
    int64_t inputs, outputs;
    const burn_custom_tensor *input;  /* the operands, in order; their elements must not be written */
    const burn_custom_tensor *output; /* the results */
    const int64_t *attributes;        /* read by the functions below */
    /* Runs a body over [0, count) in ranges of `grain` iterations or more, on the run's threads. Returns when all are done. */
    void (*parallel)(const burn_custom_call *call, burn_custom_body body, void *context, int64_t count, int64_t grain);
    void *run; /* the runtime's */
};

/* ---- attributes by name: numbers, texts, lists of numbers -------------------------------------------------------------- */
/* The table begins with their number. Four words follow for each: the offset of its name, its kind, the number of its values,
 * the offset of the values. Offsets are in bytes. */
enum { BURN_CUSTOM_INTS = 0, BURN_CUSTOM_FLOATS = 1, BURN_CUSTOM_TEXT = 2 };

static inline int burn_custom_same(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static inline const int64_t *burn_custom_find(const burn_custom_call *call, const char *name, int64_t kind) {
    const int64_t *table = call->attributes;
    for (int64_t i = 0; i < table[0]; i++) {
        const int64_t *row = table + 1 + 4 * i;
        if (row[1] == kind && burn_custom_same((const char *)table + row[0], name))
            return row;
    }
    return NULL;
}

/* The integers of an attribute (bools are 0 and 1), and in `count` how many; NULL and 0 without such an attribute. */
static inline const int64_t *burn_custom_ints(const burn_custom_call *call, const char *name, int64_t *count) {
    const int64_t *row = burn_custom_find(call, name, BURN_CUSTOM_INTS);
    *count = row ? row[2] : 0;
    return row ? (const int64_t *)(const void *)((const char *)call->attributes + row[3]) : NULL;
}

static inline const double *burn_custom_floats(const burn_custom_call *call, const char *name, int64_t *count) {
    const int64_t *row = burn_custom_find(call, name, BURN_CUSTOM_FLOATS);
    *count = row ? row[2] : 0;
    return row ? (const double *)(const void *)((const char *)call->attributes + row[3]) : NULL;
}

/* An attribute of one number, or `otherwise`. */
static inline int64_t burn_custom_int(const burn_custom_call *call, const char *name, int64_t otherwise) {
    int64_t count;
    const int64_t *values = burn_custom_ints(call, name, &count);
    return count ? values[0] : otherwise;
}

static inline double burn_custom_float(const burn_custom_call *call, const char *name, double otherwise) {
    int64_t count;
    const double *values = burn_custom_floats(call, name, &count);
    return count ? values[0] : otherwise;
}

/* An attribute's text, which ends with a zero byte; NULL without such an attribute. */
static inline const char *burn_custom_text(const burn_custom_call *call, const char *name) {
    const int64_t *row = burn_custom_find(call, name, BURN_CUSTOM_TEXT);
    return row ? (const char *)call->attributes + row[3] : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
