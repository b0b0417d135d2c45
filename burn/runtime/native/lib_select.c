/* burn.nonzero and burn.unique: which elements there are. Their results are as long as the data say: the functions
 * return the length and give the address of memory from burn_rt_alloc.
 */
#include <string.h>

#include "lib.h"
#include "lib_keys.h"

static int64_t elements(const int64_t *dims, int64_t count) {
    int64_t total = 1;
    for (int64_t i = 0; i < count; i++)
        total *= dims[i];
    return total;
}

/* ---- nonzero ----------------------------------------------------------------------------------------------------- */

enum { CHUNK = 512 };

#define NONZERO(type)                                                                                                  \
    {                                                                                                                  \
        const type *words = (const type *)x + start * parts;                                                           \
        if (parts == 1)                                                                                                \
            for (int64_t i = 0; i < count; i++)                                                                        \
                found[i] = (words[i] & (type)mask) != 0;                                                               \
        else                                                                                                           \
            for (int64_t i = 0; i < count; i++)                                                                        \
                found[i] = ((words[2 * i] | words[2 * i + 1]) & (type)mask) != 0;                                      \
        break;                                                                                                         \
    }

/* Which of `count` <= CHUNK elements from `start` on are not zero, as bytes; returns how many. */
static int64_t find_nonzero(int64_t dtype, const void *x, int64_t start, int64_t count, unsigned char *found) {
    int64_t parts = burn_lib_key_parts(dtype), total = 0;
    uint64_t mask = burn_lib_zero_mask(dtype);
    switch (burn_lib_element_bytes(dtype) / parts) {
    case 1:
        NONZERO(uint8_t)
    case 2:
        NONZERO(uint16_t)
    case 4:
        NONZERO(uint32_t)
    default:
        NONZERO(uint64_t)
    }
    if (mask == 0)
        memset(found, 1, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        total += found[i];
    return total;
}

int64_t burn_lib_nonzero(burn_run *run, int64_t dtype, int64_t rank, const int64_t *dims, const void *x,
                         int64_t **indices) {
    unsigned char found[CHUNK];
    int64_t total = elements(dims, rank), count = 0, at = 0;
    for (int64_t start = 0; start < total; start += CHUNK)
        count += find_nonzero(dtype, x, start, total - start < CHUNK ? total - start : CHUNK, found);
    int64_t rows = rank ? rank : 1; /* a scalar counts as one element on one axis */
    int64_t *out = *indices = burn_rt_alloc(run, burn_lib_bytes(count, rows * (int64_t)sizeof *out));
    if (!out)
        return -1;
    for (int64_t start = 0; start < total; start += CHUNK) {
        int64_t here = total - start < CHUNK ? total - start : CHUNK, linear[CHUNK], hits = 0;
        find_nonzero(dtype, x, start, here, found);
        for (int64_t i = 0; i < here; i++) { /* no branch: which ones are zero cannot be foreseen */
            linear[hits] = start + i;
            hits += found[i];
        }
        if (hits > count - at) /* the elements have changed since they were counted */
            hits = count - at;
        for (int64_t axis = rank - 1; axis > 0; axis--)
            for (int64_t i = 0; i < hits; i++) {
                out[axis * count + at + i] = linear[i] % dims[axis];
                linear[i] /= dims[axis];
            }
        memcpy(out + at, linear, (size_t)hits * sizeof *out);
        at += hits;
    }
    for (int64_t axis = 0; axis < rows && at < count; axis++)
        memset(out + axis * count + at, 0, (size_t)(count - at) * sizeof *out);
    return count;
}

/* ---- unique ------------------------------------------------------------------------------------------------------ */

static int compare_rows(const uint64_t *keys, int64_t width, int64_t a, int64_t b) {
    for (const uint64_t *x = keys + a * width, *y = keys + b * width, *end = x + width; x < end; x++, y++)
        if (*x != *y)
            return *x < *y ? -1 : 1;
    return 0;
}

/* Sorts row numbers by their rows of keys, stably. Returns `order` or `spare`, whichever holds them. */
static int64_t *sort_rows(const uint64_t *keys, int64_t width, int64_t *order, int64_t *spare, int64_t count) {
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t at = 0; at < count; at += 2 * run) {
            int64_t a = at, middle = at + run < count ? at + run : count, b = middle;
            int64_t end = middle + run < count ? middle + run : count;
            for (int64_t to = at; to < end; to++)
                if (b >= end || (a < middle && compare_rows(keys, width, order[a], order[b]) <= 0))
                    spare[to] = order[a++];
                else
                    spare[to] = order[b++];
        }
        int64_t *sorted = spare;
        spare = order;
        order = sorted;
    }
    return order;
}

