/* A training: its state, and the programs over it.
 *
 * A step reads the state and writes the next one. The program overwrites the memory of a state if it can. Otherwise the next
 * elements go to a second block of memory, and both blocks are exchanged after the call. So a step with the sizes of the step
 * before allocates nothing.
 */
#include "train.h"

#include <stdlib.h>
#include <string.h>

#include "system.h"

struct burn_trainer {
    const burn_trainer_facts *facts;
    burn_lock lock;
    burn_model *step, *predict;
    void **states, **spare; /* elements; and the memory for their next elements, or NULL */
    void **aligned;           /* memory of visible outputs whose callers gave addresses that are not aligned */
    int64_t *aligned_bytes;
    void **given; /* the outputs' addresses of a call */
    burn_input *inputs;
    burn_output *outputs;
    burn_destination *destinations;
    uint64_t seed, draws;
    int64_t steps, positioned;
    burn_tensor *results; /* the outputs of a step in memory of their own */
    char *checkpoint;
};

static int32_t no_memory(void) { return burn_model_fail(BURN_E_OUT_OF_MEMORY, "out of memory"); }

static int32_t none(void) { return burn_model_fail(BURN_E_ARGUMENT, "there is no trainer: a null pointer"); }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- trainers ---------------------------------------------------------------------------------------------------- */

static void *table(int64_t count, size_t size) { return calloc((size_t)count + 1, size); }

static int32_t open_trainer(burn_trainer *t, const char *weights) {
    const burn_trainer_facts *facts = t->facts;
    int32_t code = burn_model_create(facts->step.facts, weights, &t->step);
    if (code == BURN_DONE && facts->predict.facts)
        code = burn_model_create(facts->predict.facts, weights, &t->predict);
    if (code != BURN_DONE)
        return code;
    int64_t visible = facts->step.facts->output_count;
    if (facts->predict.facts)
        visible = larger(visible, facts->predict.facts->output_count);
    t->states = table(facts->state_count, sizeof *t->states);
    t->spare = table(facts->state_count, sizeof *t->spare);
    t->aligned = table(visible, sizeof *t->aligned);
    t->aligned_bytes = table(visible, sizeof *t->aligned_bytes);
    t->given = table(visible, sizeof *t->given);
    t->results = table(visible, sizeof *t->results);
    t->inputs = table(larger(facts->step.state_input_count, facts->predict.state_input_count), sizeof *t->inputs);
    t->outputs = table(facts->step.state_output_count, sizeof *t->outputs);
    t->destinations = table(facts->step.state_output_count, sizeof *t->destinations);
    if (!t->states || !t->spare || !t->aligned || !t->aligned_bytes || !t->given || !t->results || !t->inputs || !t->outputs ||
        !t->destinations)
        return no_memory();
    for (int64_t i = 0; i < facts->state_count; i++) {
        const burn_state *state = &facts->states[i];
        t->states[i] = burn_memory_new(state->bytes);
        if (!t->states[i])
            return no_memory();
        if (state->offset < 0)
            memset(t->states[i], 0, (size_t)state->bytes);
        else if (state->bytes)
            memcpy(t->states[i], burn_model_weights(t->step) + state->offset, (size_t)state->bytes);
    }
    return BURN_DONE;
}

int32_t burn_trainer_create(const burn_trainer_facts *facts, const char *weights, burn_trainer **made) {
    static const burn_lock fresh = BURN_LOCK_NEW;
    if (!made)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no address for the trainer: a null pointer");
    *made = NULL;
    burn_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return no_memory();
    t->facts = facts;
    memcpy(&t->lock, &fresh, sizeof fresh);
    t->seed = facts->seed;
    t->draws = facts->draws;
    t->steps = facts->steps;
    t->positioned = -1;
    int32_t code = open_trainer(t, weights);
    if (code == BURN_DONE)
        *made = t;
    else
        burn_trainer_destroy(t);
    return code;
}

static void delete_blocks(void **blocks, int64_t count) {
    for (int64_t i = 0; blocks && i < count; i++)
        burn_memory_free(blocks[i]);
    free((void *)blocks);
}

