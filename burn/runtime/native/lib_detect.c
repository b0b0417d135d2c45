/* burn.non_max_suppression: boxes by score, without those that overlap a better one too much. */
#include <math.h>

#include "lib.h"
#include "lib_keys.h"

typedef struct box {
    float low[2], high[2], area;
} box;

/* Boxes come as two opposite corners in any order, or as centre and size. */
static box read_box(const float *b, int center) {
    box result;
    for (int axis = 0; axis < 2; axis++) {
        float from = center ? b[axis] - b[2 + axis] / 2 : b[axis];
        float to = center ? b[axis] + b[2 + axis] / 2 : b[2 + axis];
        result.low[axis] = fminf(from, to);
        result.high[axis] = fmaxf(from, to);
    }
    result.area = (result.high[0] - result.low[0]) * (result.high[1] - result.low[1]);
    return result;
}

/* Whether the intersection is more than `limit` of the union. */
static int overlap(const box *a, const box *b, float limit) {
    float height = fminf(a->high[0], b->high[0]) - fmaxf(a->low[0], b->low[0]);
    float width = fminf(a->high[1], b->high[1]) - fmaxf(a->low[1], b->low[1]);
    if (!(height > 0) || !(width > 0) || !(a->area > 0) || !(b->area > 0))
        return 0;
    float both = height * width;
    return both / (a->area + b->area - both) > limit;
}

/* boxes [batches, n, 4], scores [batches, classes, n]. Gives [count, 3]: batch, class, box; returns count. */
int64_t burn_lib_non_max_suppression(burn_run *run, int64_t center, int64_t batches, int64_t classes, int64_t n,
                                     const float *boxes, const float *scores, const int64_t *maximum,
                                     const float *limit, const float *threshold, int64_t **picked) {
    int64_t wanted = *maximum, most = wanted < 0 ? 0 : wanted < n ? wanted : n, count = 0;
    float least = *threshold, shared = *limit;
    burn_keyed *items = burn_rt_alloc(run, burn_lib_bytes(n, 2 * sizeof *items));
    box *all = burn_rt_alloc(run, burn_lib_bytes(n, sizeof *all));
    box *kept = burn_rt_alloc(run, burn_lib_bytes(most, sizeof *kept));
    int64_t *out = burn_rt_alloc(run, 0);
    if (!items || !all || !kept || !out)
        return -1;
    for (int64_t batch = 0; batch < batches; batch++) {
        for (int64_t i = 0; i < n; i++)
            all[i] = read_box(boxes + (batch * n + i) * 4, center != 0);
        for (int64_t class = 0; class < classes; class++) {
            const float *score = scores + (batch * classes + class) * n;
            int64_t candidates = 0, kept_here = 0;
            for (int64_t i = 0; i < n; i++)
                if (score[i] > least) {
                    burn_lib_keys(BURN_F32, &score[i], 1, 1, &items[candidates].key, 1);
                    items[candidates].key ^= 0xFFFFFFFF; /* the best first, the earlier one of two equals */
                    items[candidates++].index = i;
                }
            const burn_keyed *sorted = burn_lib_sort_keyed(items, items + n, candidates, sizeof *score);
            out = burn_rt_grow(run, out, (count + (most < candidates ? most : candidates)) * 3 * (int64_t)sizeof *out);
            if (!out)
                return -1;
            for (int64_t i = 0; i < candidates && kept_here < most; i++) {
                const box *b = &all[sorted[i].index];
                int64_t j = 0;
                while (j < kept_here && !overlap(b, &kept[j], shared))
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
