/* ONNX Runtime's C interface: a table of functions. Newer versions only append to it. These are the indices of those used here. */
#include "peer.h"

#include <stdio.h>

typedef struct status status;
typedef status *(*function)();

typedef struct base {
    const void *const *(*api)(uint32_t version);
    const char *(*version)(void);
} base;

const base *OrtGetApiBase(void);

enum {
    ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9, CREATE_OPTIONS = 10, SET_INTRA_THREADS = 24,
    OUTPUT_NAME = 37, CREATE_TENSOR = 49, TENSOR_DATA = 51, ELEMENT_TYPE = 60, ELEMENT_COUNT = 64, TYPE_AND_SHAPE = 65,
    CPU_MEMORY = 69, DEFAULT_ALLOCATOR = 78, RELEASE_VALUE = 96, RELEASE_SHAPE = 99,
};
enum { VERSION = 16, FLOAT32 = 1, INT64 = 7, WARNING = 2, ARENA = 1, DEFAULT_MEMORY = 0 };

static const void *const *api;
static void *session, *values[MOST_INPUTS], *output;
static const char *names[MOST_INPUTS];
static char *output_name;

#define CALL(entry, ...) check(((function)api[entry])(__VA_ARGS__))

static void check(status *failed) {
    if (failed)
        fail("ONNX Runtime", ((const char *(*)(const status *))api[ERROR_MESSAGE])(failed));
}

void peer_open(const char *model, const input *inputs, int count) {
    void *environment, *options, *memory, *allocator;
    api = OrtGetApiBase()->api(VERSION);
    CALL(CREATE_ENV, WARNING, "peer", &environment);
    CALL(CREATE_OPTIONS, &options);
    CALL(SET_INTRA_THREADS, options, 1);
    CALL(CREATE_SESSION, environment, model, options, &session);
    CALL(CPU_MEMORY, ARENA, DEFAULT_MEMORY, &memory);
    CALL(DEFAULT_ALLOCATOR, &allocator);
    CALL(OUTPUT_NAME, session, (size_t)0, allocator, &output_name);
    for (int i = 0; i < count; i++) {
        names[i] = inputs[i].name;
        CALL(CREATE_TENSOR, memory, inputs[i].data, inputs[i].bytes, inputs[i].dims, inputs[i].rank,
             inputs[i].is_int64 ? INT64 : FLOAT32, &values[i]);
    }
}

const void *peer_run(const input *inputs, int count, size_t *bytes) {
    (void)inputs;
    if (output)
        ((void (*)(void *))api[RELEASE_VALUE])(output);
    output = NULL;
    CALL(RUN, session, NULL, names, values, (size_t)count, (const char *const *)&output_name, (size_t)1, &output);
    void *data, *shape;
    CALL(TENSOR_DATA, output, &data);
    CALL(TYPE_AND_SHAPE, output, &shape);
    CALL(ELEMENT_COUNT, shape, bytes);
    ((void (*)(void *))api[RELEASE_SHAPE])(shape);
    *bytes *= sizeof(float);
    return data;
}
