/* Memory of a program without an operating system: buffers and kernel scratch at offsets that were planned
 * at compile time. */
#include "bare.h"

void *burn_rt_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    const burn_bare_program *program = run->program;
    if (run->status || count != program->buffer_count)
        return burn_bare_fail(run, BURN_SHAPE_MISMATCH);
    for (int64_t i = 0; i < count; i++) {
        if (sizes[i] != program->sizes[i])
            return burn_bare_fail(run, BURN_SHAPE_MISMATCH);
        offsets[i] = program->offsets[i];
    }
    return run->arena;
}

void *burn_rt_scratch(burn_worker *worker, int64_t bytes) {
    const burn_bare_program *program = worker->run->program;
    if (bytes > program->scratch)
        return burn_bare_fail(worker->run, BURN_OUT_OF_MEMORY);
    return worker->run->arena + program->planned;
}
