/* burn.sort: every row along the axis is sorted by one thread. */
#include <string.h>

#include "lib.h"
#include "lib_keys.h"

enum { ARG_DTYPE, ARG_N, ARG_INNER, ARG_DESCENDING, ARG_X, ARG_VALUES, ARG_INDICES, ARGS };

#define SCATTER(type)                                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        memcpy(values + (start + i * inner) * (int64_t)sizeof(type),                                                   \
               x + (start + sorted[i].index * inner) * (int64_t)sizeof(type), sizeof(type));

/* [begin, end) are rows; row r of [outer, n, inner] starts at element (r / inner) * n * inner + r % inner. */
static void sort_rows(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    int64_t dtype = args[ARG_DTYPE], n = args[ARG_N], inner = args[ARG_INNER];
    const char *x = (const char *)(uintptr_t)args[ARG_X];
    char *values = (char *)(uintptr_t)args[ARG_VALUES];
    int64_t *indices = (int64_t *)(uintptr_t)args[ARG_INDICES];
    int64_t bytes = burn_lib_element_bytes(dtype);
    burn_keyed *items = burn_rt_scratch(worker, burn_lib_bytes(n, 2 * sizeof *items));
    if (!items)
        return;
    /* Descending order is ascending order of the complements, so that equal elements keep their order. */
    uint64_t flip = args[ARG_DESCENDING] ? ~(uint64_t)0 >> (64 - 8 * burn_lib_key_bytes(dtype)) : 0;
    for (int64_t row = begin; row < end; row++) {
        int64_t start = row / inner * n * inner + row % inner;
        burn_lib_keys(dtype, x + start * bytes, n, inner, &items[0].key, 2);
        for (int64_t i = 0; i < n; i++) {
            items[i].key ^= flip;
            items[i].index = i;
        }
        const burn_keyed *sorted = burn_lib_sort_keyed(items, items + n, n, burn_lib_key_bytes(dtype));
        for (int64_t i = 0; i < n; i++)
            indices[start + i * inner] = sorted[i].index;
        switch (bytes) {
        case 1:
            SCATTER(uint8_t)
            break;
        case 2:
            SCATTER(uint16_t)
            break;
        case 4:
            SCATTER(uint32_t)
            break;
        default:
            SCATTER(uint64_t)
        }
    }
}

int32_t burn_lib_sort(burn_run *run, int64_t dtype, int64_t outer, int64_t n, int64_t inner, int64_t descending,
                      const void *x, void *values, int64_t *indices) {
    enum { WORTH_A_THREAD = 4096 }; /* elements */
    if (n == 0)
        return burn_rt_status(run);
    int64_t args[ARGS] = {
        [ARG_DTYPE] = dtype,
        [ARG_N] = n,
        [ARG_INNER] = inner,
        [ARG_DESCENDING] = descending,
        [ARG_X] = (int64_t)(uintptr_t)x,
        [ARG_VALUES] = (int64_t)(uintptr_t)values,
        [ARG_INDICES] = (int64_t)(uintptr_t)indices,
    };
    return burn_rt_launch(run, 0, sort_rows, args, outer * inner, n < WORTH_A_THREAD ? WORTH_A_THREAD / n : 1);
}
