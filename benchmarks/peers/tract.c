/* tract's C interface, as its Python package declares it. */
#include "peer.h"

#include <stdio.h>
#include <string.h>

enum { INT64 = 0x28, FLOAT32 = 0x34 };

int tract_onnx_create(void **onnx);
int tract_onnx_load(void *onnx, const char *path, void **model);
int tract_inference_model_into_model(void **from, void **model);
int tract_inference_model_input_count(void *model, size_t *count);
int tract_inference_model_input_name(void *model, size_t input, char **name);
int tract_model_into_runnable(void **model, void **runnable);
int tract_runnable_output_count(void *runnable, size_t *count);
int tract_runnable_run(void *runnable, void **inputs, void **outputs);
int tract_tensor_from_bytes(int type, size_t rank, const size_t *shape, const void *data, void **tensor);
int tract_tensor_as_bytes(void *tensor, int *type, size_t *rank, const size_t **shape, const void **data);
int tract_tensor_destroy(void **tensor);
const char *tract_get_last_error(void);

enum { MOST_OUTPUTS = 64 };
static void *runnable, *outputs[MOST_OUTPUTS];
static size_t output_count;
static int input_of[MOST_INPUTS]; /* the model's inputs: which of ours each is */

static void check(int failed) {
    if (failed)
        fail("tract", tract_get_last_error());
}

void peer_open(const char *path, const input *inputs, int count) {
    void *onnx, *read, *model;
    check(tract_onnx_create(&onnx));
    check(tract_onnx_load(onnx, path, &read));
    for (int i = 0; i < count; i++) {
        char *name;
        check(tract_inference_model_input_name(read, (size_t)i, &name));
        for (int j = 0; j < count; j++)
            if (strcmp(inputs[j].name, name) == 0)
                input_of[i] = j;
    }
    check(tract_inference_model_into_model(&read, &model));
    check(tract_model_into_runnable(&model, &runnable));
    check(tract_runnable_output_count(runnable, &output_count));
    if (output_count > MOST_OUTPUTS)
        fail(path, "has too many outputs");
}

const void *peer_run(const input *inputs, int count, size_t *bytes) {
    void *given[MOST_INPUTS];
    for (int i = 0; i < count; i++) {
        const input *in = &inputs[input_of[i]];
        check(tract_tensor_from_bytes(in->is_int64 ? INT64 : FLOAT32, in->rank, (const size_t *)in->dims, in->data, &given[i]));
    }
    for (size_t i = 0; i < output_count; i++)
        if (outputs[i])
            check(tract_tensor_destroy(&outputs[i]));
    check(tract_runnable_run(runnable, given, outputs));
    for (int i = 0; i < count; i++)
        check(tract_tensor_destroy(&given[i]));
    int type;
    size_t rank;
    const size_t *shape;
    const void *data;
    check(tract_tensor_as_bytes(outputs[0], &type, &rank, &shape, &data));
    *bytes = sizeof(float);
    for (size_t i = 0; i < rank; i++)
        *bytes *= shape[i];
    return data;
}
