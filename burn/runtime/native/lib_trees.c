/* burn.tree_leaves: the leaf at which each row ends in each tree. burn/dialect/trees.py says what a node is.
 *
 * A step of a walk waits for a node and for a feature, so LANES independent walks run together. They are walks of one row in
 * several trees, or of several rows in one tree. A step has no branch that depends on data. The walks go on until none of them
 * has moved.
 *
 * Features are copied to memory that has an element for every number in a node's field. A node thus needs no check of its
 * feature, and neither of its child, as the number of nodes is a power of two.
 */
#include <string.h>

#include "lib.h"
#include "lib_keys.h"

enum {
    LANES = 16,
    STEPS = 4,             /* between two checks whether a lane has moved */
    TILE = 8,              /* groups of rows that walk a tree before the next tree is read */
    MOST_COPIED = 1 << 18, /* bytes of a tile's features */
    WORTH_A_THREAD = 1024, /* steps of all lanes */
};

enum { LESS = 1, EQUAL = 2, GREATER = 4, IN_SET = 8, OUTCOME_BITS = 4 }; /* as in burn/dialect/trees.py */

typedef struct ensemble ensemble;

/* Moves LANES walks to their leaves: `at` has their nodes. */
typedef void (*walk)(const ensemble *e, const void *features, uint32_t *at);

struct ensemble {
    walk by_rows, by_trees; /* lanes are rows or trees */
    int64_t element, features, trees, depth, sets, width;
    int64_t used;            /* features that nodes read: they are copied */
    int64_t padded, stride;  /* elements for the features of one row, and between those of two rows */
    int bits, feature_shift; /* of a word: see STEP */
    const char *x;
    const void *nodes, *members;
    const int32_t *roots;
    int32_t *leaves;
};

/* One step of all lanes. `at_feature`: the index of a lane's feature in x. `second`: 1 if `value` leads to the second child. */
#define STEP(real, integer, at_feature, second, check)                                                                 \
    _Pragma("GCC unroll 16") for (int lane = 0; lane < LANES; lane++) {                                                \
        const integer *node = nodes + 2 * (size_t)now[lane];                                                           \
        const integer number = node[0], word = node[1], feature = word >> feature_shift;                               \
        const real value = x[at_feature];                                                                              \
        real split;                                                                                                    \
        memcpy(&split, &number, sizeof split);                                                                         \
        const uint32_t next = (uint32_t)(word & mask) | (uint32_t)(second);                                            \
        check;                                                                                                         \
        now[lane] = next;                                                                                              \
    }

#define WALK(name, real, integer, at_feature, second)                                                                  \
    static void name(const ensemble *e, const void *features, uint32_t *at) {                                          \
        const real *restrict x = features;                                                                             \
        const integer *restrict nodes = e->nodes;                                                                      \
        const integer mask = ((integer)1 << e->bits) - 1;                                                              \
        const int bits = e->bits, feature_shift = e->feature_shift;                                                    \
        uint32_t now[LANES];                                                                                           \
        const size_t stride = (size_t)e->stride;                                                                       \
        (void)bits, (void)stride;                                                                                      \
        memcpy(now, at, sizeof now);                                                                                   \
        int64_t left = e->depth;                                                                                       \
        for (uint32_t moved = 1; left > STEPS && moved; left -= STEPS) {                                               \
            for (int step = 1; step < STEPS; step++)                                                                   \
                STEP(real, integer, at_feature, second, )                                                              \
            moved = 0;                                                                                                 \
            STEP(real, integer, at_feature, second, moved |= next ^ now[lane])                                         \
            if (!moved)                                                                                                \
                left = 0;                                                                                              \
        }                                                                                                              \
        for (; left > 0; left--)                                                                                       \
            STEP(real, integer, at_feature, second, )                                                                  \
        memcpy(at, now, sizeof now);                                                                                   \
    }

