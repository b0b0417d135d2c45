/* A model's library as an addon of Node: `about()`, `create(weights)` and `run(model, inputs)`, which model.mjs makes a class of.
 *
 * The file is the same for every model of burn-compile. The model's name is set on the command line.
 *
 *     cc ... -DMODEL=digits -DMODEL_UPPER=DIGITS -include digits.h
 *
 * It uses Node-API alone, so that one addon serves all versions of Node from 16 on, and any number of its threads. A call computes in
 * one of Node's worker threads: the event loop goes on meanwhile, and several calls run side by side. */
#define NAPI_VERSION 8
#include <node_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOINED(a, b) a##_##b
#define OF(name, what) JOINED(name, what)
#define CALL(verb) OF(MODEL, verb)

enum { INPUTS = OF(MODEL_UPPER, INPUTS), OUTPUTS = OF(MODEL_UPPER, OUTPUTS) };

typedef OF(MODEL, model) the_model;

/* A call in progress. `held` keeps its operands alive: the model and the inputs. */
typedef struct run {
    napi_async_work work;
    napi_deferred promise;
    napi_ref held;
    the_model *model;
    burn_tensor inputs[INPUTS + 1], outputs[OUTPUTS + 1];
    int32_t code;
    char error[512];
} run;

/* ---- values ------------------------------------------------------------------------------------------------------ */

static napi_value refuse(napi_env env, const char *what) {
    napi_throw_type_error(env, NULL, what);
    return NULL;
}

/* An error with the library's code (enum burn_code) as its property `code`. */
static napi_value error_of(napi_env env, int32_t code, const char *text) {
    napi_value message, number, error;
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &message);
    napi_create_error(env, NULL, message, &error);
    napi_create_int32(env, code, &number);
    napi_set_named_property(env, error, "code", number);
    return error;
}

static napi_value named(napi_env env, napi_value object, const char *name) {
    napi_value value = NULL;
    napi_get_named_property(env, object, name, &value);
    return value;
}

/* {element, dims, data: Uint8Array} -> a tensor in the array's memory. 0: it is no such thing. */
static int take(napi_env env, napi_value given, burn_tensor *tensor) {
    napi_typedarray_type type;
    napi_value data = named(env, given, "data"), dims = named(env, given, "dims");
    bool is_array = false;
    size_t bytes = 0;
    uint32_t rank = 0;
    if (!data || napi_get_typedarray_info(env, data, &type, &bytes, &tensor->data, NULL, NULL) != napi_ok ||
        type != napi_uint8_array || napi_get_value_int32(env, named(env, given, "element"), &tensor->element) != napi_ok ||
        napi_is_array(env, dims, &is_array) != napi_ok || !is_array ||
        napi_get_array_length(env, dims, &rank) != napi_ok || rank > BURN_TENSOR_RANK)
        return 0;
    tensor->bytes = (int64_t)bytes;
    tensor->rank = (int32_t)rank;
    for (uint32_t axis = 0; axis < rank; axis++) {
        napi_value size;
        napi_get_element(env, dims, axis, &size);
        if (napi_get_value_int64(env, size, &tensor->dims[axis]) != napi_ok)
            return 0;
    }
    return 1;
}

/* A tensor's elements, copied, and its sizes. */
static napi_value given_back(napi_env env, const burn_tensor *tensor) {
    napi_value made, data, dims, size;
    void *memory = NULL;
    napi_create_object(env, &made);
    if (napi_create_arraybuffer(env, (size_t)tensor->bytes, &memory, &data) != napi_ok)
        return NULL;
    if (tensor->bytes)
        memcpy(memory, tensor->data, (size_t)tensor->bytes);
    napi_create_array_with_length(env, (size_t)tensor->rank, &dims);
    for (int32_t axis = 0; axis < tensor->rank; axis++) {
        napi_create_int64(env, tensor->dims[axis], &size);
        napi_set_element(env, dims, (uint32_t)axis, size);
    }
    napi_set_named_property(env, made, "data", data);
    napi_set_named_property(env, made, "dims", dims);
    return made;
}

/* ---- about() and create(weights) --------------------------------------------------------------------------------- */

static napi_value about(napi_env env, napi_callback_info info) {
    napi_value text;
    (void)info;
    napi_create_string_utf8(env, CALL(about)(), NAPI_AUTO_LENGTH, &text);
    return text;
}

