/* Runs on a GPU: the part of burn_rt.h for GPU programs, and its counterpart for program.c and run.c.
 *
 * A program's constants and kernels are copied to the GPU once. Inputs in host memory are copied at the start of a run, and
 * outputs at its end, unless the caller keeps them on the GPU. All work goes to the device's only stream, so
 * memory may be freed as soon as the last launch that uses it is submitted.
 *
 * A kernel reports an index out of range in a status word on the GPU, and skips the access. The host reads the word
 * whenever it waits for the GPU, before it uses results. After a run whose outputs stay on the GPU, the next
 * synchronisation reads it (device_report.c).
 */
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "lib_keys.h"
#include "run.h"

/* Kernels take addresses for multiples of this many bytes. */
enum { KERNEL_ALIGNMENT = 16 };

static int check(burn_run *run, int32_t status, int64_t bytes) {
    if (status != BURN_OK)
        burn_rt_fail(run, status, -1, status == BURN_OUT_OF_MEMORY ? bytes : burn_device_error_code());
    return status == BURN_OK;
}

void burn_device_spoil(burn_run *run, void *memory, int64_t bytes) {
    if (burn_memory_poisoned() >= 0 && bytes > 0)
        check(run, burn_device_fill(run->program->info.device, memory, (uint8_t)burn_memory_poisoned(), bytes), 0);
}

