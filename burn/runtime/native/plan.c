/* The memory planner: buffers that are never alive at the same step may share memory.
 *
 * Greedy by size (as in Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
 * Largest first, each buffer goes into the smallest gap that holds it between the placed buffers with overlapping
 * lifetimes. Placed buffers are sorted by offset, so one pass finds the gaps.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

typedef struct item {
    int64_t size, first, last, index;
} item;

typedef struct placed {
    int64_t first, last, begin, end;
} placed;

/* No model is near this; below it no sum of two offsets can overflow. */
static const int64_t LIMIT = (int64_t)1 << 60;

/* From this size on, buffers of whole pages are longer by BURN_SPREAD, so that their successors begin at other offsets. */
static const int64_t SPREAD_FROM = 64 << 10, PAGE = 4 << 10;

static int64_t spread(int64_t size) {
    const int64_t whole = (size + BURN_ALIGNMENT - 1) / BURN_ALIGNMENT * BURN_ALIGNMENT;
    return whole >= SPREAD_FROM && whole % PAGE == 0 ? whole + BURN_SPREAD : whole;
}

static int largest_first(const void *left, const void *right) {
    const item *a = left, *b = right;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index; /* the same plan for the same sizes, whatever qsort does */
}

/* Where `item` goes; *at is the position among the placed buffers that keeps them in order. */
static int64_t best_gap(const item *it, const placed *list, int64_t count, int64_t *at) {
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        const placed *p = &list[i];
        if (p->first > it->last || p->last < it->first)
            continue;
        int64_t gap = p->begin - top;
        if (gap >= it->size && gap < best_size) {
            best = top;
            best_size = gap;
            if (gap == it->size)
                break;
        }
        if (p->end > top)
            top = p->end;
    }
    if (best < 0)
        best = top;
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (list[middle].begin < best)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return best;
}

burn_plan_result burn_plan(const burn_live_range *ranges, const int64_t *sizes, int64_t count, int64_t *offsets) {
    if (count == 0)
        return (burn_plan_result){BURN_OK, 0};
    if (count > LIMIT / (int64_t)sizeof(placed))
        return (burn_plan_result){BURN_OUT_OF_MEMORY, count};
    item *items = malloc((size_t)count * sizeof *items);
    placed *list = malloc((size_t)count * sizeof *list);
    burn_plan_result result = {BURN_OK, 0};
    if (!items || !list) {
        result = (burn_plan_result){BURN_OUT_OF_MEMORY, count * (int64_t)sizeof(item)};
        goto done;
    }
    int64_t wanted = 0;
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = 0;
        if (sizes[i] < 0) {
            result = (burn_plan_result){BURN_NEGATIVE_SIZE, sizes[i]};
            goto done;
        }
        if (sizes[i] > LIMIT) {
            result = (burn_plan_result){BURN_OUT_OF_MEMORY, sizes[i]};
            goto done;
        }
        if (sizes[i] > 0)
            items[wanted++] = (item){spread(sizes[i]), ranges[i].first, ranges[i].last, i};
    }
    qsort(items, (size_t)wanted, sizeof *items, largest_first);
    for (int64_t i = 0; i < wanted; i++) {
        int64_t at, begin = best_gap(&items[i], list, i, &at), end = begin + items[i].size;
        if (end > LIMIT) {
            result = (burn_plan_result){BURN_OUT_OF_MEMORY, end};
            goto done;
        }
        memmove(&list[at + 1], &list[at], (size_t)(i - at) * sizeof *list);
        list[at] = (placed){items[i].first, items[i].last, begin, end};
        offsets[items[i].index] = begin;
        if (end > result.value)
            result.value = end;
    }
done:
    free(items);
    free(list);
    return result;
}
