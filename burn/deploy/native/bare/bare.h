/* A program without an operating system: no C library, no allocation, one thread. All sizes are numbers, so where each buffer lies
 * was decided when the model was compiled, and one arena of the caller's holds all. run.c runs it.
 */
#ifndef BURN_BARE_H
#define BURN_BARE_H

#include "burn_rt.h"

enum { BURN_BARE_RANK = 16, BURN_BARE_ALIGNMENT = 64 }; /* the latter of the arena */

typedef struct burn_bare_value {
    int64_t bytes, rank, dims[BURN_BARE_RANK];
} burn_bare_value;

typedef struct burn_bare_program {
    burn_entry_fn entry;
    const burn_bare_value *inputs, *outputs;
    const unsigned char *weights;
    const int64_t *constants; /* where each begins among the weights */
    const int64_t *sizes, *offsets; /* of the buffers in the arena: what the program will ask for, and where they lie */
    int32_t input_count, output_count, constant_count, buffer_count;
    int64_t planned, scratch; /* bytes of the arena: for the buffers, and behind them for a kernel's own */
} burn_bare_program;

struct burn_worker {
    burn_run *run;
};

struct burn_run {
    const burn_bare_program *program;
    unsigned char *arena;
    const void *const *inputs;
    void *const *outputs;
    int32_t status;
    burn_worker worker;
};

void *burn_bare_fail(burn_run *run, int32_t code); /* records a failure, the first one; NULL */

/* One inference. Returns 0, or a burn_status: BURN_OUT_OF_MEMORY for an arena that is too small or not aligned. */
int32_t burn_bare_run(const burn_bare_program *program, void *arena, size_t arena_bytes, const void *const *inputs,
                      void *const *outputs);

#endif
