/* A model: a program, its weights, and calls from any number of threads at once.
 *
 * The tables of inputs and outputs of a call are kept for the next call, so
 * a call with known sizes allocates only the outputs that its caller requests.
 */
#include "model.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib_keys.h"
#include "system.h"

/* One call's tables. */
typedef struct call {
    struct call *next;
    burn_input *inputs;
    burn_output *outputs;
    burn_destination *destinations;
    int64_t (*dims)[BURN_TENSOR_RANK]; /* of inputs, where symbols give them */
    uint64_t state[2];
} call;

struct burn_model {
    const burn_model_facts *facts;
    const burn_version *version;
    burn_device *gpu; /* NULL: the program is the host's alone */
    burn_program *program;
    burn_weights weights;
    void **constants;
    int64_t copied; /* constants that are ours: strings, and what nothing is stored for */
    call *calls; /* free ones */
    _Atomic uint64_t seed, draws;
};

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static _Thread_local char message[512]; /* without contents, as a file has no room for them then */

const char *burn_model_error(void) { return *message ? message : "no call of this thread has failed"; }

int32_t burn_model_fail(int32_t code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return code;
}

static int32_t no_memory(void) { return burn_model_fail(BURN_E_OUT_OF_MEMORY, "out of memory"); }

/* "[1, 3, 224]" */
static const char *shape_text(char *text, size_t size, int64_t rank, const int64_t *dims) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (int64_t axis = 0; axis < rank && used < size; axis++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", axis ? ", " : "", (long long)dims[axis]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

/* The status's message with its number and its site put in, behind the source node if there is one. */
static int32_t run_failed(const burn_model *model, const call *call, burn_failure failure) {
    const burn_model_facts *facts = model->facts;
    char shape[200];
    if (failure.code == BURN_INPUT_MISMATCH && failure.value >= 0 && failure.value < facts->input_count) {
        const burn_value *value = &facts->inputs[failure.value];
        const burn_input *given = &call->inputs[failure.value];
        return burn_model_fail(failure.code, "input '%s' must be %s, and was given as %s with %lld bytes", value->name,
                               value->type, shape_text(shape, sizeof shape, given->rank, given->dims),
                               (long long)given->bytes);
    }
    if (failure.code == BURN_SMALL_OUTPUT && failure.value >= 0 && failure.value < facts->output_count)
        return burn_model_fail(failure.code, "output '%s' takes %lld bytes, and was given memory of %lld",
                               facts->outputs[failure.value].name, (long long)call->outputs[failure.value].bytes,
                               (long long)call->destinations[failure.value].bytes);
    int has_site = failure.site >= 0 && failure.site < model->version->program.site_count;
    const char *site = has_site ? model->version->program.sites[failure.site] : "";
    const char *text = failure.code > 0 && failure.code < facts->message_count ? facts->messages[failure.code] : "";
    int told = strstr(text, "{site}") != NULL || !*site;
    size_t used = (size_t)snprintf(message, sizeof message, "%s%s%s", told ? "" : "node '", told ? "" : site,
                                   told ? "" : "': ");
    while (*text && used + 1 < sizeof message) {
        size_t room = sizeof message - used;
        if (strncmp(text, "{value}", 7) == 0) {
            used += (size_t)snprintf(message + used, room, "%lld", (long long)failure.value);
            text += 7;
        } else if (strncmp(text, "{site}", 6) == 0) {
            used += (size_t)snprintf(message + used, room, "%s", site);
            text += 6;
        } else {
            message[used++] = *text++;
            message[used] = 0;
        }
    }
    return failure.code;
}

/* Guards every model's free calls. It is held for a few instructions, and during a fork, so that it is free in the child,
 * where the parent's other threads do not exist. */
static burn_lock stock = BURN_LOCK_NEW;
static burn_once stock_once = BURN_ONCE_NEW;

static void lock_stock(void) { burn_lock_take(&stock); }
static void unlock_stock(void) { burn_lock_give(&stock); }
static void guard_stock(void) { burn_at_fork(lock_stock, unlock_stock, unlock_stock); }

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct wanted {
    const char *const *features;
    int64_t found;
} wanted;

static void count_feature(void *context, const char *feature) {
    wanted *w = context;
    for (const char *const *name = w->features; *name; name++)
        w->found += strcmp(*name, feature) == 0;
}

static void note_feature(void *context, const char *feature) {
    const char **missing = context;
    if (*missing && strcmp(*missing, feature) == 0)
        *missing = NULL;
}

/* A feature that a version needs and this CPU lacks, or NULL. An engine that has compiled a module has all of its features. */
static const char *missing_feature(const burn_version *version) {
#ifdef __wasm__
    (void)count_feature;
    (void)note_feature;
    (void)version;
    return NULL;
#else
    int64_t count = 0;
    while (version->features[count])
        count++;
    wanted w = {version->features, 0};
    if (count)
        burn_cpu_features(count_feature, &w);
    for (int64_t i = 0; i < count && w.found < count; i++) {
        const char *missing = version->features[i];
        burn_cpu_features(note_feature, &missing);
        if (missing)
            return missing;
    }
    return NULL;
#endif
}

/* The first version that this CPU and GPU can run. */
static int32_t choose(const burn_model_facts *facts, const burn_version **version, burn_device **gpu) {
    const char *missing = NULL, *architecture = NULL;
    int32_t code = facts->open_gpu ? facts->open_gpu(facts, gpu, &architecture) : BURN_DONE;
    if (code != BURN_DONE)
        return code;
    for (int64_t i = 0; i < facts->version_count; i++) {
        *version = &facts->versions[i];
        if (architecture && strcmp((*version)->architecture, architecture) != 0)
            continue;
        missing = missing_feature(*version);
        if (!missing)
            return BURN_DONE;
    }
    return burn_model_fail(BURN_E_CPU, "%s was compiled for CPUs with %s, which this one lacks", facts->name, missing);
}

/* The weights at hand, and the program over them. */
static int32_t open_program(burn_model *model, const char *path) {
    const burn_model_facts *facts = model->facts;
    if (facts->weights)
        model->weights = (burn_weights){facts->weights, facts->weights_bytes, 0};
    else if (facts->weights_bytes) {
        if (!path)
            return burn_model_fail(BURN_E_WEIGHTS, "%s needs its file of weights, %s", facts->name, facts->weights_file);
        if (!burn_weights_open(path, facts->weights_bytes, facts->weights_checksum, &model->weights))
            return BURN_E_WEIGHTS;
    }
    burn_program_info info = model->version->program;
    model->constants = calloc((size_t)info.constants + 1, sizeof *model->constants);
    if (!model->constants)
        return no_memory();
    for (int64_t i = 0; i < info.constants; i++)
        model->constants[i] = (void *)(model->weights.data + model->version->constants[i].offset);
    info.constant_data = model->constants;
    info.device = model->gpu;
    char error[512];
    model->program = burn_program_new(&info, error, sizeof error);
    if (!model->program)
        return *error ? burn_model_fail(BURN_E_GPU, "%s: %s", facts->name, error) : no_memory();
    for (int64_t i = 0; i < info.constants; i++) {
        const burn_stored *stored = &model->version->constants[i];
        if (stored->strings >= 0 &&
            burn_program_texts(model->program, i, stored->bytes, stored->strings) != BURN_OK)
            return burn_model_fail(BURN_E_WEIGHTS, "a constant of strings is malformed");
    }
    return BURN_DONE;
}

/* Models that there are: the last one's end is that of the threads, so that a shared library can be unloaded. */
static _Atomic int64_t models;

int32_t burn_model_create(const burn_model_facts *facts, const char *weights, burn_model **made) {
    if (!made)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no place for the model: a null pointer");
    *made = NULL;
    const burn_version *version = NULL;
    burn_device *gpu = NULL;
    int32_t code = choose(facts, &version, &gpu);
    if (code != BURN_DONE)
        return code;
    burn_model *model = calloc(1, sizeof *model);
    if (!model)
        return no_memory();
    model->facts = facts;
    model->version = version;
    model->gpu = gpu;
    burn_once_call(&stock_once, guard_stock);
    atomic_fetch_add(&models, 1);
    code = open_program(model, weights);
    if (code == BURN_DONE)
        *made = model;
    else
        burn_model_destroy(model);
    return code;
}

static void delete_call(call *c) {
    free(c->inputs);
    free(c->outputs);
    free(c->destinations);
    free(c->dims);
    free(c);
}

void burn_model_destroy(burn_model *model) {
    if (!model)
        return;
    while (model->calls) {
        call *c = model->calls;
        model->calls = c->next;
        delete_call(c);
    }
    burn_program_delete(model->program);
    burn_weights_close(&model->weights);
    free(model->constants);
    free(model);
    if (atomic_fetch_sub(&models, 1) == 1)
        burn_pool_stop();
}

void burn_model_seed(burn_model *model, uint64_t seed) {
    if (!model)
        return;
    atomic_store(&model->seed, seed);
    atomic_store(&model->draws, 0);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static call *take_call(burn_model *model) {
    lock_stock();
    call *c = model->calls;
    if (c)
        model->calls = c->next;
    unlock_stock();
    if (c)
        return c;
    size_t inputs = (size_t)model->version->program.inputs + 1;
    size_t outputs = (size_t)model->version->program.outputs + 1;
    c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->inputs = calloc(inputs, sizeof *c->inputs);
    c->outputs = calloc(outputs, sizeof *c->outputs);
    c->destinations = calloc(outputs, sizeof *c->destinations);
    c->dims = calloc(inputs, sizeof *c->dims);
    if (c->inputs && c->outputs && c->destinations && c->dims)
        return c;
    delete_call(c);
    return NULL;
}

static void give_call(burn_model *model, call *c) {
    lock_stock();
    c->next = model->calls;
    model->calls = c;
    unlock_stock();
}

/* Replaces a null pointer to no bytes, which would mean missing memory to the program. */
static int64_t nothing[BURN_ALIGNMENT / sizeof(int64_t)];

static int overlaps(const burn_destination *destination, const burn_model_facts *facts, const burn_input *inputs) {
    uintptr_t begin = (uintptr_t)destination->data, end = begin + (uintptr_t)destination->bytes;
    for (int64_t i = 0; i < facts->input_count; i++) {
        uintptr_t other = (uintptr_t)inputs[i].data;
        if (begin < other + (uintptr_t)inputs[i].bytes && other < end)
            return 1;
    }
    return 0;
}

/* Runs with the call's inputs and output memory. Outputs that the program could not write there are copied: if the
 * caller's memory is not aligned, or if it overlaps an input, which is read until the end. A GPU program has its
 * own copy of the inputs. */
static int32_t run_call(burn_model *model, call *c, const burn_further *further) {
    static const int64_t state_dims[] = {2};
    const burn_model_facts *facts = model->facts;
    const int64_t taken = facts->input_count + (further ? further->input_count : 0);
    const int64_t made = facts->output_count + (further ? further->output_count : 0);
    if (further) {
        size_t in = (size_t)further->input_count, out = (size_t)further->output_count;
        memcpy(c->inputs + facts->input_count, further->inputs, in * sizeof *c->inputs);
        memcpy(c->destinations + facts->output_count, further->destinations, out * sizeof *c->destinations);
    }
    if (facts->random_state) {
        c->state[0] = further ? further->random[0] : atomic_load(&model->seed);
        c->state[1] = further ? further->random[1] : atomic_fetch_add(&model->draws, 1);
        c->inputs[taken] = (burn_input){c->state, sizeof c->state, 1, state_dims, 0, 0};
    }
    burn_options options = {NULL, NULL, NULL, 0, c->destinations};
    int64_t aside = 0;
    for (int64_t i = 0; i < facts->output_count; i++) {
        aside |= !model->gpu && c->destinations[i].data && overlaps(&c->destinations[i], facts, c->inputs);
        c->outputs[i].bytes = c->outputs[i].rank = 0; /* until the run says more */
    }
    if (aside)
        options.destinations = NULL;
    burn_failure failure = burn_program_run(model->program, c->inputs, c->outputs, &options);
    for (int64_t i = 0; aside && i < facts->output_count && failure.code == BURN_OK; i++)
        if (c->destinations[i].data && c->destinations[i].bytes < c->outputs[i].bytes)
            failure = (burn_failure){BURN_SMALL_OUTPUT, -1, i};
    for (int64_t i = 0; i < made; i++) {
        burn_output *output = &c->outputs[i];
        if (!output->data || output->taken_from >= 0)
            continue;
        if (failure.code != BURN_OK) {
            burn_memory_free(output->data);
            output->data = NULL;
        } else if (i < facts->output_count && c->destinations[i].data) {
            memcpy(c->destinations[i].data, output->data, (size_t)output->bytes);
            burn_memory_free(output->data);
            output->data = c->destinations[i].data;
        }
    }
    if (further)
        memcpy(further->outputs, c->outputs + facts->output_count, (size_t)further->output_count * sizeof *c->outputs);
    return failure.code == BURN_OK ? BURN_DONE : run_failed(model, c, failure);
}

static int32_t take_tensors(const burn_model_facts *facts, call *c, const burn_tensor *inputs,
                            const burn_tensor *outputs) {
    for (int64_t i = 0; i < facts->input_count; i++) {
        const burn_tensor *given = &inputs[i];
        const burn_value *value = &facts->inputs[i];
        if (given->element != value->element)
            return burn_model_fail(BURN_E_ARGUMENT, "input '%s' must be %s: its element type is number %d, not %d",
                                   value->name, value->type, (int)value->element, (int)given->element);
        if (given->rank < 0 || given->rank > BURN_TENSOR_RANK || given->bytes < 0 || (!given->data && given->bytes))
            return burn_model_fail(BURN_E_ARGUMENT, "input '%s' has a null pointer, or a rank or bytes out of range",
                                   value->name);
        if ((uintptr_t)given->data % (uintptr_t)(value->element_bytes < 8 ? value->element_bytes : 8))
            return burn_model_fail(BURN_E_ARGUMENT, "input '%s' is not aligned to its elements", value->name);
        c->inputs[i] = (burn_input){given->data ? given->data : nothing, given->bytes, given->rank, given->dims, 0, 0};
    }
    for (int64_t i = 0; i < facts->output_count; i++) {
        if (outputs[i].data && outputs[i].bytes < 0)
            return burn_model_fail(BURN_E_ARGUMENT, "output '%s' has negative bytes", facts->outputs[i].name);
        c->destinations[i] = (burn_destination){outputs[i].data, outputs[i].bytes};
    }
    return BURN_DONE;
}

int32_t burn_model_run(burn_model *model, const burn_tensor *inputs, burn_tensor *outputs) {
    return burn_model_run_with(model, inputs, outputs, NULL);
}

int32_t burn_model_run_with(burn_model *model, const burn_tensor *inputs, burn_tensor *outputs,
                            const burn_further *further) {
    if (!model)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no model: a null pointer");
    const burn_model_facts *facts = model->facts;
    if ((!inputs && facts->input_count) || (!outputs && facts->output_count))
        return burn_model_fail(BURN_E_ARGUMENT, "there are no tensors: a null pointer");
    call *c = take_call(model);
    if (!c)
        return no_memory();
    int32_t code = take_tensors(facts, c, inputs, outputs);
    if (code == BURN_DONE)
        code = run_call(model, c, further);
    for (int64_t i = 0; i < facts->output_count; i++) {
        const burn_output *from = &c->outputs[i];
        if (code != BURN_DONE && code != BURN_E_SMALL_OUTPUT)
            continue;
        if (code == BURN_DONE)
            outputs[i].data = from->data;
        outputs[i].bytes = from->bytes;
        outputs[i].element = facts->outputs[i].element;
        outputs[i].rank = (int32_t)from->rank;
        for (int64_t axis = 0; axis < from->rank && axis < BURN_TENSOR_RANK; axis++)
            outputs[i].dims[axis] = from->dims[axis];
    }
    give_call(model, c);
    return code;
}

int32_t burn_model_dims(const burn_model_facts *facts, const int64_t *symbols, int32_t output, int64_t *dims) {
    if (output < 0 || output >= facts->output_count || !dims || (!symbols && facts->symbol_count))
        return burn_model_fail(BURN_E_ARGUMENT, "there is no output number %d, or no place for its sizes", (int)output);
    for (int64_t i = 0; i < facts->symbol_count; i++)
        if (symbols[i] < 0)
            return burn_model_fail(BURN_E_NEGATIVE_SIZE, "the size '%s' is negative: %lld", facts->symbols[i],
                                   (long long)symbols[i]);
    const burn_value *value = &facts->outputs[output];
    for (int32_t axis = 0; axis < value->rank; axis++) {
        dims[axis] = burn_model_size(&value->dims[axis], symbols);
        if (dims[axis] < 0 && dims[axis] != BURN_UNKNOWN_SIZE)
            return burn_model_fail(BURN_E_SIZE_OVERFLOW, "output '%s' cannot have such sizes", value->name);
    }
    return BURN_DONE;
}

/* The bytes of a value whose sizes are all known; -1 where they are not, or do not fit 64 bits. */
static int64_t value_bytes(const burn_value *value, const int64_t *symbols, int64_t *dims) {
    int64_t total = value->element_bytes;
    for (int32_t axis = 0; axis < value->rank; axis++) {
        dims[axis] = burn_model_size(&value->dims[axis], symbols);
        total = dims[axis] < 0 ? BURN_NO_SIZE : burn_size_mul(total, dims[axis]);
    }
    return total < 0 ? -1 : total;
}

int64_t burn_model_bytes(const burn_model_facts *facts, const int64_t *symbols, int64_t output) {
    int64_t dims[BURN_TENSOR_RANK];
    return value_bytes(&facts->outputs[output], symbols, dims);
}

const burn_version *burn_model_version(const burn_model *model) { return model->version; }

const unsigned char *burn_model_weights(const burn_model *model) { return model->weights.data; }

static int32_t take_sizes(const burn_model_facts *facts, call *c, const int64_t *symbols, const void *const *inputs,
                          void *const *outputs) {
    for (int64_t i = 0; i < facts->symbol_count; i++)
        if (symbols[i] < 0)
            return burn_model_fail(BURN_E_NEGATIVE_SIZE, "the size '%s' is negative: %lld", facts->symbols[i],
                                   (long long)symbols[i]);
    for (int64_t i = 0; i < facts->input_count; i++) {
        const burn_value *value = &facts->inputs[i];
        int64_t bytes = value_bytes(value, symbols, c->dims[i]);
        if (bytes < 0)
            return burn_model_fail(BURN_E_SIZE_OVERFLOW, "input '%s' cannot have such sizes", value->name);
        if ((!inputs[i] && bytes) ||
            (uintptr_t)inputs[i] % (uintptr_t)(value->element_bytes < 8 ? value->element_bytes : 8))
            return burn_model_fail(BURN_E_ARGUMENT, "input '%s' is a null pointer, or not aligned to its elements",
                                   value->name);
        void *data = inputs[i] ? (void *)inputs[i] : nothing;
        c->inputs[i] = (burn_input){data, bytes, value->rank, c->dims[i], 0, 0};
    }
    for (int64_t i = 0; i < facts->output_count; i++) {
        int64_t dims[BURN_TENSOR_RANK], bytes = value_bytes(&facts->outputs[i], symbols, dims);
        if (bytes < 0)
            return burn_model_fail(BURN_E_SIZE_OVERFLOW, "output '%s' cannot have such sizes", facts->outputs[i].name);
        if (!outputs[i] && bytes)
            return burn_model_fail(BURN_E_ARGUMENT, "output '%s' is a null pointer", facts->outputs[i].name);
        c->destinations[i] = (burn_destination){outputs[i] ? outputs[i] : nothing, bytes};
    }
    return BURN_DONE;
}

int32_t burn_model_call(burn_model *model, const int64_t *symbols, const void *const *inputs, void *const *outputs) {
    return burn_model_call_with(model, symbols, inputs, outputs, NULL);
}

int32_t burn_model_call_with(burn_model *model, const int64_t *symbols, const void *const *inputs, void *const *outputs,
                             const burn_further *further) {
    if (!model)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no model: a null pointer");
    call *c = take_call(model);
    if (!c)
        return no_memory();
    int32_t code = take_sizes(model->facts, c, symbols, inputs, outputs);
    if (code == BURN_DONE)
        code = run_call(model, c, further);
    give_call(model, c);
    return code;
}

void burn_model_free(burn_tensor *tensor) {
    if (!tensor)
        return;
    burn_memory_free(tensor->data);
    tensor->data = NULL;
}
