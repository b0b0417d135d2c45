/* A model that burn compiled as a static library called `model`. */
#include "peer.h"

#include "model.h"
#include <string.h>

static model_model *model;
static burn_tensor given[MODEL_INPUTS], outputs[MODEL_OUTPUTS];

void peer_open(const char *weights, const input *inputs, int count) {
    model_set_threads(1);
    if (model_create(&model, weights))
        fail(weights, model_error());
    for (int i = 0; i < count; i++) {
        const input *in = &inputs[i];
        given[i] = (burn_tensor){in->data, (int64_t)in->bytes, in->is_int64 ? BURN_INT64 : BURN_FLOAT32, (int32_t)in->rank};
        memcpy(given[i].dims, in->dims, sizeof in->dims);
    }
}

/* The first call allocates the outputs, the others write into them. */
const void *peer_run(const input *inputs, int count, size_t *bytes) {
    (void)inputs, (void)count;
    if (model_run_tensors(model, given, outputs))
        fail("burn", model_error());
    *bytes = (size_t)outputs[0].bytes;
    return outputs[0].data;
}