void burn_trainer_destroy(burn_trainer *t) {
    if (!t)
        return;
    int64_t visible = t->facts->step.facts->output_count;
    if (t->facts->predict.facts)
        visible = larger(visible, t->facts->predict.facts->output_count);
    delete_blocks(t->states, t->facts->state_count);
    delete_blocks(t->spare, t->facts->state_count);
    delete_blocks(t->aligned, visible);
    free(t->aligned_bytes);
    free((void *)t->given);
    free(t->results);
    free(t->inputs);
    free(t->outputs);
    free(t->destinations);
    free(t->checkpoint);
    burn_model_destroy(t->predict);
    burn_model_destroy(t->step);
    free(t);
}

burn_trainer_content burn_trainer_lock(burn_trainer *t) {
    burn_lock_take(&t->lock);
    return (burn_trainer_content){t->facts, t->states, &t->seed, &t->draws, &t->steps, &t->positioned, &t->checkpoint};
}

void burn_trainer_unlock(burn_trainer *t) { burn_lock_give(&t->lock); }

int32_t burn_trainer_seed(burn_trainer *t, uint64_t seed) {
    if (!t)
        return none();
    burn_lock_take(&t->lock);
    t->seed = seed;
    t->draws = 0;
    burn_lock_give(&t->lock);
    return BURN_DONE;
}

int64_t burn_trainer_steps(burn_trainer *t) {
    if (!t)
        return 0;
    burn_lock_take(&t->lock);
    int64_t steps = t->steps;
    burn_lock_give(&t->lock);
    return steps;
}

/* ---- tensors of the state ---------------------------------------------------------------------------------------- */

static int32_t find(const burn_trainer *t, const char *name, int64_t bytes, int32_t *found) {
    for (int64_t i = 0; name && i < t->facts->name_count; i++) {
        if (strcmp(t->facts->names[i].name, name) != 0)
            continue;
        const burn_state *state = &t->facts->states[t->facts->names[i].state];
        if (state->bytes != bytes)
            return burn_model_fail(BURN_E_ARGUMENT, "'%s' is %s: %lld bytes, not %lld", name, state->type,
                                   (long long)state->bytes, (long long)bytes);
        *found = t->facts->names[i].state;
        return BURN_DONE;
    }
    return burn_model_fail(BURN_E_ARGUMENT, "the state has no tensor '%s'", name ? name : "(null)");
}

int32_t burn_trainer_read(burn_trainer *t, const char *name, void *data, int64_t bytes) {
    int32_t state = 0, code = t ? find(t, name, bytes, &state) : none();
    if (code != BURN_DONE || !bytes)
        return code;
    if (!data)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no memory for '%s': a null pointer", name);
    burn_lock_take(&t->lock);
    memcpy(data, t->states[state], (size_t)bytes);
    burn_lock_give(&t->lock);
    return BURN_DONE;
}

