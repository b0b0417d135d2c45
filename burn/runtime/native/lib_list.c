/* Sequences and optionals: see heap.h. A list's value is a scalar, its word. `site` is the source node, for errors. */
#include <string.h>

#include "heap.h"
#include "lib.h"
#include "lib_keys.h"

static int32_t failed(burn_run *run, int64_t status, int64_t site, int64_t value) {
    burn_rt_fail(run, status, site, value);
    return burn_rt_status(run);
}

static burn_heap *heap_of(burn_run *run) { return &burn_run_texts(run)->heap; }

int32_t burn_lib_list_insert(burn_run *run, int64_t site, const int64_t *list, int64_t has_position,
                             const int64_t *position, int64_t dtype, int64_t rank, const int64_t *dims,
                             const void *data, int64_t bytes, int64_t *result) {
    const burn_item *item = burn_item_new(heap_of(run), dtype, rank, dims, data, bytes, 1);
    if (!item)
        return failed(run, BURN_OUT_OF_MEMORY, site, bytes);
    int64_t at = has_position ? *position : burn_list_count(*list);
    int32_t status = burn_list_insert(heap_of(run), *list, at, item, result);
    return status == BURN_OK ? BURN_OK : failed(run, status, site, at);
}

int32_t burn_lib_list_erase(burn_run *run, int64_t site, const int64_t *list, int64_t has_position,
                            const int64_t *position, int64_t *result) {
    int64_t at = has_position ? *position : -1;
    int32_t status = burn_list_erase(heap_of(run), *list, at, result);
    return status == BURN_OK ? BURN_OK : failed(run, status, site, at);
}

int32_t burn_lib_list_length(burn_run *run, const int64_t *list, int64_t *length) {
    *length = burn_list_count(*list);
    return burn_rt_status(run);
}

/* True if an item has this type: sizes, or -1 for any. */
static int fits(const burn_item *item, int64_t dtype, int64_t rank, const int64_t *dims) {
    int same = item->dtype == dtype && item->rank == rank;
    for (int64_t axis = 0; axis < rank && same; axis++)
        same = dims[axis] < 0 || dims[axis] == item->dims[axis];
    return same;
}

/* The elements of the tensor at a position, of the one of an optional without; `dims` tells which sizes are wanted (-1:
 * any), and is given the tensor's. */
void *burn_lib_list_at(burn_run *run, int64_t site, const int64_t *list, int64_t has_position, const int64_t *position,
                       int64_t dtype, int64_t rank, int64_t *dims) {
    int64_t count = burn_list_count(*list), at = has_position ? *position : 0;
    at += at < 0 ? count : 0;
    if (at < 0 || at >= count) {
        failed(run, has_position ? BURN_INDEX_OUT_OF_RANGE : BURN_EMPTY_LIST, site, has_position ? *position : 0);
        return NULL;
    }
    const burn_item *item = burn_list_item(*list, at);
    if (!fits(item, dtype, rank, dims)) {
        failed(run, BURN_WRONG_ITEM, site, at);
        return NULL;
    }
    if (rank)
        memcpy(dims, item->dims, (size_t)rank * sizeof *dims);
    return (void *)item->data;
}

static int64_t elements(const int64_t *dims, int64_t begin, int64_t end) {
    int64_t total = 1;
    for (int64_t axis = begin; axis < end; axis++)
        total = burn_lib_bytes(total, dims[axis]);
    return total;
}