static void destroy(napi_env env, void *model, void *hint) {
    (void)env, (void)hint;
    CALL(destroy)(model);
}

/* weights: a path, or anything else where they are in the library. */
static napi_value create(napi_env env, napi_callback_info info) {
    size_t count = 1, length = 0;
    napi_value path, made;
    napi_valuetype type;
    the_model *model = NULL;
    napi_get_cb_info(env, info, &count, &path, NULL, NULL);
    napi_typeof(env, path, &type);
    char *text = NULL;
    if (type == napi_string) {
        napi_get_value_string_utf8(env, path, NULL, 0, &length);
        text = calloc(length + 1, 1);
        if (text)
            napi_get_value_string_utf8(env, path, text, length + 1, &length);
    }
    int32_t code = CALL(create)(&model, text);
    free(text);
    if (code != BURN_DONE) {
        napi_throw(env, error_of(env, code, CALL(error)()));
        return NULL;
    }
    napi_create_external(env, model, destroy, NULL, &made);
    return made;
}

/* ---- run(model, inputs) ------------------------------------------------------------------------------------------ */

/* In a worker thread, where the library keeps the error's text. */
static void compute(napi_env env, void *data) {
    run *r = data;
    (void)env;
    r->code = CALL(run_tensors)(r->model, r->inputs, r->outputs);
    if (r->code != BURN_DONE)
        snprintf(r->error, sizeof r->error, "%s", CALL(error)());
}

static void finish(napi_env env, napi_status status, void *data) {
    run *r = data;
    napi_value results, each;
    napi_create_array_with_length(env, OUTPUTS, &results);
    int ok = status == napi_ok && r->code == BURN_DONE;
    for (int i = 0; ok && i < OUTPUTS; i++) {
        each = given_back(env, &r->outputs[i]);
        ok = each != NULL;
        if (ok)
            napi_set_element(env, results, (uint32_t)i, each);
    }
    for (int i = 0; r->code == BURN_DONE && i < OUTPUTS; i++)
        CALL(free)(&r->outputs[i]);
    if (ok)
        napi_resolve_deferred(env, r->promise, results);
    else if (r->code != BURN_DONE)
        napi_reject_deferred(env, r->promise, error_of(env, r->code, r->error));
    else
        napi_reject_deferred(env, r->promise, error_of(env, BURN_E_OUT_OF_MEMORY, "out of memory"));
    napi_delete_reference(env, r->held);
    napi_delete_async_work(env, r->work);
    free(r);
}

static napi_value start(napi_env env, napi_callback_info info) {
    size_t count = 2;
    napi_value given[2], held, promise, name, each;
    void *model = NULL;
    uint32_t inputs = 0;
    napi_get_cb_info(env, info, &count, given, NULL, NULL);
    if (napi_get_value_external(env, given[0], &model) != napi_ok)
        return refuse(env, "the first argument is no model");
    if (napi_get_array_length(env, given[1], &inputs) != napi_ok || inputs != INPUTS)
        return refuse(env, "the second argument is no array of as many tensors as the model has inputs");
    run *r = calloc(1, sizeof *r);
    if (!r)
        return refuse(env, "out of memory");
    r->model = model;
    for (uint32_t i = 0; i < INPUTS; i++) {
        napi_get_element(env, given[1], i, &each);
        if (!take(env, each, &r->inputs[i])) {
            free(r);
            return refuse(env, "a tensor is {element, dims, data}, its data a Uint8Array");
        }
    }
    napi_create_array_with_length(env, 2, &held);
    napi_set_element(env, held, 0, given[0]);
    napi_set_element(env, held, 1, given[1]);
    napi_create_reference(env, held, 1, &r->held);
    napi_create_promise(env, &r->promise, &promise);
    napi_create_string_utf8(env, "run", NAPI_AUTO_LENGTH, &name);
    napi_create_async_work(env, NULL, name, compute, finish, r, &r->work);
    napi_queue_async_work(env, r->work);
    return promise;
}

NAPI_MODULE_INIT() {
    static const struct {
        const char *name;
        napi_callback function;
    } offered[] = {{"about", about}, {"create", create}, {"run", start}};
    for (size_t i = 0; i < sizeof offered / sizeof *offered; i++) {
        napi_value function;
        napi_create_function(env, offered[i].name, NAPI_AUTO_LENGTH, offered[i].function, NULL, &function);
        napi_set_named_property(env, exports, offered[i].name, function);
    }
    return exports;
}
