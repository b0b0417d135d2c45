/* Programs and their runs: what generated code reaches through burn_rt.h.
 *
 * A program keeps a stock of run contexts. A context owns what is worth keeping from one inference to the next: the
 * arena and the plan of its last sizes. Each thread that calls the program at the same time takes a context of its own.
 *
 * A failed run ends at the next call that launches or gives memory: that call does not return but jumps back to
 * burn_program_run. So generated code never sees a null pointer, and never goes on with sizes that a failed kernel did
 * not write. It holds nothing that would have to be released.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime.h"

/* A block from burn_rt_alloc: its neighbours in the run's list are in front of the 64-byte aligned payload. */
typedef struct allocation {
    struct allocation *previous, *next;
    int64_t bytes, order; /* of the payload; when it was allocated */
    char padding[BURN_ALIGNMENT - 2 * sizeof(void *) - 2 * sizeof(int64_t)];
} allocation;

struct burn_run {
    burn_program *program;
    burn_run *next_free;
    burn_worker worker; /* of the thread that called the program */
    /* this inference */
    const burn_input *inputs;
    burn_output *outputs;
    burn_profile_row *profile;
    jmp_buf escape;
    int64_t bracket_depth; /* launches inside a bracketed library call are part of its time */
    allocation *allocations; /* the latest first */
    int64_t next_order;
    int planned;
    _Atomic int32_t status;
    int64_t site, value;
    /* kept between inferences */
    void *arena;
    int64_t arena_bytes;
    int have_plan;
    int64_t *sizes, *offsets;
};

struct burn_program {
    burn_program_info info;
    pthread_mutex_t lock;
    burn_run *free_runs;
};

int64_t burn_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void *copy_table(const void *table, int64_t count, size_t size, int *ok) {
    void *copy = malloc(count ? (size_t)count * size : 1);
    if (!copy)
        *ok = 0;
    else if (count)
        memcpy(copy, table, (size_t)count * size);
    return copy;
}

burn_program *burn_program_new(const burn_program_info *info) {
    burn_program *program = calloc(1, sizeof *program);
    if (!program)
        return NULL;
    int ok = 1;
    program->info = *info;
    pthread_mutex_init(&program->lock, NULL);
    program->info.constant_data = copy_table(info->constant_data, info->constants, sizeof(void *), &ok);
    program->info.live_ranges = copy_table(info->live_ranges, info->buffers, sizeof(burn_live_range), &ok);
    program->info.aliases = copy_table(info->aliases, info->outputs, sizeof(int64_t), &ok);
    if (!ok) {
        burn_program_delete(program);
        return NULL;
    }
    return program;
}

static void delete_run(burn_run *run) {
    burn_memory_free(run->arena);
    burn_memory_free(run->worker.scratch);
    free(run->sizes);
    free(run->offsets);
    free(run);
}

void burn_program_delete(burn_program *program) {
    if (!program)
        return;
    while (program->free_runs) {
        burn_run *run = program->free_runs;
        program->free_runs = run->next_free;
        delete_run(run);
    }
    pthread_mutex_destroy(&program->lock);
    free((void *)program->info.constant_data);
    free((void *)program->info.live_ranges);
    free((void *)program->info.aliases);
    free(program);
}

static burn_run *take_run(burn_program *program) {
    pthread_mutex_lock(&program->lock);
    burn_run *run = program->free_runs;
    if (run)
        program->free_runs = run->next_free;
    pthread_mutex_unlock(&program->lock);
    if (run)
        return run;
    run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    size_t table = (size_t)(program->info.buffers ? program->info.buffers : 1) * sizeof(int64_t);
    run->program = program;
    run->worker.run = run;
    run->sizes = malloc(table);
    run->offsets = malloc(table);
    if (!run->sizes || !run->offsets) {
        delete_run(run);
        return NULL;
    }
    return run;
}

static void give_run(burn_program *program, burn_run *run) {
    pthread_mutex_lock(&program->lock);
    run->next_free = program->free_runs;
    program->free_runs = run;
    pthread_mutex_unlock(&program->lock);
}

/* A function of its own: a local variable does not survive the jump. */
static void call_entry(burn_run *run) {
    if (setjmp(run->escape) != 0)
        return;
    int32_t returned = run->program->info.entry(run);
    if (returned != BURN_OK)
        burn_rt_fail(run, returned, -1, 0); /* has no effect on a failure already recorded */
}

