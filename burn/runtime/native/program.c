/* Programs, and the run contexts that each keeps in stock.
 *
 * A context owns what is worth keeping from one inference to the next: the arena and the plan of its last sizes. Each thread
 * that calls the program at the same time takes a context of its own.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib_keys.h"
#include "run.h"
#include "system.h"

/* Guards every program's stock of runs. It is held for a few instructions, and over a fork, so that the child finds it
 * free. */
static burn_lock stock = BURN_LOCK_NEW;
static burn_once stock_once = BURN_ONCE_NEW;

static void lock_stock(void) { burn_lock_take(&stock); }
static void unlock_stock(void) { burn_lock_give(&stock); }
static void guard_stock(void) { burn_at_fork(lock_stock, unlock_stock, unlock_stock); }

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void *copy_table(const void *table, int64_t count, size_t size, int *ok) {
    void *copy = malloc(count ? (size_t)count * size : 1);
    if (!copy)
        *ok = 0;
    else if (count)
        memcpy(copy, table, (size_t)count * size);
    return copy;
}

/* The inputs' sizes in one table. Returns 0 for a symbol that no program has. */
static int copy_dims(burn_program *program) {
    enum { MOST_SYMBOLS = 1 << 20 };
    burn_input_spec *specs = (burn_input_spec *)program->info.input_specs;
    int64_t count = 0;
    for (int64_t i = 0; i < program->info.inputs; i++)
        count += specs[i].rank > 0 ? specs[i].rank : 0;
    int64_t *dims = program->dims = malloc(count ? (size_t)count * sizeof *dims : 1);
    if (!dims)
        return 0;
    for (int64_t i = 0; i < program->info.inputs; i++) {
        for (int64_t axis = 0; axis < specs[i].rank; axis++) {
            dims[axis] = specs[i].dims[axis];
            if (dims[axis] < 0 && specs[i].kind.depth)
                dims[axis] = BURN_ANY_DIM;
            if (dims[axis] < 0 && dims[axis] != BURN_ANY_DIM && -dims[axis] > program->symbols)
                program->symbols = -dims[axis];
        }
        specs[i].dims = dims;
        dims += specs[i].rank > 0 ? specs[i].rank : 0;
    }
    return program->symbols <= MOST_SYMBOLS;
}

int burn_is_plain(burn_kind kind) { return kind.depth == 0 && kind.dtype != BURN_TEXT; }

burn_program *burn_program_new(const burn_program_info *info, char *error, size_t error_size) {
    if (error_size)
        error[0] = 0;
    burn_once_call(&stock_once, guard_stock);
    burn_program *program = calloc(1, sizeof *program);
    if (!program)
        return NULL;
    int ok = 1;
    program->info = *info;
    program->info.input_specs = copy_table(info->input_specs, info->inputs, sizeof(burn_input_spec), &ok);
    program->info.output_specs = copy_table(info->output_specs, info->outputs, sizeof(burn_output_spec), &ok);
    program->info.constant_data = copy_table(info->constant_data, info->constants, sizeof(void *), &ok);
    program->info.live_ranges = copy_table(info->live_ranges, info->buffers, sizeof(burn_live_range), &ok);
    program->info.constant_bytes = NULL;
    program->info.device_kernels = NULL;
    if (info->device) {
        int64_t kernels = info->device_kernel_count;
        program->info.constant_bytes = copy_table(info->constant_bytes, info->constants, sizeof(int64_t), &ok);
        program->info.device_kernels = copy_table(info->device_kernels, kernels, sizeof(burn_device_kernel), &ok);
    }
    if (!ok || !copy_dims(program)) {
        burn_program_delete(program);
        return NULL;
    }
    for (int64_t i = 0; i < info->inputs; i++)
        program->made_in |= !burn_is_plain(info->input_specs[i].kind);
    for (int64_t i = 0; i < info->outputs; i++)
        program->made_out |= !burn_is_plain(info->output_specs[i].kind);
    if (info->device && !burn_device_program(program, error, error_size)) {
        burn_program_delete(program);
        return NULL;
    }
    return program;
}