int32_t burn_trainer_write(burn_trainer *t, const char *name, const void *data, int64_t bytes) {
    int32_t state = 0, code = t ? find(t, name, bytes, &state) : none();
    if (code != BURN_DONE || !bytes)
        return code;
    if (!data)
        return burn_model_fail(BURN_E_ARGUMENT, "there are no elements for '%s': a null pointer", name);
    burn_lock_take(&t->lock);
    memcpy(t->states[state], data, (size_t)bytes);
    burn_lock_give(&t->lock);
    return BURN_DONE;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static int is_given(const burn_trained *program, int32_t state) {
    for (int64_t i = 0; i < program->state_output_count; i++)
        if (program->state_outputs[i] == state)
            return 1;
    return 0;
}

/* The state as inputs, and memory for the next one. 0: out of memory. */
static int offer(burn_trainer *t, const burn_trained *program, const burn_version *version, burn_further *further) {
    for (int64_t i = 0; i < program->state_input_count; i++) {
        const int32_t number = program->state_inputs[i];
        const burn_state *state = &t->facts->states[number];
        t->inputs[i] =
            (burn_input){t->states[number], state->bytes, state->rank, state->dims, is_given(program, number), 0};
    }
    for (int64_t i = 0; i < program->state_output_count; i++) {
        const int32_t number = program->state_outputs[i];
        const int64_t bytes = t->facts->states[number].bytes;
        t->destinations[i] = (burn_destination){NULL, 0};
        if (version->program.output_specs[program->facts->output_count + i].alias >= 0)
            continue;
        if (!t->spare[number])
            t->spare[number] = burn_memory_new(bytes);
        if (!t->spare[number])
            return 0;
        t->destinations[i] = (burn_destination){t->spare[number], bytes};
    }
    *further = (burn_further){t->inputs,       program->state_input_count,  t->outputs,
                              t->destinations, program->state_output_count, &t->seed};
    return 1;
}

static void exchange(burn_trainer *t, int32_t state) {
    void *before = t->states[state];
    t->states[state] = t->spare[state];
    t->spare[state] = before;
}

/* Takes over the next elements. First those in the memory of another state, before that state's memory gets a new owner. */
static int32_t accept(burn_trainer *t, const burn_trained *program) {
    for (int64_t i = 0; i < program->state_output_count; i++) {
        const int32_t state = program->state_outputs[i];
        const burn_output *output = &t->outputs[i];
        const int64_t from = output->taken_from - program->facts->input_count;
        if (output->taken_from < 0 || output->taken_from == BURN_DESTINATION || program->state_inputs[from] == state)
            continue;
        if (!t->spare[state])
            t->spare[state] = burn_memory_new(output->bytes);
        if (!t->spare[state])
            return no_memory();
        memcpy(t->spare[state], output->data, (size_t)output->bytes);
    }
    for (int64_t i = 0; i < program->state_output_count; i++) {
        const int32_t state = program->state_outputs[i];
        const burn_output *output = &t->outputs[i];
        if (output->taken_from < 0) {
            burn_memory_free(t->states[state]);
            t->states[state] = output->data;
        } else if (output->taken_from == BURN_DESTINATION || output->data != t->states[state])
            exchange(t, state);
    }
    return BURN_DONE;
}

/* Draws come one after another, as those of Python's generator. */
static int32_t begin(burn_trainer *t, const burn_trained *program, burn_model *model, burn_further *further,
                     uint64_t random[2]) {
    if (!offer(t, program, burn_model_version(model), further))
        return no_memory();
    random[0] = t->seed;
    random[1] = t->draws;
    t->draws += (uint64_t)program->facts->random_state;
    further->random = random;
    return BURN_DONE;
}

static int32_t end(burn_trainer *t, const burn_trained *program, int32_t code) {
    if (code == BURN_DONE)
        code = accept(t, program);
    if (code == BURN_DONE && program == &t->facts->step)
        t->steps++;
    return code;
}

/* A step with tensors. It writes into memory of its own. The caller's memory may be too small or overlap an input, and by then
 * some of the state would have changed. */
static int32_t copied(burn_trainer *t, const burn_trained *program, burn_model *model, const burn_tensor *inputs,
                      burn_tensor *outputs, burn_further *further) {
    const burn_model_facts *facts = program->facts;
    if (!outputs && facts->output_count)
        return burn_model_fail(BURN_E_ARGUMENT, "there are no tensors: a null pointer");
    for (int64_t i = 0; i < facts->output_count; i++) {
        if (outputs[i].data && outputs[i].bytes < 0)
            return burn_model_fail(BURN_E_ARGUMENT, "output '%s' has negative bytes", facts->outputs[i].name);
        t->results[i] = (burn_tensor){NULL, 0, 0, 0, {0}};
    }
    int32_t code = end(t, program, burn_model_run_with(model, inputs, t->results, further));
    const int is_made = code == BURN_DONE;
    for (int64_t i = 0; i < facts->output_count && code == BURN_DONE; i++)
        if (outputs[i].data && outputs[i].bytes < t->results[i].bytes)
            code = burn_model_fail(BURN_E_SMALL_OUTPUT,
                                   "output '%s' takes %lld bytes, and was given memory of %lld; the step was made",
                                   facts->outputs[i].name, (long long)t->results[i].bytes, (long long)outputs[i].bytes);
    for (int64_t i = 0; i < facts->output_count; i++) {
        burn_tensor *result = &t->results[i];
        void *data = outputs[i].data;
        if (is_made) {
            outputs[i] = *result; /* type and sizes */
            outputs[i].data = data;
        }
        if (code == BURN_DONE && !data) {
            outputs[i].data = result->data;
            result->data = NULL;
        } else if (code == BURN_DONE && result->bytes)
            memcpy(data, result->data, (size_t)result->bytes);
        burn_model_free(result);
    }
    return code;
}

static int32_t run_tensors(burn_trainer *t, const burn_trained *program, burn_model *model, const burn_tensor *inputs,
                           burn_tensor *outputs) {
    burn_further further;
    uint64_t random[2];
    burn_lock_take(&t->lock);
    int32_t code = begin(t, program, model, &further, random);
    if (code == BURN_DONE)
        code = program->state_output_count ? copied(t, program, model, inputs, outputs, &further)
                                   : end(t, program, burn_model_run_with(model, inputs, outputs, &further));
    burn_lock_give(&t->lock);
    return code;
}

/* Aligned memory for the outputs that lie elsewhere: the program then writes them without an allocation. */
static int32_t align(burn_trainer *t, const burn_model_facts *facts, const int64_t *symbols, void *const *outputs) {
    for (int64_t i = 0; i < facts->output_count; i++) {
        const int64_t bytes = burn_model_bytes(facts, symbols, i);
        t->given[i] = outputs[i];
        if (!outputs[i] || bytes < 0)
            continue; /* the call refuses it, or there is nothing to write */
        if (!t->aligned[i] || bytes > t->aligned_bytes[i]) {
            burn_memory_free(t->aligned[i]);
            t->aligned_bytes[i] = 0;
            t->aligned[i] = burn_memory_new(bytes);
            if (!t->aligned[i])
                return no_memory();
            t->aligned_bytes[i] = bytes;
        }
        t->given[i] = t->aligned[i];
    }
    return BURN_DONE;
}

static int32_t run_sizes(burn_trainer *t, const burn_trained *program, burn_model *model, const int64_t *symbols,
                         const void *const *inputs, void *const *outputs) {
    const burn_model_facts *facts = program->facts;
    burn_further further;
    uint64_t random[2];
    burn_lock_take(&t->lock);
    int32_t code = align(t, facts, symbols, outputs);
    if (code == BURN_DONE)
        code = begin(t, program, model, &further, random);
    if (code == BURN_DONE)
        code = end(t, program, burn_model_call_with(model, symbols, inputs, t->given, &further));
    for (int64_t i = 0; i < facts->output_count && code == BURN_DONE; i++)
        if (outputs[i] && t->given[i] != outputs[i])
            memcpy(outputs[i], t->given[i], (size_t)burn_model_bytes(facts, symbols, i));
    burn_lock_give(&t->lock);
    return code;
}

static int32_t no_inference(void) {
    return burn_model_fail(BURN_E_ARGUMENT, "this training was compiled without a function for inference");
}

int32_t burn_trainer_step(burn_trainer *t, const int64_t *symbols, const void *const *inputs, void *const *outputs) {
    return t ? run_sizes(t, &t->facts->step, t->step, symbols, inputs, outputs) : none();
}

int32_t burn_trainer_predict(burn_trainer *t, const int64_t *symbols, const void *const *inputs, void *const *outputs) {
    if (t && !t->predict)
        return no_inference();
    return t ? run_sizes(t, &t->facts->predict, t->predict, symbols, inputs, outputs) : none();
}

int32_t burn_trainer_step_tensors(burn_trainer *t, const burn_tensor *inputs, burn_tensor *outputs) {
    return t ? run_tensors(t, &t->facts->step, t->step, inputs, outputs) : none();
}

int32_t burn_trainer_predict_tensors(burn_trainer *t, const burn_tensor *inputs, burn_tensor *outputs) {
    if (t && !t->predict)
        return no_inference();
    return t ? run_tensors(t, &t->facts->predict, t->predict, inputs, outputs) : none();
}