/* Memory of the device, or NULL: then the run has failed. */
static void *take(burn_run *run, int64_t bytes) {
    if (run->trace)
        return burn_trace_alloc(run, bytes);
    if (!burn_run_take(run, bytes))
        return NULL;
    void *memory = burn_device_alloc(run->program->info.device, bytes);
    if (memory)
        burn_device_spoil(run, memory, bytes);
    else
        check(run, burn_device_error_status(), bytes);
    return memory;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static int load_kernels(burn_program *program, char *error, size_t error_size) {
    int64_t count = program->info.device_kernel_count;
    program->modules = calloc((size_t)count + 1, sizeof *program->modules);
    program->functions = calloc((size_t)count + 1, sizeof *program->functions);
    if (!program->modules || !program->functions)
        return 0;
    for (int64_t i = 0; i < count; i++) {
        const burn_device_kernel *kernel = &program->info.device_kernels[i];
        program->modules[i] =
            burn_device_load(program->info.device, kernel->image, (size_t)kernel->bytes, error, error_size);
        if (!program->modules[i])
            return 0;
        program->functions[i] = burn_device_find(program->modules[i], kernel->name, kernel->shared);
        if (!program->functions[i]) {
            strncat(error, burn_device_error(), error_size - strlen(error) - 1);
            return 0;
        }
        burn_device_set_early(program->functions[i], kernel->early);
    }
    return 1;
}

typedef struct {
    int64_t bytes, constant;
} sized;

static int by_size(const void *one, const void *other) {
    const sized *a = one, *b = other;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->constant < b->constant ? -1 : 1;
}

/* The largest first: blocks that smaller ones leave may not be neighbours, as a tensor over several pages of WebGPU needs. */
static int send_constants(burn_program *program, char *error, size_t error_size) {
    const burn_program_info *info = &program->info;
    program->device_constants = calloc((size_t)info->constants + 1, sizeof *program->device_constants);
    sized *order = calloc((size_t)info->constants + 1, sizeof *order);
    int done = program->device_constants && order;
    for (int64_t i = 0; done && i < info->constants; i++)
        order[i] = (sized){info->constant_bytes[i], i};
    if (done)
        qsort(order, (size_t)info->constants, sizeof *order, by_size);
    for (int64_t i = 0; done && i < info->constants && order[i].bytes >= 0; i++) { /* -1: it stays in host memory */
        int64_t at = order[i].constant;
        void *memory = burn_device_alloc(info->device, order[i].bytes);
        program->device_constants[at] = memory;
        if (!memory || burn_device_send(info->device, memory, info->constant_data[at], order[i].bytes) != BURN_OK) {
            strncat(error, burn_device_error(), error_size - strlen(error) - 1);
            done = 0;
        }
    }
    free(order);
    return done;
}

int burn_device_program(burn_program *program, char *error, size_t error_size) {
    return load_kernels(program, error, error_size) && send_constants(program, error, error_size);
}

void burn_device_program_end(burn_program *program) {
    const burn_program_info *info = &program->info;
    for (int64_t i = 0; program->modules && i < info->device_kernel_count; i++)
        burn_device_unload(program->modules[i]);
    for (int64_t i = 0; program->device_constants && i < info->constants; i++)
        burn_device_free(info->device, program->device_constants[i]);
    free(program->modules);
    free(program->functions);
    free(program->device_constants);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *burn_rt_device_alloc(burn_run *run, int64_t bytes) {
    if (burn_run_failed(run))
        return NULL;
    if (bytes < 0)
        return burn_run_fail(run, BURN_NEGATIVE_SIZE, bytes);
    burn_device_block *block = malloc(sizeof *block);
    if (!block)
        return burn_run_fail(run, BURN_OUT_OF_MEMORY, sizeof *block);
    void *memory = take(run, bytes);
    if (!memory) {
        free(block);
        return NULL;
    }
    *block = (burn_device_block){run->blocks, memory, bytes, run->next_order++};
    run->blocks = block;
    return memory;
}

static burn_device_block **find(burn_run *run, const void *memory) {
    burn_device_block **at = &run->blocks;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    return at;
}

/* Memory that recorded work uses is not handed out to anybody else. */
static void let_go(burn_run *run, burn_device_block *block) {
    if (run->trace) {
        burn_trace_free(run, block->memory);
        free(block);
        return;
    }
    run->taken -= block->bytes;
    if (run->recording) {
        burn_recording_hold(run->recording, block);
        return;
    }
    burn_device_free(run->program->info.device, block->memory);
    free(block);
}

void burn_rt_device_free(burn_run *run, void *memory) {
    burn_device_block **at = find(run, memory), *block = *at;
    if (!memory || !block)
        return;
    *at = block->next;
    let_go(run, block);
}

void *burn_rt_device_grow(burn_run *run, void *memory, int64_t bytes) {
    burn_device *device = run->program->info.device;
    burn_device_block *block = memory ? *find(run, memory) : NULL;
    if (!block)
        return burn_rt_device_alloc(run, bytes);
    if (burn_run_failed(run))
        return NULL;
    if (bytes < 0)
        return burn_run_fail(run, BURN_NEGATIVE_SIZE, bytes);
    if (bytes <= block->bytes)
        return memory;
    int64_t more = block->bytes + block->bytes / 2, size = bytes > more ? bytes : more;
    void *larger = take(run, size);
    if (!larger)
        return NULL;
    run->touched = 1;
    int copied = 1;
    if (run->trace) {
        burn_trace_copy(run, larger, memory, block->bytes);
        burn_trace_free(run, memory);
    } else {
        copied = check(run, burn_device_copy(device, larger, memory, block->bytes), 0);
        burn_device_free(device, memory);
        run->taken -= block->bytes;
    }
    block->memory = larger;
    block->bytes = size;
    return copied ? larger : NULL;
}

void burn_device_release(burn_run *run, int64_t mark) {
    while (run->blocks) {
        burn_device_block *block = run->blocks;
        if (block->order <= mark)
            return;
        run->blocks = block->next;
        let_go(run, block);
    }
}

void burn_device_run_end(burn_run *run) {
    if (run->program->info.device)
        burn_recordings_clear(run);
    burn_report_delete(run->report);
}

/* ---- failures of kernels ----------------------------------------------------------------------------------------- */

void *burn_rt_device_failure(burn_run *run) {
    const burn_program_info *info = &run->program->info;
    if (run->trace)
        return burn_trace_failure(run);
    if (!run->report && !burn_run_failed(run)) {
        run->report = burn_report_new(info->device, info->sites, info->site_count);
        if (!run->report)
            check(run, burn_device_error_status(), sizeof(int64_t));
    }
    run->failure_given = 1;
    return burn_run_failed(run) ? NULL : burn_report_word(run->report);
}

void burn_device_look(burn_run *run) {
    burn_reported found;
    if (run->failure_given && run->report && check(run, burn_report_read(run->report, &found), 0) &&
        found.code != BURN_OK)
        burn_rt_fail(run, found.code, found.site, found.value);
}

void burn_device_ready(burn_run *run, int64_t output) {
    if (run->failure_given && run->report && !check(run, burn_report_copy(run->report), 0))
        return;
    burn_device_moment *moment = burn_device_mark(run->program->info.device);
    if (!moment)
        check(run, burn_device_error_status(), 0);
    burn_device_moment_delete(run->outputs[output].ready);
    run->outputs[output].ready = moment;
}

void burn_rt_device_ready(burn_run *run, int64_t output) {
    if (burn_run_failed(run) || run->trace || !burn_run_has(run, output, run->program->info.outputs))
        return;
    if (run->recording)
        burn_recording_ready(run, output);
    else if (run->options.stay)
        burn_device_ready(run, output);
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

void burn_rt_device_copy(burn_run *run, void *to, const void *from, int64_t bytes) {
    if (run->trace)
        burn_trace_copy(run, to, from, bytes);
    else if (bytes > 0 && to != from && !burn_run_failed(run))
        check(run, burn_device_copy(run->program->info.device, to, from, bytes), 0);
}

int64_t burn_rt_device_read(burn_run *run, const void *from, int64_t bytes) {
    int64_t word = 0;
    run->touched = 1;
    burn_trace_end(run);
    burn_device_look(run);
    if (burn_run_failed(run) || !check(run, burn_device_fetch(run->program->info.device, &word, from, bytes), 0))
        return 0;
    return burn_rt_read(run, &word, bytes);
}

void burn_rt_device_write(burn_run *run, void *to, int64_t value, int64_t bytes) {
    run->touched = 1;
    burn_trace_end(run);
    if (!burn_run_failed(run))
        check(run, burn_device_send(run->program->info.device, to, &value, bytes), 0);
}

void *burn_rt_fetch(burn_run *run, const void *from, int64_t bytes) {
    run->touched = 1;
    burn_trace_end(run);
    burn_device_look(run);
    void *to = burn_rt_alloc(run, bytes);
    if (to && bytes > 0 && !check(run, burn_device_fetch(run->program->info.device, to, from, bytes), 0))
        return NULL;
    return to;
}

void burn_rt_send(burn_run *run, void *to, const void *from, int64_t bytes) {
    run->touched = 1;
    burn_trace_end(run);
    if (bytes > 0 && !burn_run_failed(run))
        check(run, burn_device_send(run->program->info.device, to, from, bytes), 0);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

int32_t burn_rt_device_launch(burn_run *run, int64_t kernel_id, int64_t kernel, const int64_t *args, int64_t count,
                              int64_t blocks) {
    const burn_program_info *info = &run->program->info;
    burn_run_poll(run, 0);
    if (burn_run_failed(run) || !burn_run_has(run, kernel, info->device_kernel_count))
        return burn_rt_status(run);
    if (run->trace) {
        burn_trace_launch(run, kernel, args, count, blocks);
        return burn_rt_status(run);
    }
    burn_timed *span = burn_profile_open(run, kernel_id);
    check(run, burn_device_launch(info->device, run->program->functions[kernel], blocks,
                                  info->device_kernels[kernel].threads, args, (int32_t)count), 0);
    burn_profile_close(run, span);
    if (burn_guards_are_on())
        burn_guarded_device_look(run, info->device_kernels[kernel].name);
    return burn_rt_status(run);
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

void burn_device_take_inputs(burn_run *run, burn_input *inputs) {
    const burn_program_info *info = &run->program->info;
    run->failure_given = 0;
    for (int64_t i = 0; i < info->inputs && !burn_run_failed(run); i++) {
        burn_input *input = &inputs[i];
        if (!burn_is_plain(info->input_specs[i].kind))
            continue;
        if (input->on_device && (uintptr_t)input->data % KERNEL_ALIGNMENT == 0)
            continue;
        void *memory = burn_rt_device_alloc(run, input->bytes);
        if (!memory)
            return;
        if (input->on_device)
            burn_rt_device_copy(run, memory, input->data, input->bytes);
        else
            burn_rt_send(run, memory, input->data, input->bytes);
        input->data = memory;
        input->on_device = 1;
        input->donated = 0;
    }
}

void burn_device_give_outputs(burn_run *run) {
    const burn_program_info *info = &run->program->info;
    if (run->options.stay) { /* asynchronous */
        if (run->failure_given && run->report)
            check(run, burn_report_copy(run->report), 0);
        return;
    }
    burn_device_look(run);
    for (int64_t i = 0; i < info->outputs; i++) {
        burn_output *output = &run->outputs[i];
        if (burn_run_failed(run) || !output->on_device)
            continue;
        burn_destination given = run->options.destinations ? run->options.destinations[i] : (burn_destination){NULL, 0};
        if (given.data && given.bytes < output->bytes) {
            burn_run_fail(run, BURN_SMALL_OUTPUT, i);
            return;
        }
        void *memory = given.data ? given.data : burn_memory_new(output->bytes);
        if (!memory) {
            burn_run_fail(run, BURN_OUT_OF_MEMORY, output->bytes);
            return;
        }
        check(run, burn_device_fetch(info->device, memory, output->data, output->bytes), 0);
        if (output->taken_from < 0)
            burn_device_free(info->device, output->data);
        output->taken_from = given.data ? BURN_DESTINATION : -1;
        output->data = memory;
        output->on_device = 0;
    }
}
