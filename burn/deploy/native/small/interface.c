/* Implementation of the functions in the model's header (model.h). A call reuses the memory of a finished call, if there is one. */

#if defined(BURN_STATIC) && defined(__GLIBC__)
/* In a program, thread-local data has a static layout, so its address needs no function call. For libraries loaded later, a
 * process has little room for such data. */
#define IN_PLACE __attribute__((tls_model("initial-exec")))
#else
#define IN_PLACE
#endif

static _Thread_local IN_PLACE struct {
    int64_t value;
    int32_t code;
} failure;

static __attribute__((noinline)) int32_t refuse(int32_t code, int64_t value) {
    failure.value = value;
    return failure.code = code;
}

static const char *burn_model_error(void) {
    static _Thread_local IN_PLACE char text[64];
    snprintf(text, sizeof text, "error %d of enum burn_code (%lld)", (int)failure.code, (long long)failure.value);
    return text;
}

static void delete_run(burn_run *run) {
    if (!run)
        return;
    for (int64_t i = 0; i < facts.output_count; i++)
        burn_memory_free(run->made[i].data);
    burn_memory_free(run->arena);
    burn_memory_free(run->worker.scratch);
    burn_memory_free(run);
}

/* ---- models -------------------------------------------------------------------------------------------------------- */

static void burn_model_destroy(burn_model *model) {
    if (!model)
        return;
    delete_run(atomic_load(&model->spare));
    burn_weights_close(&model->weights);
    burn_memory_free(model);
}

static int32_t burn_model_create(const burn_model_facts *own, const char *weights, burn_model **created) {
    (void)own;
    if (!created)
        return refuse(BURN_E_ARGUMENT, 0);
    *created = NULL;
    if (!fits_cpu())
        return refuse(BURN_E_CPU, 0);
    burn_model *model = burn_memory_new(sizeof *model);
    if (!model)
        return refuse(BURN_E_OUT_OF_MEMORY, 0);
    memset(model, 0, sizeof *model);
    if (facts.weights || !facts.weights_bytes)
        model->weights = (burn_weights){facts.weights, facts.weights_bytes, 0};
    else if (!weights || !burn_weights_open(weights, facts.weights_bytes, facts.weights_checksum, &model->weights)) {
        burn_memory_free(model);
        return refuse(BURN_E_WEIGHTS, 0);
    }
    *created = model;
    return BURN_DONE;
}

static inline void burn_model_seed(burn_model *model, uint64_t seed) {
    if (!model)
        return;
    atomic_store(&model->seed, seed);
    atomic_store(&model->draws, 0);
}

static inline void burn_pool_set_threads(int32_t threads) { (void)threads; /* there is one */ }

static inline void burn_model_free(burn_tensor *tensor) {
    if (!tensor)
        return;
    burn_memory_free(tensor->data);
    tensor->data = NULL;
}

/* ---- calls --------------------------------------------------------------------------------------------------------- */

/* The size that a symbol stands for: that of the first axis that it is written at. */
static int64_t size_of(const burn_tensor *inputs, int64_t symbol) {
    const burn_input_spec *spec = facts.versions->program.input_specs;
    for (int64_t axis = 0;; axis++) {
        for (; axis >= spec->rank; spec++, inputs++)
            axis = 0;
        if (spec->dims[axis] == symbol)
            return inputs->dims[axis];
    }
}

