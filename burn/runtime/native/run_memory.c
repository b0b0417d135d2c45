/* Memory of a run: the planned arena, blocks of data-dependent sizes, scratch of kernels, and elements on the host. */
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "run.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Memory for what the program plans or gives: on its device, if it has one. */
void *burn_program_memory_new(const burn_program *program, int64_t bytes) {
    return program->info.device ? burn_device_alloc(program->info.device, bytes) : burn_memory_new(bytes);
}

void burn_program_memory_free(const burn_program *program, void *memory) {
    if (program->info.device)
        burn_device_free(program->info.device, memory);
    else
        burn_memory_free(memory);
}

/* Fills memory for what the program plans with the byte of burn_memory_poison, if there is one. */
static void spoil(burn_run *run, void *memory, int64_t bytes) {
    const burn_program_info *info = &run->program->info;
    if (!info->device)
        burn_memory_spoil(memory, bytes);
    else if (burn_memory_poisoned() >= 0)
        burn_device_spoil(run, memory, bytes);
}

void *burn_rt_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    const burn_program_info *info = &run->program->info;
    if (burn_run_failed(run))
        return NULL;
    if (count != info->buffers)
        return burn_run_fail(run, BURN_SHAPE_MISMATCH, count);
    if (run->trace)
        return burn_trace_plan(run, sizes, count, offsets);
    if (burn_guards_are_on() && !info->device)
        return burn_guarded_plan(run, sizes, count, offsets);
    size_t table = (size_t)count * sizeof *sizes;
    if (!run->have_plan || (table && memcmp(sizes, run->sizes, table) != 0)) {
        if (run->planned) /* a second plan within a run would move buffers that are in use */
            return burn_run_fail(run, BURN_SHAPE_MISMATCH, count);
        run->have_plan = 0;
        burn_plan_result plan = burn_guards_are_on() ? burn_guarded_device_plan(sizes, count, run->offsets)
                                                     : burn_plan(info->live_ranges, sizes, count, run->offsets);
        if (plan.status != BURN_OK)
            return burn_run_fail(run, plan.status, plan.value);
        run->plan_bytes = plan.value;
        if (!burn_run_take(run, plan.value))
            return NULL;
        if (plan.value > run->arena_bytes || !run->arena) {
            if (run->program->info.device)
                burn_recordings_clear(run);
            burn_program_memory_free(run->program, run->arena);
            run->arena_bytes = 0;
            run->arena = burn_program_memory_new(run->program, plan.value);
            if (!run->arena)
                return burn_run_fail(run, BURN_OUT_OF_MEMORY, plan.value);
            run->arena_bytes = plan.value;
        }
        if (table)
            memcpy(run->sizes, sizes, table);
        run->have_plan = 1;
    } else if (!run->planned && !burn_run_take(run, run->plan_bytes))
        return NULL;
    if (!run->planned)
        spoil(run, run->arena, run->plan_bytes);
    if (!run->planned && burn_guards_are_on())
        burn_guarded_device_begin(run);
    run->planned = 1;
    if (table)
        memcpy(offsets, run->offsets, table);
    return run->arena;
}

static allocation *new_block(burn_run *run, int64_t bytes) {
    if (burn_run_failed(run))
        return NULL;
    if (bytes < 0)
        return burn_run_fail(run, BURN_NEGATIVE_SIZE, bytes);
    if (!burn_run_take(run, bytes))
        return NULL;
    allocation *block = bytes <= INT64_MAX - (int64_t)sizeof *block
                            ? burn_memory_new(bytes + (int64_t)sizeof *block)
                            : NULL;
    if (!block)
        return burn_run_fail(run, BURN_OUT_OF_MEMORY, bytes);
    block->bytes = bytes;
    return block;
}

void *burn_rt_alloc(burn_run *run, int64_t bytes) {
    allocation *block = new_block(run, bytes);
    if (!block)
        return NULL;
    block->order = run->next_order++;
    block->previous = NULL;
    block->next = run->allocations;
    if (block->next)
        block->next->previous = block;
    run->allocations = block;
    return block + 1;
}

void *burn_rt_grow(burn_run *run, void *memory, int64_t bytes) {
    if (!memory)
        return burn_rt_alloc(run, bytes);
    allocation *old = (allocation *)memory - 1;
    if (bytes <= old->bytes && bytes >= 0)
        return burn_run_failed(run) ? NULL : memory;
    int64_t more = old->bytes + old->bytes / 2;
    allocation *block = new_block(run, bytes < 0 || bytes > more ? bytes : more);
    if (!block)
        return NULL;
    block->order = old->order;
    block->previous = old->previous;
    block->next = old->next;
    *(block->previous ? &block->previous->next : &run->allocations) = block;
    if (block->next)
        block->next->previous = block;
    memcpy(block + 1, old + 1, (size_t)old->bytes);
    run->taken -= old->bytes;
    burn_memory_free(old);
    return block + 1;
}

int64_t burn_rt_mark(burn_run *run) {
    burn_run_poll(run, 0);
    return burn_run_failed(run) ? -1 : run->next_order++;
}

void burn_rt_release(burn_run *run, int64_t mark) {
    burn_device_release(run, mark);
    while (run->allocations && run->allocations->order > mark)
        burn_rt_free(run, run->allocations + 1);
}

void burn_rt_free(burn_run *run, void *memory) {
    if (!memory)
        return;
    allocation *block = (allocation *)memory - 1;
    if (block->next)
        block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        run->allocations = block->next;
    run->taken -= block->bytes;
    burn_memory_free(block);
}

void *burn_rt_scratch(burn_worker *worker, int64_t bytes) {
    if (bytes <= worker->scratch_bytes && worker->scratch)
        return worker->scratch;
    int64_t most = worker->run->options.most_bytes;
    if (most && bytes > most) { /* of one thread: the kernel's */
        burn_rt_kernel_fail(worker, BURN_TOO_LARGE, -1, bytes);
        return NULL;
    }
    void *larger = burn_memory_new(bytes);
    if (!larger) {
        burn_rt_kernel_fail(worker, bytes < 0 ? BURN_NEGATIVE_SIZE : BURN_OUT_OF_MEMORY, -1, bytes);
        return NULL;
    }
    if (worker->scratch) /* what the kernel wrote so far moves along */
        memcpy(larger, worker->scratch, (size_t)worker->scratch_bytes);
    burn_memory_free(worker->scratch);
    worker->scratch = larger;
    worker->scratch_bytes = bytes;
    return larger;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

void burn_rt_copy(burn_run *run, void *to, const void *from, int64_t bytes) {
    if (bytes > 0 && to != from && !burn_run_failed(run))
        memcpy(to, from, (size_t)bytes);
}

int64_t burn_rt_read(burn_run *run, const void *from, int64_t bytes) {
    int8_t byte = 0;
    int32_t word = 0;
    int64_t value = 0;
    (void)run;
    switch (bytes) {
    case 1:
        memcpy(&byte, from, sizeof byte);
        return byte;
    case 4:
        memcpy(&word, from, sizeof word);
        return word;
    default:
        memcpy(&value, from, sizeof value);
        return value;
    }
}

void burn_rt_write(burn_run *run, void *to, int64_t value, int64_t bytes) {
    int8_t byte = (int8_t)value;
    int32_t word = (int32_t)value;
    (void)run;
    memcpy(to, bytes == 1 ? (void *)&byte : bytes == 4 ? (void *)&word : (void *)&value, (size_t)bytes);
}
