/* CUDA graphs: a program's GPU work is recorded once and then replayed, so a call costs one submission instead of one per kernel.
 *
 * A recording contains addresses. So it is valid for certain addresses and sizes of inputs, and addresses of
 * outputs. Freed memory is reused in the same order, so consecutive calls usually find their
 * recording. The first call of a kind runs kernel by kernel; the second is recorded; later ones replay
 * the recording. A program that reads from the GPU during a run, or computes on the host, is never recorded. A recording is
 * split after an output that the host may wait for early.
 *
 * Recordings belong to the run context, like the arena and the status word whose addresses they contain.
 */
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "run.h"

enum { MOST = 8 }; /* recordings that a context keeps; those not used for longest go first */

/* Work that is submitted at once. */
typedef struct piece {
    struct piece *next;
    burn_device_graph *graph;
    int64_t ready; /* the output that is there behind it, or -1 */
} piece;

struct burn_recording {
    struct burn_recording *next;
    piece *pieces, **last;     /* NULL: seen, not recorded yet */
    burn_device_block *blocks; /* memory that the recorded work uses besides the arena */
    burn_output *outputs;
    int failure_given;
    int64_t words;
    int64_t key[]; /* of each input: where it lies, whether it is given up, its sizes */
};

static void delete_recording(burn_run *run, burn_recording *recording) {
    burn_device *device = run->program->info.device;
    while (recording->pieces) {
        piece *first = recording->pieces;
        recording->pieces = first->next;
        burn_device_graph_delete(device, first->graph);
        free(first);
    }
    while (recording->blocks) {
        burn_device_block *block = recording->blocks;
        recording->blocks = block->next;
        burn_device_free(device, block->memory);
        free(block);
    }
    free(recording->outputs);
    free(recording);
}

void burn_recordings_clear(burn_run *run) {
    while (run->recordings) {
        burn_recording *recording = run->recordings;
        run->recordings = recording->next;
        delete_recording(run, recording);
    }
}

void burn_recording_hold(burn_recording *recording, burn_device_block *block) {
    block->next = recording->blocks;
    recording->blocks = block;
}

/* ---- which recording is a call's --------------------------------------------------------------------------------- */

static burn_recording *new_recording(burn_run *run) {
    const burn_program_info *info = &run->program->info;
    int64_t words = 0;
    for (int64_t i = 0; i < info->inputs; i++)
        words += 2 + run->inputs[i].rank;
    burn_recording *made = calloc(1, sizeof *made + (size_t)words * sizeof *made->key);
    burn_output *outputs = calloc((size_t)info->outputs + 1, sizeof *outputs);
    if (!made || !outputs) {
        free(made);
        free(outputs);
        return NULL;
    }
    made->outputs = outputs;
    made->last = &made->pieces;
    for (int64_t i = 0; i < info->inputs; i++) {
        const burn_input *input = &run->inputs[i];
        made->key[made->words++] = (int64_t)(intptr_t)input->data;
        made->key[made->words++] = input->donated;
        for (int64_t axis = 0; axis < input->rank; axis++)
            made->key[made->words++] = input->dims[axis];
    }
    return made;
}

static int same(const burn_recording *a, const burn_recording *b) {
    return a->words == b->words && memcmp(a->key, b->key, (size_t)a->words * sizeof *a->key) == 0;
}

/* Memory for the outputs of a call like a recorded one. 0: the run has failed. */
static int set_outputs(burn_run *run, const burn_recording *like) {
    const burn_program_info *info = &run->program->info;
    for (int64_t i = 0; i < info->outputs; i++) {
        burn_output *output = &run->outputs[i];
        *output = like->outputs[i];
        output->ready = NULL; /* of that call's */
        if (output->taken_from < 0 && !burn_run_take(run, output->bytes)) {
            output->data = NULL;
            return 0;
        }
        output->data = output->taken_from < 0 ? burn_device_alloc(info->device, output->bytes)
                                              : run->inputs[output->taken_from].data;
        if (!output->data) {
            burn_rt_fail(run, burn_device_error_status(), -1, output->bytes);
            return 0;
        }
    }
    return 1;
}