/* Checks an input's type and sizes; the previous inputs are already checked. */
static int32_t checked(const burn_tensor *inputs, int64_t which) {
    const burn_input_spec *spec = &facts.versions->program.input_specs[which];
    const burn_tensor *given = &inputs[which];
    int64_t bytes = spec->element_bytes;
    if (given->element != spec->kind.dtype || (!given->data && given->bytes) ||
        (uintptr_t)given->data % (uintptr_t)(bytes < 8 ? bytes : 8))
        return BURN_E_ARGUMENT;
    if (given->rank != spec->rank)
        return BURN_E_INPUT_MISMATCH;
    for (int64_t axis = 0; axis < spec->rank; axis++) {
        int64_t wanted = spec->dims[axis], size = given->dims[axis];
        if (facts.symbol_count && wanted < 0)
            wanted = wanted == BURN_ANY_DIM ? size : size_of(inputs, wanted);
        if (size != wanted || size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
            return BURN_E_INPUT_MISMATCH;
    }
    return given->bytes == bytes ? BURN_DONE : BURN_E_INPUT_MISMATCH;
}

/* The bytes of an output that a run has made. */
static int64_t written(const burn_run *run, int64_t which) {
    int64_t bytes = facts.versions->program.output_specs[which].element_bytes;
    for (int32_t axis = 0; axis < run->outputs[which].rank; axis++)
        bytes *= run->outputs[which].dims[axis];
    return bytes;
}

/* Passes a run's outputs to the caller: copied to the caller's memory, or with ownership if the caller has none. If
 * memory for one output is too small, no output is passed, and all outputs get their required sizes. */
static void give_outputs(burn_run *run) {
    for (int64_t i = 0; i < facts.output_count; i++) {
        burn_tensor *output = &run->outputs[i];
        int64_t bytes = written(run, i);
        if (output->data && output->bytes < bytes)
            fail_run(run, BURN_SMALL_OUTPUT, i);
        output->element = facts.versions->program.output_specs[i].kind.dtype;
        output->bytes = bytes;
    }
    for (int64_t i = 0; i < facts.output_count && !run->status; i++) {
        burn_tensor *output = &run->outputs[i];
        if (output->data) {
            memcpy(output->data, run->made[i].data, (size_t)output->bytes);
            continue;
        }
        output->data = run->made[i].data;
        run->made[i].data = NULL;
    }
}

/* The memory of a call that is done, or new. */
static burn_run *take_run(burn_model *model) {
    size_t size = sizeof(burn_run) + (size_t)facts.output_count * sizeof(made);
    burn_run *run = atomic_exchange(&model->spare, NULL);
    if (run)
        return run;
    run = burn_memory_new((int64_t)size);
    return run ? memset(run, 0, size) : NULL;
}

static int32_t burn_model_run(burn_model *model, const burn_tensor *inputs, burn_tensor *outputs) {
    if (!model || (!inputs && facts.input_count) || (!outputs && facts.output_count))
        return refuse(BURN_E_ARGUMENT, 0);
    for (int64_t i = 0; i < facts.input_count; i++) {
        int32_t code = checked(inputs, i);
        if (code)
            return refuse(code, i);
    }
    burn_run *run = take_run(model);
    if (!run)
        return refuse(BURN_E_OUT_OF_MEMORY, 0);
    run->model = model;
    run->worker.run = run;
    run->inputs = inputs;
    run->outputs = outputs;
    run->status = BURN_OK;
    if (facts.random_state) {
        run->state[0] = atomic_load(&model->seed);
        run->state[1] = atomic_fetch_add(&model->draws, 1);
    }
    facts.versions->program.entry(run);
#ifdef BURN_BLOCKS
    burn_rt_release(run, -1);
#endif
    if (!run->status)
        give_outputs(run);
    int32_t status = run->status ? refuse(run->status, run->value) : BURN_DONE;
    delete_run(atomic_exchange(&model->spare, run));
    return status;
}

/* ---- sizes that are given as arguments ----------------------------------------------------------------------------- */

static int32_t check_sizes(const int64_t *symbols) {
    for (int64_t i = 0; i < facts.symbol_count; i++)
        if (symbols[i] < 0)
            return refuse(BURN_E_NEGATIVE_SIZE, symbols[i]);
    return BURN_DONE;
}

static inline int32_t burn_model_dims(const burn_model_facts *own, const int64_t *symbols, int32_t output, int64_t *dims) {
    (void)own;
    if (output < 0 || output >= facts.output_count || !dims)
        return refuse(BURN_E_ARGUMENT, output);
    if (check_sizes(symbols))
        return failure.code;
    const burn_value *value = &facts.outputs[output];
    for (int32_t axis = 0; axis < value->rank; axis++) {
        dims[axis] = burn_model_size(&value->dims[axis], symbols);
        if (dims[axis] < 0 && dims[axis] != BURN_UNKNOWN_SIZE)
            return refuse(BURN_E_SIZE_OVERFLOW, output);
    }
    return BURN_DONE;
}

/* A tensor of these sizes in the caller's memory. */
static int32_t sized(const burn_value *value, const int64_t *symbols, const void *data, burn_tensor *tensor) {
    static char nothing[BURN_ALIGNMENT]; /* what a null pointer to no bytes is replaced by */
    *tensor = (burn_tensor){(void *)data, value->element_bytes, value->element, value->rank, {0}};
    for (int32_t axis = 0; axis < value->rank; axis++) {
        tensor->dims[axis] = burn_model_size(&value->dims[axis], symbols);
        tensor->bytes = tensor->dims[axis] < 0 ? BURN_NO_SIZE : burn_size_mul(tensor->bytes, tensor->dims[axis]);
    }
    if (tensor->bytes < 0)
        return refuse(BURN_E_SIZE_OVERFLOW, 0);
    if (!data && tensor->bytes)
        return refuse(BURN_E_ARGUMENT, 0);
    tensor->data = data ? (void *)data : nothing;
    return BURN_DONE;
}

enum { INPUT_ROOM = sizeof inputs / sizeof *inputs, OUTPUT_ROOM = sizeof outputs / sizeof *outputs };

static inline int32_t burn_model_call(burn_model *model, const int64_t *symbols, const void *const *in, void *const *out) {
    burn_tensor given[INPUT_ROOM], wanted[OUTPUT_ROOM];
    if (check_sizes(symbols))
        return failure.code;
    for (int64_t i = 0; i < facts.input_count; i++)
        if (sized(&facts.inputs[i], symbols, in[i], &given[i]))
            return failure.code;
    for (int64_t i = 0; i < facts.output_count; i++)
        if (sized(&facts.outputs[i], symbols, out[i], &wanted[i]))
            return failure.code;
    return burn_model_run(model, given, wanted);
}
