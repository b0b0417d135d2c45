/* burn.non_max_suppression: boxes by score, without those that overlap a better one too much. */
#include <math.h>

#include "lib.h"
#include "lib_keys.h"

enum { CORNERS, CENTER, ORDERED }; /* FORMS in burn/dialect/library.py */

typedef struct box {
    double low[2], high[2], area;
} box;

/* Rounds one operation's result to the boxes' element type. An addition, multiplication or division of floats, rounded to double
 * and then to float, equals the float operation, because a double has more than twice a float's bits. */
static inline double rounded(double x, int single) {
    return single ? (double)(float)x : x;
}

static inline double element(const void *x, int64_t at, int single) {
    return single ? (double)((const float *)x)[at] : ((const double *)x)[at];
}

static box read_box(const void *boxes, int64_t at, int64_t form, int single) {
    box result;
    for (int axis = 0; axis < 2; axis++) {
        double first = element(boxes, at * 4 + axis, single), second = element(boxes, at * 4 + 2 + axis, single);
        double from = form == CENTER ? rounded(first - second / 2, single) : first;
        double to = form == CENTER ? rounded(first + second / 2, single) : second;
        result.low[axis] = form == ORDERED ? from : fmin(from, to);
        result.high[axis] = form == ORDERED ? to : fmax(from, to);
    }
    result.area = rounded(rounded(result.high[0] - result.low[0], single) * rounded(result.high[1] - result.low[1], single),
                          single);
    return result;
}

static inline double extent(const box *a, const box *b, int axis, int single) {
    double length = rounded(fmin(a->high[axis], b->high[axis]) - fmax(a->low[axis], b->low[axis]), single);
    return length > 0 ? length : 0;
}

/* True if the intersection is more than `limit` of the union. */
static int overlap(const box *a, const box *b, double limit, int64_t form, int single) {
    double height = extent(a, b, 0, single), width = extent(a, b, 1, single);
    if (!(height > 0 && width > 0) && (form != ORDERED || limit >= 0))
        return 0;
    if (form != ORDERED && (!(a->area > 0) || !(b->area > 0)))
        return 0;
    double both = rounded(height * width, single);
    double whole = rounded(rounded(a->area + b->area, single) - both, single);
    return rounded(both / whole, single) > limit; /* boxes without area give NaN, which is not */
}

/* The candidates, the best first, the earlier one of two equals; NaN is better than infinity. */
static const burn_keyed *by_score(const void *scores, int64_t n, const double *least, int single, burn_keyed *items,
                                  int64_t *count) {
    int64_t dtype = single ? BURN_F32 : BURN_F64;
    *count = 0;
    for (int64_t i = 0; i < n; i++)
        if (!least || element(scores, i, single) > *least) {
            burn_lib_keys(dtype, (const char *)scores + i * (single ? 4 : 8), 1, 1, &items[*count].key, 1);
            items[*count].key ^= single ? 0xFFFFFFFF : ~(uint64_t)0;
            items[(*count)++].index = i;
        }
    return burn_lib_sort_keyed(items, items + n, *count, burn_lib_key_bytes(dtype));
}

/* boxes [batches, n, 4], scores [batches, classes, n], of `dtype`. threshold: null for all boxes. Gives [count, 3]: batch, class,
 * box; returns count. */
int64_t burn_lib_non_max_suppression(burn_run *run, int64_t dtype, int64_t form, int64_t batches, int64_t classes, int64_t n,
                                     const void *boxes, const void *scores, const int64_t *maximum, const double *limit,
                                     int64_t bounded, const double *threshold, int64_t **picked) {
    int single = dtype == BURN_F32;
    int64_t wanted = *maximum, most = wanted < 0 ? 0 : wanted < n ? wanted : n, count = 0;
    burn_keyed *items = burn_rt_alloc(run, burn_lib_bytes(n, 2 * sizeof *items));
    box *all = burn_rt_alloc(run, burn_lib_bytes(n, sizeof *all));
    box *kept = burn_rt_alloc(run, burn_lib_bytes(most, sizeof *kept));
    int64_t *out = burn_rt_alloc(run, 0);
    if (!items || !all || !kept || !out)
        return -1;
    for (int64_t batch = 0; batch < batches; batch++) {
        for (int64_t i = 0; i < n; i++)
            all[i] = read_box(boxes, batch * n + i, form, single);
        for (int64_t class = 0; class < classes; class++) {
            int64_t candidates, kept_here = 0;
            const void *score = (const char *)scores + (batch * classes + class) * n * (single ? 4 : 8);
            const burn_keyed *sorted = by_score(score, n, bounded ? threshold : 0, single, items, &candidates);
            out = burn_rt_grow(run, out, (count + (most < candidates ? most : candidates)) * 3 * (int64_t)sizeof *out);
            if (!out)
                return -1;
            for (int64_t i = 0; i < candidates && kept_here < most; i++) {
                const box *b = &all[sorted[i].index];
                int64_t j = 0;
                while (j < kept_here && !overlap(b, &kept[j], *limit, form, single))
                    j++;
                if (j < kept_here)
                    continue;
                kept[kept_here++] = *b;
                out[count * 3] = batch;
                out[count * 3 + 1] = class;
                out[count++ * 3 + 2] = sorted[i].index;
            }
        }
    }
    burn_rt_free(run, items);
    burn_rt_free(run, all);
    burn_rt_free(run, kept);
    *picked = out;
    return count;
}
