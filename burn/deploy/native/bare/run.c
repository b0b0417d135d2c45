/* See bare.h. The functions of burn_rt.h that programs of fixed sizes call; other programs are refused at compile time.
 * All indices and sizes are checked, although they equal those of the measured run.
 */
#include "bare.h"

int32_t burn_bare_run(const burn_bare_program *program, void *arena, size_t arena_bytes, const void *const *inputs,
                      void *const *outputs) {
    burn_run run = {program, arena, inputs, outputs, BURN_OK, {0}};
    run.worker.run = &run;
    for (int32_t i = 0; i < program->input_count; i++)
        if (!inputs[i])
            return BURN_INPUT_MISMATCH;
    for (int32_t i = 0; i < program->output_count; i++)
        if (!outputs[i])
            return BURN_OUT_OF_MEMORY;
    int64_t needed = program->planned + program->scratch;
    if (needed && (!arena || (uintptr_t)arena % BURN_BARE_ALIGNMENT || (int64_t)arena_bytes < needed))
        return BURN_OUT_OF_MEMORY;
    int32_t status = program->entry(&run);
    return run.status ? run.status : status;
}

void *burn_bare_fail(burn_run *run, int32_t code) {
    if (!run->status)
        run->status = code;
    return 0;
}

void burn_rt_fail(burn_run *run, int64_t code, int64_t site, int64_t value) {
    (void)site, (void)value;
    burn_bare_fail(run, code ? (int32_t)code : BURN_OUT_OF_MEMORY);
}

void burn_rt_kernel_fail(burn_worker *worker, int64_t code, int64_t site, int64_t value) {
    burn_rt_fail(worker->run, code, site, value);
}

int32_t burn_rt_status(burn_run *run) { return run->status; }

/* ---- values -------------------------------------------------------------------------------------------------------- */

void *burn_rt_input(burn_run *run, int64_t index) {
    return index >= 0 && index < run->program->input_count ? (void *)(uintptr_t)run->inputs[index] : 0;
}

int64_t burn_rt_input_dim(burn_run *run, int64_t index, int64_t axis) {
    return run->program->inputs[index].dims[axis];
}

void *burn_rt_constant(burn_run *run, int64_t index) {
    return (void *)(uintptr_t)(run->program->weights + run->program->constants[index]);
}

void *burn_rt_output(burn_run *run, int64_t index, int64_t rank, const int64_t *dims, int64_t bytes) {
    (void)rank, (void)dims;
    if (run->status || index < 0 || index >= run->program->output_count)
        return 0;
    if (bytes != run->program->outputs[index].bytes)
        return burn_bare_fail(run, BURN_SHAPE_MISMATCH);
    return run->outputs[index];
}

/* ---- data ---------------------------------------------------------------------------------------------------------- */

void burn_rt_copy(burn_run *run, void *to, const void *from, int64_t bytes) {
    if (bytes > 0 && to != from && !run->status)
        __builtin_memcpy(to, from, (size_t)bytes);
}

int64_t burn_rt_read(burn_run *run, const void *from, int64_t bytes) {
    int8_t byte;
    int32_t word;
    int64_t value;
    (void)run;
    if (bytes == 1)
        return __builtin_memcpy(&byte, from, 1), byte;
    if (bytes == 4)
        return __builtin_memcpy(&word, from, 4), word;
    return __builtin_memcpy(&value, from, 8), value;
}

void burn_rt_write(burn_run *run, void *to, int64_t value, int64_t bytes) {
    int8_t byte = (int8_t)value;
    int32_t word = (int32_t)value;
    (void)run;
    __builtin_memcpy(to, bytes == 1 ? (void *)&byte : bytes == 4 ? (void *)&word : (void *)&value, (size_t)bytes);
}

/* ---- launches ------------------------------------------------------------------------------------------------------ */

int32_t burn_rt_launch(burn_run *run, int64_t kernel_id, burn_kernel kernel, const int64_t *args, int64_t count,
                       int64_t grain) {
    (void)kernel_id, (void)grain;
    if (!run->status && count > 0)
        kernel(&run->worker, args, 0, count);
    return run->status;
}

void burn_rt_enter(burn_run *run, int64_t kernel_id) { (void)run, (void)kernel_id; }
void burn_rt_leave(burn_run *run, int64_t kernel_id) { (void)run, (void)kernel_id; }

#include "steps.c"