/* The numbers 0 .. n-1 in the order of the rows of keys. The block to free goes to *block.
 * NULL for a run that has failed. */
static int64_t *order_rows(burn_run *run, int64_t dtype, const uint64_t *keys, int64_t width, int64_t n, void **block) {
    if (width != 1) {
        int64_t *order = *block = burn_rt_alloc(run, burn_lib_bytes(n, 2 * sizeof *order));
        if (!order)
            return NULL;
        for (int64_t i = 0; i < n; i++)
            order[i] = i;
        return sort_rows(keys, width, order, order + n, n);
    }
    burn_keyed *items = *block = burn_rt_alloc(run, burn_lib_bytes(n, 2 * sizeof *items));
    if (!items)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        items[i] = (burn_keyed){keys[i], i};
    const burn_keyed *sorted = burn_lib_sort_keyed(items, items + n, n, burn_lib_key_bytes(dtype));
    int64_t *order = (int64_t *)(sorted == items ? items + n : items); /* the half that is free */
    for (int64_t i = 0; i < n; i++)
        order[i] = sorted[i].index;
    return order;
}

/* x is [outer, n, inner]; finds the distinct slices among the n along the middle axis. The caller provides inverse [n]. Results
 * are values [outer, count, inner], the first index of each [count] and its number of occurrences [count]. */
int64_t burn_lib_unique(burn_run *run, int64_t dtype, int64_t by_value, int64_t outer, int64_t n, int64_t inner,
                        const void *x, int64_t *inverse, void **values, int64_t **first, int64_t **counts) {
    int64_t bytes = burn_lib_element_bytes(dtype), parts = burn_lib_key_parts(dtype), width = outer * inner * parts;
    uint64_t *keys = burn_rt_alloc(run, burn_lib_bytes(n, width * (int64_t)sizeof *keys));
    if (!keys)
        return -1;
    for (int64_t i = 0; n > 0 && i < outer; i++)
        for (int64_t k = 0; k < inner; k++)
            burn_lib_keys(dtype, (const char *)x + (i * n * inner + k) * bytes, n, inner,
                          keys + (i * inner + k) * parts, width);
    void *block;
    const int64_t *order = order_rows(run, dtype, keys, width, n, &block);

    /* Groups are numbered by value; `first` and `counts` are at most n long. The sort is stable, so that the first of
     * a group in order is its first in x. */
    int64_t *starts = *first = burn_rt_alloc(run, burn_lib_bytes(n, sizeof *starts));
    int64_t *sizes = *counts = burn_rt_alloc(run, burn_lib_bytes(n, sizeof *sizes));
    if (!order || !starts || !sizes)
        return -1;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || compare_rows(keys, width, order[i - 1], order[i]) != 0) {
            starts[count] = order[i];
            sizes[count++] = 0;
        }
        sizes[count - 1]++;
        inverse[order[i]] = count - 1;
    }
    if (!by_value) { /* renumber in the order of first appearance */
        int64_t *number = burn_rt_alloc(run, burn_lib_bytes(count, 2 * sizeof *number)), *by_number = number + count;
        if (!number)
            return -1;
        int64_t next = 0;
        for (int64_t i = 0; i < n; i++)
            if (starts[inverse[i]] == i) {
                by_number[next] = sizes[inverse[i]];
                number[inverse[i]] = next++;
            }
        for (int64_t i = 0; i < n; i++)
            inverse[i] = number[inverse[i]];
        for (int64_t i = n - 1; i >= 0; i--) /* backwards: the first one is written last */
            starts[inverse[i]] = i;
        memcpy(sizes, by_number, (size_t)count * sizeof *sizes);
        burn_rt_free(run, number);
    }
    char *out = *values = burn_rt_alloc(run, outer * count * inner * bytes);
    if (!out)
        return -1;
    size_t row = (size_t)(inner * bytes);
    for (int64_t i = 0; count > 0 && i < outer; i++)
        for (int64_t j = 0; j < count; j++, out += row)
            memcpy(out, (const char *)x + (size_t)(i * n + starts[j]) * row, row);
    burn_rt_free(run, block);
    burn_rt_free(run, keys);
    return count;
}