static int outputs_are(const burn_run *run, const burn_recording *recording) {
    for (int64_t i = 0; i < run->program->info.outputs; i++)
        if (run->outputs[i].data != recording->outputs[i].data)
            return 0;
    return 1;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static void keep(burn_run *run, burn_recording *recording) {
    recording->next = run->recordings;
    run->recordings = recording;
    int64_t count = 1;
    for (burn_recording *at = recording; at->next; at = at->next)
        if (count++ == MOST) {
            delete_recording(run, at->next); /* the only one behind */
            at->next = NULL;
            return;
        }
}

static int32_t run_unrecorded(burn_run *run) {
    run->touched = 0;
    int32_t status = run->program->info.entry(run);
    if (run->touched)
        run->program->unrecordable = 1;
    return status;
}

static int begin(burn_run *run) {
    int32_t status = burn_device_record(run->program->info.device);
    if (status != BURN_OK)
        burn_rt_fail(run, status, -1, burn_device_error_code());
    return status == BURN_OK;
}

/* Ends the recording since `begin`. 0: the run has failed. */
static int end(burn_run *run, burn_recording *recording, int64_t ready) {
    burn_run_join(run); /* a graph has all work that it began */
    piece *made = calloc(1, sizeof *made);
    burn_device_graph *graph = burn_device_recorded(run->program->info.device);
    if (!made || !graph) {
        burn_device_graph_delete(run->program->info.device, graph);
        free(made);
        burn_rt_fail(run, BURN_DEVICE_FAILED, -1, burn_device_error_code());
        return 0;
    }
    *made = (piece){NULL, graph, ready};
    *recording->last = made;
    recording->last = &made->next;
    return 1;
}

void burn_recording_ready(burn_run *run, int64_t output) {
    if (end(run, run->recording, output))
        begin(run);
}

static int32_t replay(burn_run *run, const burn_recording *recording) {
    burn_device *device = run->program->info.device;
    run->failure_given = recording->failure_given;
    for (const piece *at = recording->pieces; at && !burn_run_failed(run); at = at->next) {
        int32_t status = burn_device_replay(device, at->graph);
        if (status != BURN_OK)
            burn_rt_fail(run, status, -1, burn_device_error_code());
        else if (at->ready >= 0 && run->options.stay)
            burn_device_ready(run, at->ready);
    }
    return burn_rt_status(run);
}

/* Records the entry function's work and submits it. Its outputs already have addresses. */
static int32_t record(burn_run *run, burn_recording *recording) {
    if (!begin(run))
        return burn_rt_status(run);
    run->recording = recording;
    run->touched = 0;
    int32_t status = run->program->info.entry(run);
    run->recording = NULL;
    int whole = end(run, recording, -1);
    if (status == BURN_OK && whole && run->touched) /* the host took no part in the run before */
        burn_rt_fail(run, BURN_DEVICE_FAILED, -1, burn_device_error_code());
    recording->failure_given = run->failure_given;
    return burn_run_failed(run) ? burn_rt_status(run) : replay(run, recording);
}

int32_t burn_recorded_entry(burn_run *run) {
    burn_program *program = run->program;
    if (run->options.profile || burn_guards_are_on() || program->unrecordable || program->made_in || program->made_out)
        return run_unrecorded(run);
    burn_recording *call = new_recording(run), *found = run->recordings;
    if (!call)
        return run_unrecorded(run);
    while (found && !same(found, call))
        found = found->next;
    if (!found) { /* the first time */
        int32_t status = run_unrecorded(run);
        if (status != BURN_OK || program->unrecordable || burn_run_failed(run)) {
            delete_recording(run, call);
            return status;
        }
        memcpy(call->outputs, run->outputs, (size_t)program->info.outputs * sizeof *call->outputs);
        keep(run, call);
        return status;
    }
    if (!set_outputs(run, found)) {
        delete_recording(run, call);
        return burn_rt_status(run);
    }
    while (found && !(found->pieces && same(found, call) && outputs_are(run, found)))
        found = found->next;
    if (found) {
        delete_recording(run, call);
        return replay(run, found);
    }
    memcpy(call->outputs, run->outputs, (size_t)program->info.outputs * sizeof *call->outputs);
    int32_t status = record(run, call);
    if (status == BURN_OK) {
        keep(run, call);
        return status;
    }
    delete_recording(run, call);
    program->unrecordable = 1;
    return status;
}
