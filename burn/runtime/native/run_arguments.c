/* Inputs, constants and outputs of a run: checks of the caller's values, and access by generated code. */
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "lib_keys.h"
#include "run.h"

/* ---- before and after the entry function ------------------------------------------------------------------------- */

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
    uintptr_t end = 0, donated_end = 0; /* of the preceding inputs, and of the donated ones among them */
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
void burn_run_check_inputs(burn_run *run, const burn_input *inputs) {
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
void burn_run_take_inputs(burn_run *run) {
    const burn_program_info *info = &run->program->info;
    if (burn_guards_are_on() && !info->device)
        burn_guarded_inputs(run);
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
int64_t burn_run_give_outputs(burn_run *run) {
    const burn_program *program = run->program;
    int64_t i = 0;
    for (; program->made_out && i < program->info.outputs && !burn_run_failed(run); i++) {
        int32_t status = burn_value_out(program->info.output_specs[i].kind, &run->outputs[i]);
        if (status != BURN_OK)
            burn_rt_fail(run, status, -1, run->outputs[i].bytes);
    }
    return i;
}

/* ---- asked for by generated code --------------------------------------------------------------------------------- */

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
    if (run->recording) { /* the recording contains its address */
        int fits = output->data && output->rank == rank && output->bytes == bytes;
        return fits ? output->data : burn_run_fail(run, BURN_SHAPE_MISMATCH, bytes);
    }
    int on_device = info->device && burn_is_plain(info->output_specs[index].kind);
    if (output->data && output->taken_from < 0) { /* asked for a second time, with another size */
        run->taken -= output->bytes;
        if (run->trace)
            ; /* its region is the same */
        else if (on_device)
            burn_device_free(info->device, output->data);
        else
            burn_memory_free(output->data);
    }
    output->taken_from = -1;
    output->data = NULL;
    output->on_device = on_device;
    output->bytes = bytes;
    output->rank = rank;
    if (rank)
        memcpy(output->dims, dims, (size_t)rank * sizeof *dims);
    int64_t from = info->output_specs[index].alias;
    const burn_input *donor = from >= 0 && from < info->inputs ? &run->inputs[from] : NULL;
    int fits_in = donor && donor->donated && donor->bytes == bytes && donor->on_device == on_device;
    int has_destination = run->options.destinations && burn_is_plain(info->output_specs[index].kind) && !info->device;
    burn_destination destination = has_destination ? run->options.destinations[index] : (burn_destination){NULL, 0};
    if (destination.data && destination.bytes < bytes)
        return burn_run_fail(run, BURN_SMALL_OUTPUT, index);
    if (destination.data && (uintptr_t)destination.data % BURN_ALIGNMENT == 0) {
        output->data = destination.data;
        output->taken_from = BURN_DESTINATION;
    } else if (fits_in && (uintptr_t)donor->data % BURN_ALIGNMENT == 0) {
        output->data = donor->data;
        output->taken_from = from;
    } else if (run->trace) {
        output->data = burn_trace_output(run, index);
    } else if (!burn_run_take(run, bytes)) {
        return NULL;
    } else {
        output->data = on_device ? burn_device_alloc(info->device, bytes) : burn_memory_new(bytes);
        if (!output->data)
            return burn_run_fail(run, BURN_OUT_OF_MEMORY, bytes);
    }
    return output->data;
}