/* All tensors of a list joined along an axis, which is a new one if `stack`; `rank` and `dims` are the result's. */
void *burn_lib_list_concat(burn_run *run, int64_t site, const int64_t *list, int64_t stack, int64_t axis, int64_t dtype,
                           int64_t rank, int64_t *dims) {
    int64_t count = burn_list_count(*list), length = 0;
    if (!count) {
        failed(run, BURN_EMPTY_LIST, site, 0);
        return NULL;
    }
    const burn_item *first = burn_list_item(*list, 0);
    for (int64_t i = 0; i < count; i++) {
        const burn_item *item = burn_list_item(*list, i);
        int same = item->dtype == dtype && item->rank == rank - stack;
        for (int64_t a = 0; same && a < item->rank; a++)
            same = (!stack && a == axis) || item->dims[a] == first->dims[a];
        if (!same) {
            failed(run, BURN_WRONG_ITEM, site, i);
            return NULL;
        }
        length += stack ? 1 : item->dims[axis];
    }
    for (int64_t a = 0; a < rank; a++) {
        int64_t size = a == axis ? length : first->dims[a - (stack && a > axis)];
        if (dims[a] >= 0 && dims[a] != size) {
            failed(run, BURN_SHAPE_MISMATCH, site, size);
            return NULL;
        }
        dims[a] = size;
    }
    int64_t each = burn_lib_element_bytes(dtype), outer = elements(dims, 0, axis);
    int64_t stride = burn_lib_bytes(elements(dims, axis, rank), each), filled = 0;
    char *joined = burn_rt_alloc(run, burn_lib_bytes(outer, stride));
    for (int64_t i = 0; joined && i < count; i++) {
        const burn_item *item = burn_list_item(*list, i);
        int64_t own = outer ? item->bytes / outer : 0;
        for (int64_t row = 0; row < outer && own; row++)
            memcpy(joined + row * stride + filled, (const char *)item->data + row * own, (size_t)own);
        filled += own;
    }
    return joined;
}

/* Splits a tensor along an axis. The parts have the `count` sizes of `sizes`; if `count` is ALIKE, all have its only
 * size; if it is SLICES, each is one slice, without the axis unless `keep`. */
enum { ALIKE = -1, SLICES = -2 };

int32_t burn_lib_list_split(burn_run *run, int64_t site, int64_t dtype, int64_t rank, const int64_t *dims, int64_t axis,
                            int64_t keep, int64_t count, const int64_t *sizes, const char *x, int64_t *result) {
    int64_t part[BURN_MAX_RANK], length = dims[axis], at = 0, each = burn_lib_element_bytes(dtype);
    int64_t outer = elements(dims, 0, axis), inner = burn_lib_bytes(elements(dims, axis + 1, rank), each);
    int64_t list = 0;
    if (count == ALIKE && sizes[0] < 1)
        return failed(run, BURN_SHAPE_MISMATCH, site, sizes[0]);
    for (int64_t i = 0; count >= 0 ? i < count : at < length; i++) {
        int64_t size = count >= 0 ? sizes[i] : count == ALIKE ? sizes[0] : 1;
        if (count < 0 && size > length - at)
            size = length - at;
        if (size < 0 || size > length - at)
            return failed(run, BURN_SHAPE_MISMATCH, site, size);
        for (int64_t a = 0, to = 0; a < rank; a++)
            if (keep || a != axis)
                part[to++] = a == axis ? size : dims[a];
        int64_t bytes = burn_lib_bytes(outer, burn_lib_bytes(size, inner));
        char *data = burn_heap_new(heap_of(run), bytes < BURN_ALIGNMENT ? BURN_ALIGNMENT : bytes);
        burn_item *item = data ? burn_item_new(heap_of(run), dtype, rank - !keep, part, data, bytes, 0) : NULL;
        int32_t status = item ? burn_list_insert(heap_of(run), list, i, item, &list) : BURN_OUT_OF_MEMORY;
        if (status != BURN_OK)
            return failed(run, status, site, bytes);
        for (int64_t row = 0; row < outer && bytes; row++)
            memcpy(data + row * size * inner, x + (row * length + at) * inner, (size_t)(size * inner));
        at += size;
    }
    if (at != length)
        return failed(run, BURN_SHAPE_MISMATCH, site, at);
    *result = list;
    return burn_rt_status(run);
}
