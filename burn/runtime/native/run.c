/* Programs and their runs: what generated code reaches through burn_rt.h.
 *
 * A program keeps a stock of run contexts. A context owns what is worth keeping from one inference to the next: the
 * arena and the plan of its last sizes. Each thread that calls the program at the same time takes a context of its own.
 *
 * Once a run has failed, whatever launches or gives memory fails as well, so that generated code, which leaves as soon as
 * it is told, never goes on with sizes that a failed kernel did not write.
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
    void **place = (void **)program->info.constant_data + constant;
    int32_t status = burn_text_unpack(&program->texts, *place, bytes, count, words);
    *place = words;
    return status;
}

/* Memory for what the program plans or gives: on its device, if it has one. */
static void *new_place(const burn_program *program, int64_t bytes) {
    return program->info.device ? burn_device_alloc(program->info.device, bytes) : burn_memory_new(bytes);
}

static void free_place(const burn_program *program, void *memory) {
    if (program->info.device)
        burn_device_free(program->info.device, memory);
    else
        burn_memory_free(memory);
}

static void delete_run(burn_run *run) {
    free_place(run->program, run->arena);
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

static burn_run *take_run(burn_program *program) {
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

static void give_run(burn_program *program, burn_run *run) {
    lock_stock();
    *run->active_link = run->next_active;
    if (run->next_active)
        run->next_active->active_link = run->active_link;
    run->next_free = program->free_runs;
    program->free_runs = run;
    unlock_stock();
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* The bytes of a tensor; -1 for a negative size, and where the sizes, those of 0 left out, multiply to more than 64 bits
 * hold. */
static int64_t tensor_bytes(int64_t element_bytes, int64_t rank, const int64_t *dims) {
    int64_t total = element_bytes, empty = 0;
    for (int64_t axis = 0; axis < rank; axis++) {
        if (dims[axis] < 0)
            return -1;
        if (dims[axis] == 0)
            empty = 1;
        else if (total > INT64_MAX / dims[axis])
            return -1;
        else
            total *= dims[axis];
    }
    return empty ? 0 : total;
}

static int fits(burn_run *run, const burn_input *input, const burn_input_spec *spec, int32_t level) {
    if (level < spec->kind.depth) {
        const burn_input *elements = input->data;
        if (input->rank != 1 || input->bytes != burn_lib_bytes(input->dims[0], sizeof *elements))
            return 0;
        for (int64_t i = 0; i < input->dims[0]; i++)
            if (!fits(run, &elements[i], spec, level + 1))
                return 0;
        return 1;
    }
    if (input->rank != spec->rank && (spec->rank != BURN_ANY_RANK || input->rank > BURN_MAX_RANK))
        return 0;
    for (int64_t axis = 0; axis < spec->rank; axis++) {
        int64_t wanted = spec->dims[axis], size = input->dims[axis];
        if (wanted == BURN_ANY_DIM)
            continue;
        if (wanted < 0) {
            int64_t *bound = &run->symbols[-1 - wanted];
            if (*bound < 0)
                *bound = size;
            wanted = *bound;
        }
        if (size != wanted)
            return 0;
    }
    int64_t bytes = tensor_bytes(spec->element_bytes, input->rank, input->dims);
    return spec->kind.dtype == BURN_TEXT ? bytes >= 0 && input->bytes > bytes : input->bytes == bytes;
}

static int by_address(const void *left, const void *right) {
    uintptr_t a = (uintptr_t)(*(const burn_input *const *)left)->data;
    uintptr_t b = (uintptr_t)(*(const burn_input *const *)right)->data;
    return a < b ? -1 : a > b;
}

/* A donated input that shares memory with another one, or -1. */
static int64_t shared_donation(burn_run *run, const burn_input *inputs) {
    int64_t count = run->program->info.inputs, filled = 0, donated = 0;
    const burn_input **sorted = run->regions;
    for (int64_t i = 0; i < count; i++) {
        donated += inputs[i].donated != 0;
        if (inputs[i].bytes > 0)
            sorted[filled++] = &inputs[i];
    }
    if (!donated)
        return -1;
    qsort(sorted, (size_t)filled, sizeof *sorted, by_address);
    uintptr_t end = 0, donated_end = 0; /* of what lies in front, and of the donated inputs there */
    const burn_input *last_donated = NULL;
    for (int64_t i = 0; i < filled; i++) {
        uintptr_t begin = (uintptr_t)sorted[i]->data, here = begin + (uintptr_t)sorted[i]->bytes;
        if (begin < donated_end)
            return last_donated - inputs;
        if (sorted[i]->donated && begin < end)
            return sorted[i] - inputs;
        if (here > end)
            end = here;
        if (sorted[i]->donated && here > donated_end) {
            donated_end = here;
            last_donated = sorted[i];
        }
    }
    return -1;
}

/* Fails the run where an input is not what the program takes. */
static void check_inputs(burn_run *run, const burn_input *inputs) {
    const burn_program *program = run->program;
    for (int64_t s = 0; s < program->symbols; s++)
        run->symbols[s] = -1;
    for (int64_t i = 0; i < program->info.inputs; i++)
        if (!fits(run, &inputs[i], &program->info.input_specs[i], 0)) {
            burn_rt_fail(run, BURN_INPUT_MISMATCH, -1, i);
            return;
        }
    int64_t shared = shared_donation(run, inputs);
    if (shared >= 0)
        burn_rt_fail(run, BURN_SHARED_MEMORY, -1, shared);
}

burn_texts *burn_run_texts(burn_run *run) { return &run->texts; }

/* Puts what the caller gave into the form that compiled code works with. */
static void take_inputs(burn_run *run) {
    const burn_program_info *info = &run->program->info;
    if (!run->program->made_in && !info->device)
        return;
    burn_input *inputs = burn_heap_new(&run->texts.heap, (info->inputs + 1) * (int64_t)sizeof *inputs);
    int32_t status = inputs ? BURN_OK : BURN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < info->inputs && status == BURN_OK; i++)
        status = burn_value_in(&run->texts, info->input_specs[i].kind, &run->inputs[i], &inputs[i]);
    run->inputs = inputs;
    if (status != BURN_OK)
        burn_rt_fail(run, status, -1, 0);
    else if (info->device)
        burn_device_take_inputs(run, inputs);
}

/* Puts the outputs into their caller's form; returns how many it changed. */
static int64_t give_outputs(burn_run *run) {
    const burn_program *program = run->program;
    int64_t i = 0;
    for (; program->made_out && i < program->info.outputs && !burn_run_failed(run); i++) {
        int32_t status = burn_value_out(program->info.output_specs[i].kind, &run->outputs[i]);
        if (status != BURN_OK)
            burn_rt_fail(run, status, -1, run->outputs[i].bytes);
    }
    return i;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

burn_failure burn_program_run(burn_program *program, const burn_input *inputs, burn_output *outputs,
                              const burn_options *options) {
    burn_run *run = take_run(program);
    if (!run)
        return (burn_failure){BURN_OUT_OF_MEMORY, -1, (int64_t)sizeof *run};
    run->inputs = inputs;
    run->outputs = outputs;
    run->options = options ? *options : (burn_options){NULL, NULL, NULL, 0, NULL, 0, 0};
    run->polled_at = 0;
    run->unpolled = 0;
    run->planned = 0;
    run->taken = 0;
    burn_profile_begin(run);
    for (int64_t i = 0; i < program->info.outputs; i++) {
        outputs[i].data = NULL;
        outputs[i].taken_from = -1;
        outputs[i].on_card = 0;
        outputs[i].ready = NULL;
    }
    check_inputs(run, inputs);
    if (!burn_run_failed(run))
        take_inputs(run);
    if (!burn_run_failed(run)) {
        burn_pool_run_begins();
        int32_t returned = program->info.device ? burn_recorded_entry(run) : program->info.entry(run);
        burn_pool_run_ends();
        if (returned != BURN_OK)
            burn_rt_fail(run, returned, -1, 0); /* has no effect on a failure already recorded */
    }
    for (int64_t i = 0; i < program->info.outputs; i++)
        if (!outputs[i].data)
            burn_rt_fail(run, BURN_OUT_OF_MEMORY, -1, 0);
    if (program->info.device)
        burn_device_give_outputs(run);
    burn_profile_end(run);
    while (run->allocations)
        burn_rt_free(run, run->allocations + 1);
    burn_device_release(run, -1);
    int64_t given = give_outputs(run);
    burn_failure failure = {atomic_load(&run->status), run->site, run->value};
    for (int64_t i = 0; failure.code != BURN_OK && i < program->info.outputs; i++) {
        burn_device_moment_delete(outputs[i].ready);
        outputs[i].ready = NULL;
        if (outputs[i].on_card && outputs[i].taken_from < 0) {
            burn_device_free(program->info.device, outputs[i].data);
            outputs[i].data = NULL;
        } else
            burn_output_free(i < given ? program->info.output_specs[i].kind : (burn_kind){0, 0}, &outputs[i]);
    }
    burn_texts_clear(&run->texts);
    give_run(program, run);
    return failure;
}

/* Asks the host now and then whether the run shall stop. Looking at the clock costs as much as a small launch, so that
 * of short ones only every 64th does it. */
void burn_run_poll(burn_run *run, int is_long) {
    static const int64_t INTERVAL_NS = 50000000;
    if ((!run->options.poll && !run->options.deadline) || (!is_long && ++run->unpolled % 64))
        return;
    int64_t now = burn_clock_ns();
    if (run->options.deadline && now > run->options.deadline)
        burn_rt_fail(run, BURN_TOO_LONG, -1, now - run->options.deadline);
    if (!run->options.poll)
        return;
    if (run->polled_at == 0)
        run->polled_at = now;
    if (now - run->polled_at < INTERVAL_NS)
        return;
    run->polled_at = now;
    if (run->options.poll(run->options.context))
        burn_rt_fail(run, BURN_INTERRUPTED, -1, 0);
}

int burn_run_take(burn_run *run, int64_t bytes) {
    run->taken += bytes;
    if (!run->options.most_bytes || run->taken <= run->options.most_bytes)
        return 1;
    burn_rt_fail(run, BURN_TOO_LARGE, -1, run->taken);
    return 0;
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

/* An index that may not count from the end, and is negative, comes as index - 2^62 (burn.from_start). */
#define FROM_START ((int64_t)1 << 62)

void burn_rt_kernel_fail(burn_worker *worker, int64_t code, int64_t site, int64_t value) {
    if (code == BURN_INDEX_OUT_OF_RANGE && value < -(FROM_START >> 1))
        value += FROM_START;
    burn_rt_fail(worker->run, code, site, value);
}

int32_t burn_rt_status(burn_run *run) { return atomic_load_explicit(&run->status, memory_order_relaxed); }

int burn_run_failed(burn_run *run) { return burn_rt_status(run) != BURN_OK; }

void *burn_run_fail(burn_run *run, int64_t code, int64_t value) {
    burn_rt_fail(run, code, -1, value);
    return NULL;
}

int burn_run_has(burn_run *run, int64_t index, int64_t count) {
    if (index >= 0 && index < count)
        return 1;
    burn_run_fail(run, BURN_INDEX_OUT_OF_RANGE, index);
    return 0;
}

/* ---- inputs, constants, outputs ---------------------------------------------------------------------------------- */

void *burn_rt_input(burn_run *run, int64_t index) {
    return burn_run_has(run, index, run->program->info.inputs) ? run->inputs[index].data : NULL;
}

int64_t burn_rt_input_dim(burn_run *run, int64_t index, int64_t axis) {
    if (!burn_run_has(run, index, run->program->info.inputs) || !burn_run_has(run, axis, run->inputs[index].rank))
        return 0;
    return run->inputs[index].dims[axis];
}

void *burn_rt_constant(burn_run *run, int64_t index) {
    const burn_program *program = run->program;
    if (!burn_run_has(run, index, program->info.constants))
        return NULL;
    if (program->device_constants && program->device_constants[index])
        return program->device_constants[index];
    return program->info.constant_data[index];
}

void *burn_rt_output(burn_run *run, int64_t index, int64_t rank, const int64_t *dims, int64_t bytes) {
    const burn_program_info *info = &run->program->info;
    if (burn_run_failed(run) || !burn_run_has(run, index, info->outputs) || !burn_run_has(run, rank, BURN_MAX_RANK + 1))
        return NULL;
    for (int64_t axis = 0; axis < rank; axis++)
        if (dims[axis] < 0)
            return burn_run_fail(run, BURN_NEGATIVE_SIZE, dims[axis]);
    int64_t needed = tensor_bytes(info->output_specs[index].element_bytes, rank, dims);
    if (needed < 0)
        return burn_run_fail(run, BURN_SIZE_OVERFLOW, rank);
    if (needed != bytes)
        return burn_run_fail(run, BURN_SHAPE_MISMATCH, bytes);
    burn_output *output = &run->outputs[index];
    if (run->recording) { /* it has its place, which is part of what is recorded */
        int placed = output->data && output->rank == rank && output->bytes == bytes;
        return placed ? output->data : burn_run_fail(run, BURN_SHAPE_MISMATCH, bytes);
    }
    int on_card = info->device && burn_is_plain(info->output_specs[index].kind);
    if (output->data && output->taken_from < 0) { /* asked for a second time, with another size */
        run->taken -= output->bytes;
        if (on_card)
            burn_device_free(info->device, output->data);
        else
            burn_memory_free(output->data);
    }
    output->taken_from = -1;
    output->data = NULL;
    output->on_card = on_card;
    output->bytes = bytes;
    output->rank = rank;
    if (rank)
        memcpy(output->dims, dims, (size_t)rank * sizeof *dims);
    int64_t from = info->output_specs[index].alias;
    const burn_input *donor = from >= 0 && from < info->inputs ? &run->inputs[from] : NULL;
    int fits_in = donor && donor->donated && donor->bytes == bytes && donor->on_card == on_card;
    int is_placed = run->options.places && burn_is_plain(info->output_specs[index].kind) && !info->device;
    burn_place place = is_placed ? run->options.places[index] : (burn_place){NULL, 0};
    if (place.data && place.bytes < bytes)
        return burn_run_fail(run, BURN_SMALL_OUTPUT, index);
    if (place.data && (uintptr_t)place.data % BURN_ALIGNMENT == 0) {
        output->data = place.data;
        output->taken_from = BURN_PLACED;
    } else if (fits_in && (uintptr_t)donor->data % BURN_ALIGNMENT == 0) {
        output->data = donor->data;
        output->taken_from = from;
    } else if (!burn_run_take(run, bytes)) {
        return NULL;
    } else {
        output->data = on_card ? burn_device_alloc(info->device, bytes) : burn_memory_new(bytes);
        if (!output->data)
            return burn_run_fail(run, BURN_OUT_OF_MEMORY, bytes);
    }
    return output->data;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *burn_rt_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    const burn_program_info *info = &run->program->info;
    if (burn_run_failed(run))
        return NULL;
    if (count != info->buffers)
        return burn_run_fail(run, BURN_SHAPE_MISMATCH, count);
    size_t table = (size_t)count * sizeof *sizes;
    if (!run->have_plan || (table && memcmp(sizes, run->sizes, table) != 0)) {
        if (run->planned) /* a second plan within a run would move buffers that are in use */
            return burn_run_fail(run, BURN_SHAPE_MISMATCH, count);
        run->have_plan = 0;
        burn_plan_result plan = burn_plan(info->live_ranges, sizes, count, run->offsets);
        if (plan.status != BURN_OK)
            return burn_run_fail(run, plan.status, plan.value);
        run->plan_bytes = plan.value;
        if (!burn_run_take(run, plan.value))
            return NULL;
        if (plan.value > run->arena_bytes || !run->arena) {
            if (run->program->info.device)
                burn_recordings_clear(run);
            free_place(run->program, run->arena);
            run->arena_bytes = 0;
            run->arena = new_place(run->program, plan.value);
            if (!run->arena)
                return burn_run_fail(run, BURN_OUT_OF_MEMORY, plan.value);
            run->arena_bytes = plan.value;
        }
        if (table)
            memcpy(run->sizes, sizes, table);
        run->have_plan = 1;
    } else if (!run->planned && !burn_run_take(run, run->plan_bytes))
        return NULL;
    if (!run->planned && !run->program->info.device)
        burn_memory_spoil(run->arena, run->arena_bytes);
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

/* ---- launches ---------------------------------------------------------------------------------------------------- */

int64_t burn_rt_threads(burn_run *run) {
    (void)run;
    return burn_pool_threads();
}

int32_t burn_rt_launch(burn_run *run, int64_t kernel_id, burn_kernel kernel, const int64_t *args, int64_t count,
                       int64_t grain) {
    run->touched = 1;
    burn_run_poll(run, count > grain || grain <= 1);
    if (burn_run_failed(run))
        return burn_rt_status(run);
    if (run->options.profile && !run->bracket_depth) {
        burn_rt_enter(run, kernel_id);
        burn_pool_launch(&run->worker, kernel, args, count, grain);
        burn_rt_leave(run, kernel_id);
    } else
        burn_pool_launch(&run->worker, kernel, args, count, grain);
    return burn_rt_status(run);
}