burn_failure burn_program_run(burn_program *program, const burn_input *inputs, burn_output *outputs,
                              burn_profile_row *profile) {
    burn_run *run = take_run(program);
    if (!run)
        return (burn_failure){BURN_OUT_OF_MEMORY, -1, (int64_t)sizeof *run};
    run->inputs = inputs;
    run->outputs = outputs;
    run->profile = profile;
    run->bracket_depth = 0;
    run->planned = 0;
    run->site = -1;
    run->value = 0;
    atomic_store_explicit(&run->status, BURN_OK, memory_order_relaxed);
    for (int64_t i = 0; i < program->info.outputs; i++) {
        outputs[i].data = NULL;
        outputs[i].taken_from = -1;
    }
    call_entry(run);
    while (run->allocations)
        burn_rt_free(run, run->allocations + 1);
    for (int64_t i = 0; i < program->info.outputs; i++)
        if (!outputs[i].data)
            burn_rt_fail(run, BURN_OUT_OF_MEMORY, -1, 0);
    burn_failure failure = {atomic_load(&run->status), run->site, run->value};
    if (failure.code != BURN_OK)
        for (int64_t i = 0; i < program->info.outputs; i++) {
            if (outputs[i].taken_from < 0)
                burn_memory_free(outputs[i].data);
            outputs[i].data = NULL;
        }
    give_run(program, run);
    return failure;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

void burn_rt_fail(burn_run *run, int64_t code, int64_t site, int64_t value) {
    int32_t none = BURN_OK;
    /* Kernels of one launch may fail on several threads; the first to get here writes the rest. */
    if (atomic_compare_exchange_strong(&run->status, &none, code ? (int32_t)code : BURN_OUT_OF_MEMORY)) {
        run->site = site;
        run->value = value;
    }
}

void burn_rt_kernel_fail(burn_worker *worker, int64_t code, int64_t site, int64_t value) {
    burn_rt_fail(worker->run, code, site, value);
}

int32_t burn_rt_status(burn_run *run) { return atomic_load_explicit(&run->status, memory_order_relaxed); }

int burn_run_failed(burn_run *run) { return burn_rt_status(run) != BURN_OK; }

static _Noreturn void give_up(burn_run *run, int64_t code, int64_t value) {
    burn_rt_fail(run, code, -1, value);
    longjmp(run->escape, 1);
}

static void stop_if_failed(burn_run *run) {
    if (burn_run_failed(run))
        longjmp(run->escape, 1);
}

/* An index that generated code gave the runtime. Only a faulty compiler gives a wrong one. */
static void check_index(burn_run *run, int64_t index, int64_t count) {
    if (index < 0 || index >= count)
        give_up(run, BURN_INDEX_OUT_OF_RANGE, index);
}

/* ---- inputs, constants, outputs ---------------------------------------------------------------------------------- */

void *burn_rt_input(burn_run *run, int64_t index) {
    check_index(run, index, run->program->info.inputs);
    return run->inputs[index].data;
}

int64_t burn_rt_input_dim(burn_run *run, int64_t index, int64_t axis) {
    check_index(run, index, run->program->info.inputs);
    check_index(run, axis, run->inputs[index].rank);
    return run->inputs[index].dims[axis];
}

void *burn_rt_constant(burn_run *run, int64_t index) {
    check_index(run, index, run->program->info.constants);
    return run->program->info.constant_data[index];
}

void *burn_rt_output(burn_run *run, int64_t index, int64_t rank, const int64_t *dims, int64_t bytes) {
    stop_if_failed(run);
    check_index(run, index, run->program->info.outputs);
    check_index(run, rank, BURN_MAX_RANK + 1);
    for (int64_t axis = 0; axis < rank; axis++)
        if (dims[axis] < 0)
            bytes = dims[axis];
    if (bytes < 0)
        give_up(run, BURN_NEGATIVE_SIZE, bytes);
    burn_output *output = &run->outputs[index];
    if (output->taken_from < 0)
        burn_memory_free(output->data); /* asked for a second time, with another size */
    output->taken_from = -1;
    output->data = NULL;
    int64_t from = run->program->info.aliases[index];
    const burn_input *donor = from >= 0 && from < run->program->info.inputs ? &run->inputs[from] : NULL;
    if (donor && donor->donated && donor->bytes == bytes && (uintptr_t)donor->data % BURN_ALIGNMENT == 0) {
        output->data = donor->data;
        output->taken_from = from;
    } else {
        output->data = burn_memory_new(bytes);
        if (!output->data)
            give_up(run, BURN_OUT_OF_MEMORY, bytes);
    }
    output->bytes = bytes;
    output->rank = rank;
    if (rank)
        memcpy(output->dims, dims, (size_t)rank * sizeof *dims);
    return output->data;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *burn_rt_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    const burn_program_info *info = &run->program->info;
    stop_if_failed(run);
    if (count != info->buffers)
        give_up(run, BURN_SHAPE_MISMATCH, count);
    size_t table = (size_t)count * sizeof *sizes;
    if (!run->have_plan || (table && memcmp(sizes, run->sizes, table) != 0)) {
        if (run->planned) /* a second plan within a run would move buffers that are in use */
            give_up(run, BURN_SHAPE_MISMATCH, count);
        run->have_plan = 0;
        burn_plan_result plan = burn_plan(info->live_ranges, sizes, count, run->offsets);
        if (plan.status != BURN_OK)
            give_up(run, plan.status, plan.value);
        if (plan.value > run->arena_bytes || !run->arena) {
            burn_memory_free(run->arena);
            run->arena_bytes = 0;
            run->arena = burn_memory_new(plan.value);
            if (!run->arena)
                give_up(run, BURN_OUT_OF_MEMORY, plan.value);
            run->arena_bytes = plan.value;
        }
        if (table)
            memcpy(run->sizes, sizes, table);
        run->have_plan = 1;
    }
    run->planned = 1;
    if (table)
        memcpy(offsets, run->offsets, table);
    return run->arena;
}

static allocation *new_block(burn_run *run, int64_t bytes) {
    if (bytes < 0)
        give_up(run, BURN_NEGATIVE_SIZE, bytes);
    allocation *block = bytes <= INT64_MAX - (int64_t)sizeof *block
                            ? burn_memory_new(bytes + (int64_t)sizeof *block)
                            : NULL;
    if (!block)
        give_up(run, BURN_OUT_OF_MEMORY, bytes);
    block->bytes = bytes;
    return block;
}

void *burn_rt_alloc(burn_run *run, int64_t bytes) {
    stop_if_failed(run);
    allocation *block = new_block(run, bytes);
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
    stop_if_failed(run);
    allocation *old = (allocation *)memory - 1;
    if (bytes <= old->bytes && bytes >= 0)
        return memory;
    int64_t more = old->bytes + old->bytes / 2;
    allocation *block = new_block(run, bytes < 0 || bytes > more ? bytes : more);
    block->order = old->order;
    block->previous = old->previous;
    block->next = old->next;
    *(block->previous ? &block->previous->next : &run->allocations) = block;
    if (block->next)
        block->next->previous = block;
    memcpy(block + 1, old + 1, (size_t)old->bytes);
    burn_memory_free(old);
    return block + 1;
}

int64_t burn_rt_mark(burn_run *run) {
    stop_if_failed(run);
    return run->next_order++;
}

void burn_rt_release(burn_run *run, int64_t mark) {
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
    burn_memory_free(block);
}

void *burn_rt_scratch(burn_worker *worker, int64_t bytes) {
    if (bytes <= worker->scratch_bytes && worker->scratch)
        return worker->scratch;
    void *larger = burn_memory_new(bytes);
    if (!larger) {
        burn_rt_kernel_fail(worker, bytes < 0 ? BURN_NEGATIVE_SIZE : BURN_OUT_OF_MEMORY, -1, bytes);
        longjmp(worker->escape, 1);
    }
    if (worker->scratch) /* what the kernel wrote so far moves along */
        memcpy(larger, worker->scratch, (size_t)worker->scratch_bytes);
    burn_memory_free(worker->scratch);
    worker->scratch = larger;
    worker->scratch_bytes = bytes;
    return larger;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

void burn_rt_launch(burn_run *run, int64_t kernel_id, burn_kernel kernel, const int64_t *args, int64_t count,
                    int64_t grain) {
    stop_if_failed(run);
    if (!run->profile || run->bracket_depth) {
        burn_pool_launch(&run->worker, kernel, args, count, grain);
        return;
    }
    burn_rt_enter(run, kernel_id);
    burn_pool_launch(&run->worker, kernel, args, count, grain);
    burn_rt_leave(run, kernel_id);
}

void burn_rt_enter(burn_run *run, int64_t kernel_id) {
    stop_if_failed(run);
    if (!run->profile || run->bracket_depth++)
        return;
    check_index(run, kernel_id, run->program->info.kernels);
    run->profile[kernel_id].entered_at = burn_clock_ns();
}

void burn_rt_leave(burn_run *run, int64_t kernel_id) {
    if (!run->profile || --run->bracket_depth)
        return;
    check_index(run, kernel_id, run->program->info.kernels);
    burn_profile_row *row = &run->profile[kernel_id];
    row->calls++;
    row->nanoseconds += burn_clock_ns() - row->entered_at;
}