int32_t burn_program_texts(burn_program *program, int64_t constant, int64_t bytes, int64_t count) {
    int64_t size = count < 0 ? -1 : burn_lib_bytes(count, sizeof(int64_t));
    int64_t *words = burn_heap_new(&program->texts.heap, size < BURN_ALIGNMENT && size >= 0 ? BURN_ALIGNMENT : size);
    if (!words)
        return BURN_OUT_OF_MEMORY;
    void **slot = (void **)program->info.constant_data + constant;
    int32_t status = burn_text_unpack(&program->texts, *slot, bytes, count, words);
    *slot = words;
    return status;
}

/* ---- run contexts ------------------------------------------------------------------------------------------------ */

static void delete_run(burn_run *run) {
    burn_program_memory_free(run->program, run->arena);
    burn_device_run_end(run);
    burn_memory_free(run->worker.scratch);
    free(run->sizes);
    free(run->offsets);
    free(run->symbols);
    free((void *)run->regions);
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
    free((void *)program->info.input_specs);
    free((void *)program->info.output_specs);
    free((void *)program->info.constant_data);
    free((void *)program->info.live_ranges);
    free(program->dims);
    burn_device_program_end(program);
    free((void *)program->info.constant_bytes);
    free((void *)program->info.device_kernels);
    burn_texts_clear(&program->texts);
    free(program);
}

static void *words(int64_t count) { return malloc((size_t)(count ? count : 1) * sizeof(int64_t)); }

/* From here on the run can be cancelled. The stock is locked. */
static void begin_run(burn_program *program, burn_run *run) {
    atomic_store_explicit(&run->status, BURN_OK, memory_order_relaxed);
    run->site = -1;
    run->value = 0;
    run->next_active = program->active_runs;
    run->active_link = &program->active_runs;
    if (run->next_active)
        run->next_active->active_link = &run->next_active;
    program->active_runs = run;
}

void burn_program_cancel(burn_program *program) {
    lock_stock();
    for (burn_run *run = program->active_runs; run; run = run->next_active)
        burn_rt_fail(run, BURN_CANCELLED, -1, 0);
    unlock_stock();
}

burn_run *burn_run_begin(burn_program *program) {
    lock_stock();
    burn_run *run = program->free_runs;
    if (run) {
        program->free_runs = run->next_free;
        begin_run(program, run);
    }
    unlock_stock();
    if (run)
        return run;
    run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->program = program;
    run->worker.run = run;
    run->texts.base = &program->texts;
    run->sizes = words(program->info.buffers);
    run->offsets = words(program->info.buffers);
    run->symbols = words(program->symbols);
    run->regions = words(program->info.inputs);
    if (!run->sizes || !run->offsets || !run->symbols || !run->regions) {
        delete_run(run);
        return NULL;
    }
    lock_stock();
    begin_run(program, run);
    unlock_stock();
    return run;
}

int64_t burn_program_arena(const burn_program *program) {
    int64_t most = 0;
    lock_stock();
    for (const burn_run *run = program->free_runs; run; run = run->next_free)
        most = run->arena_bytes > most ? run->arena_bytes : most;
    unlock_stock();
    return most;
}

void burn_program_release(burn_program *program) {
    lock_stock();
    burn_run *run = program->free_runs;
    program->free_runs = NULL;
    unlock_stock();
    while (run) {
        burn_run *next = run->next_free;
        delete_run(run);
        run = next;
    }
}

void burn_run_end(burn_program *program, burn_run *run) {
    lock_stock();
    *run->active_link = run->next_active;
    if (run->next_active)
        run->next_active->active_link = run->active_link;
    run->next_free = program->free_runs;
    program->free_runs = run;
    unlock_stock();
}