#define WALKS(name, real, integer, second)                                                                             \
    WALK(name##_rows, real, integer, feature + (size_t)lane * stride, second)                                          \
    WALK(name##_trees, real, integer, feature, second)

#define OUTCOMES ((uint32_t)(word >> bits))
#define COMPARED ((uint32_t)(value < split) * LESS | (uint32_t)(value == split) * EQUAL | (uint32_t)(value > split) * GREATER)
#define MIXED ((OUTCOMES & COMPARED) != 0)

/* True if a row with `value` goes to the second child of a node with a set. */
#define IS_MEMBER(name, real)                                                                                          \
    static uint32_t name(const ensemble *e, uint64_t set, uint32_t outcomes, real value) {                             \
        const real *members = (const real *)e->members + (set < (uint64_t)e->sets ? (int64_t)set : 0) * e->width;      \
        for (int64_t i = 0; i < e->width; i++)                                                                         \
            if (value == members[i])                                                                                   \
                return (outcomes & EQUAL) != 0;                                                                        \
        return value == value && (outcomes & GREATER) != 0;                                                            \
    }

IS_MEMBER(is_member_f32, float)
IS_MEMBER(is_member_f64, double)

WALKS(lt_f32, float, uint32_t, value < split)
WALKS(le_f32, float, uint32_t, value <= split)
WALKS(mixed_f32, float, uint32_t, MIXED)
WALKS(sets_f32, float, uint32_t, OUTCOMES & IN_SET ? is_member_f32(e, number, OUTCOMES, value) : MIXED)
WALKS(lt_f64, double, uint64_t, value < split)
WALKS(le_f64, double, uint64_t, value <= split)
WALKS(mixed_f64, double, uint64_t, MIXED)
WALKS(sets_f64, double, uint64_t, OUTCOMES & IN_SET ? is_member_f64(e, number, OUTCOMES, value) : MIXED)

static const walk WALKS_OF[2][4][2] = {
    {{lt_f32_rows, lt_f32_trees},
     {le_f32_rows, le_f32_trees},
     {mixed_f32_rows, mixed_f32_trees},
     {sets_f32_rows, sets_f32_trees}},
    {{lt_f64_rows, lt_f64_trees},
     {le_f64_rows, le_f64_trees},
     {mixed_f64_rows, mixed_f64_trees},
     {sets_f64_rows, sets_f64_trees}},
};

static inline uint32_t root_of(const ensemble *e, int64_t tree) {
    return (uint32_t)e->roots[tree] & (((uint32_t)1 << e->bits) - 1);
}

static inline void copy_row(const ensemble *e, int64_t row, char *to) {
    memcpy(to, e->x + row * e->features * e->element, (size_t)(e->used * e->element));
}

/* [begin, end) are groups of LANES rows. */
static void walk_rows(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    const ensemble *e = (const ensemble *)(uintptr_t)args[0];
    int64_t bytes = e->stride * LANES * e->element, most = MOST_COPIED / bytes < TILE ? MOST_COPIED / bytes : TILE;
    char *x = burn_rt_scratch(worker, most * bytes);
    if (!x)
        return;
    for (int64_t tile = begin; tile < end; tile += most) {
        int64_t groups = end - tile < most ? end - tile : most;
        for (int64_t group = 0; group < groups; group++)
            for (int64_t lane = 0; lane < LANES; lane++)
                copy_row(e, (tile + group) * LANES + lane, x + group * bytes + lane * e->stride * e->element);
        for (int64_t tree = 0; tree < e->trees; tree++) {
            for (int64_t group = 0; group < groups; group++) {
                uint32_t at[LANES];
                for (int lane = 0; lane < LANES; lane++)
                    at[lane] = root_of(e, tree);
                e->by_rows(e, x + group * bytes, at);
                int32_t *leaf = e->leaves + (tile + group) * LANES * e->trees + tree;
                for (int lane = 0; lane < LANES; lane++)
                    leaf[lane * e->trees] = (int32_t)at[lane];
            }
        }
    }
}

/* [begin, end) are groups of LANES trees, those of the row args[1] first. Lanes without a tree repeat the last one. */
static void walk_trees(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    const ensemble *e = (const ensemble *)(uintptr_t)args[0];
    int64_t groups = (e->trees + LANES - 1) / LANES;
    char *x = burn_rt_scratch(worker, e->padded * e->element);
    if (!x)
        return;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = args[1] + i / groups, first = i % groups * LANES;
        int64_t count = e->trees - first < LANES ? e->trees - first : LANES;
        uint32_t at[LANES];
        if (i == begin || first == 0)
            copy_row(e, row, x);
        for (int64_t lane = 0; lane < LANES; lane++)
            at[lane] = root_of(e, first + (lane < count ? lane : count - 1));
        e->by_trees(e, x, at);
        memcpy(e->leaves + row * e->trees + first, at, (size_t)count * sizeof *at);
    }
}

int32_t burn_lib_tree_leaves(burn_run *run, int64_t dtype, int64_t rows, int64_t features, int64_t trees, int64_t nodes,
                             int64_t depth, int64_t used, int64_t outcomes, int64_t sets, int64_t width, const void *x,
                             const void *table, const int32_t *roots, const void *members, int32_t *leaves) {
    if (rows == 0 || trees == 0)
        return burn_rt_status(run);
    int kind = outcomes == LESS ? 0 : outcomes == (LESS | EQUAL) ? 1 : sets ? 3 : 2;
    ensemble e = {
        .by_rows = WALKS_OF[dtype == BURN_F64][kind][0],
        .by_trees = WALKS_OF[dtype == BURN_F64][kind][1],
        .element = burn_lib_element_bytes(dtype),
        .features = features,
        .trees = trees,
        .used = used,
        .depth = depth,
        .sets = sets,
        .width = width,
        .x = x,
        .nodes = table,
        .members = members,
        .roots = roots,
        .leaves = leaves,
    };
    while ((int64_t)1 << e.bits < nodes)
        e.bits++;
    int field = 0;
    while ((int64_t)1 << field < used)
        field++;
    e.feature_shift = (int)(8 * e.element - 1 - field);
    e.padded = (int64_t)2 << field; /* the highest bit of a word is zero, if nothing has overwritten the nodes */
    e.stride = e.padded + LANES;    /* not a power of two, so that rows do not share sets of the cache */
    int64_t full = e.stride * LANES * e.element <= MOST_COPIED ? rows / LANES : 0, rest = rows - full * LANES;
    int64_t groups = (trees + LANES - 1) / LANES, steps = depth / 2 + 1;
    int64_t args[2] = {(int64_t)(uintptr_t)&e, full * LANES};
    if (full)
        burn_rt_launch(run, 0, walk_rows, args, full, WORTH_A_THREAD / steps / trees + 1);
    if (rest)
        burn_rt_launch(run, 0, walk_trees, args, rest * groups, WORTH_A_THREAD / steps + 1);
    return burn_rt_status(run);
}
