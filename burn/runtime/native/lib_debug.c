/* burn.debug: tensors printed, passed to a function of the host, and searched for NaN and infinity.
 *
 * A tensor is `rank + 3` words: its address, burn_dtype, rank and sizes. Texts are UTF-8; a field in them is the bytes
 * 1, the operand's number, 2, a printf conversion such as "%.3f" or nothing, 3.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "lib.h"
#include "lib_keys.h"
#include "runtime.h"

enum { FIELD = 1, CONVERSION = 2, FIELD_END = 3, MOST_SHOWN = 1000, EDGE = 3 };

static burn_debug_host host;

void burn_set_debug_host(burn_debug_host function) { host = function; }

typedef struct {
    const char *data;
    int64_t dtype, rank;
    const int64_t *dims;
} tensor;

static const int64_t *next_tensor(const int64_t *words, tensor *x) {
    *x = (tensor){(const char *)(uintptr_t)words[0], words[1], words[2], words + 3};
    return words + 3 + x->rank;
}

static int64_t count_of(const tensor *x) {
    int64_t count = 1;
    for (int64_t i = 0; i < x->rank; i++)
        count *= x->dims[i];
    return count;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

static int is_float(int64_t dtype) { return dtype <= BURN_BF16; }

static double float_at(int64_t dtype, const char *data, int64_t i) {
    switch (dtype) {
    case BURN_F64:
        return ((const double *)data)[i];
    case BURN_F32:
        return ((const float *)data)[i];
    case BURN_F16:
    case BURN_BF16: {
        uint32_t half = ((const uint16_t *)data)[i], sign = half >> 15, wide = half << 16;
        if (dtype == BURN_F16) {
            uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
            double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                           : exponent     ? ldexp(1024 + mantissa, (int)exponent - 25)
                                          : ldexp(mantissa, -24);
            return sign ? -value : value;
        }
        float value;
        memcpy(&value, &wide, sizeof value);
        return value;
    }
    default:
        return 0;
    }
}

static int64_t integer_at(int64_t dtype, const char *data, int64_t i) {
    switch (dtype) {
    case BURN_I8:
        return ((const int8_t *)data)[i];
    case BURN_I16:
        return ((const int16_t *)data)[i];
    case BURN_I32:
        return ((const int32_t *)data)[i];
    case BURN_U8:
    case BURN_BOOL:
        return ((const uint8_t *)data)[i];
    case BURN_U16:
        return ((const uint16_t *)data)[i];
    case BURN_U32:
        return ((const uint32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}

static void print_element(FILE *out, const tensor *x, int64_t i, const char *conversion) {
    char text[64];
    if (*conversion) {
        double value = is_float(x->dtype)    ? float_at(x->dtype, x->data, i)
                       : x->dtype == BURN_U64 ? (double)((const uint64_t *)x->data)[i]
                                              : (double)integer_at(x->dtype, x->data, i);
        fprintf(out, conversion, value);
        return;
    }
    int length;
    if (is_float(x->dtype)) {
        double value = float_at(x->dtype, x->data, i);
        length = burn_lib_number_text(x->dtype, &value, text);
    } else if (x->dtype == BURN_BOOL || x->dtype == BURN_U64) {
        length = burn_lib_number_text(x->dtype, x->data + i * (x->dtype == BURN_BOOL ? 1 : 8), text);
    } else {
        int64_t value = integer_at(x->dtype, x->data, i);
        length = burn_lib_number_text(BURN_I64, &value, text);
    }
    fwrite(text, 1, (size_t)length, out);
}

/* The elements from `first` on, along `axis` and those behind it; `stride` elements belong to the axis. */
static void print_axis(FILE *out, const tensor *x, const char *conversion, int64_t axis, int64_t first, int64_t stride,
                       int shorten) {
    if (axis == x->rank) {
        print_element(out, x, first, conversion);
        return;
    }
    int64_t n = x->dims[axis], each = n ? stride / n : 0;
    fputc('[', out);
    for (int64_t i = 0; i < n; i++) {
        if (i)
            fputs(", ", out);
        if (shorten && n > 2 * EDGE && i == EDGE) {
            fputs("..., ", out);
            i = n - EDGE;
        }
        print_axis(out, x, conversion, axis + 1, first + i * each, each, shorten);
    }
    fputc(']', out);
}

/* ---- print ------------------------------------------------------------------------------------------------------- */

static void print_text(FILE *out, const char *text, int64_t bytes, int64_t count, const int64_t *words) {
    for (const char *end = text + bytes; text < end; text++) {
        if (*text != FIELD) {
            fputc(*text, out);
            continue;
        }
        const char *conversion = memchr(text, CONVERSION, (size_t)(end - text));
        const char *last = conversion ? memchr(conversion, FIELD_END, (size_t)(end - conversion)) : NULL;
        char spec[16] = "";
        int64_t number = strtoll(text + 1, NULL, 10);
        if (!last || last - conversion > (int64_t)sizeof spec || number < 0 || number >= count)
            return;
        memcpy(spec, conversion + 1, (size_t)(last - conversion - 1));
        const int64_t *at = words;
        tensor x;
        for (int64_t i = 0; i <= number; i++)
            at = next_tensor(at, &x);
        print_axis(out, &x, spec, 0, 0, count_of(&x), count_of(&x) > MOST_SHOWN);
        text = last;
    }
    fputc('\n', out);
    fflush(out);
}

int32_t burn_lib_debug_print(burn_run *run, int64_t site, int64_t bytes, const char *text, int64_t count,
                             const int64_t *words) {
    if (host) {
        if (host(run, -1, text, bytes, count, words))
            burn_rt_fail(run, BURN_HOST_FAILED, site, 0);
    } else {
        print_text(stderr, text, bytes, count, words);
    }
    return burn_rt_status(run);
}

/* ---- callback ---------------------------------------------------------------------------------------------------- */

int32_t burn_lib_debug_call(burn_run *run, int64_t site, int64_t function, int64_t count, const int64_t *words) {
    if (!host || host(run, function, "", 0, count, words))
        burn_rt_fail(run, BURN_HOST_FAILED, site, function);
    return burn_rt_status(run);
}

/* ---- nans -------------------------------------------------------------------------------------------------------- */

/* The index of the first NaN, with `infinite` also of the first infinity; -1 if there is none. */
static int64_t first_bad(const tensor *x, int64_t infinite) {
    int64_t count = count_of(x);
    if (!is_float(x->dtype))
        return -1;
    for (int64_t i = 0; i < count; i++) {
        double value = float_at(x->dtype, x->data, i);
        if (isnan(value) || (infinite && isinf(value)))
            return i;
    }
    return -1;
}

int32_t burn_lib_check_finite(burn_run *run, int64_t site, int64_t infinite, int64_t results, int64_t count,
                              const int64_t *words) {
    const int64_t *at = words;
    int64_t found = -1;
    tensor x;
    for (int64_t i = 0; i < count; i++) {
        if (i == results && found < 0)
            return burn_rt_status(run);
        at = next_tensor(at, &x);
        int64_t bad = i < results && found >= 0 ? -1 : first_bad(&x, infinite);
        if (bad >= 0 && i >= results)
            return burn_rt_status(run); /* an operand has it already */
        if (bad >= 0)
            found = bad;
    }
    if (found >= 0)
        burn_rt_fail(run, BURN_NOT_FINITE, site, found);
    return burn_rt_status(run);
}
