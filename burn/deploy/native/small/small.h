/* Interface and runtime of a small library: one thread, tensors of numbers, error codes without
 * texts. It is a part of the C file that burn-compile writes (small.c). There the model's tables are
 * constants; the compiler drops unused ones. A program that calls other functions is linked with the normal
 * runtime.
 */
#ifndef BURN_DEPLOY_SMALL_H
#define BURN_DEPLOY_SMALL_H

#define BURN_OWN static /* what files share elsewhere is one file's own here */

#include "model.h"

#include <stdatomic.h>

#include "checksum.h"

/* A block from burn_rt_alloc, in front of its memory; the latest is the first of a run's list. */
typedef struct block {
    struct block *next;
    int64_t bytes, order;
    char padding[BURN_ALIGNMENT - sizeof(void *) - 2 * sizeof(int64_t)];
} block;

typedef struct made {
    void *data;
    int64_t bytes;
} made;

/* One inference. Its memory is kept for the next. */
struct burn_run {
    burn_model *model;
    const burn_tensor *inputs;
    burn_tensor *outputs;
    int32_t status;
    int64_t value;
    burn_worker worker;
    void *arena;
    int64_t arena_bytes, next_order;
    block *blocks;
    uint64_t state[2]; /* of random numbers */
    made made[];       /* the outputs */
};

struct burn_model {
    burn_weights weights;
    _Atomic(burn_run *) spare; /* of a call that is done */
    _Atomic uint64_t seed, draws;
};

#endif
