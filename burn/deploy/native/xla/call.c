/* A model as a function that XLA calls: a handler of its foreign function interface. program.h and its library are those that
 * burn-compile writes for a model called `program`. */
#include <stdio.h>
#include <string.h>

#include "program.h"
#include "xla/ffi/api/c_api.h"

#define EXPORTED __attribute__((visibility("default")))

enum { MOST = (PROGRAM_INPUTS > PROGRAM_OUTPUTS ? PROGRAM_INPUTS : PROGRAM_OUTPUTS) + 1 };

static program_model *model;
static char nothing[64] __attribute__((aligned(64))); /* the address of arrays without elements */

/* burn's element type of one of XLA's, and its bytes; -1 for a type without one. */
static int32_t element_of(XLA_FFI_DataType type, int64_t *bytes) {
    switch (type) {
    case XLA_FFI_DataType_PRED: return *bytes = 1, BURN_BOOLEAN;
    case XLA_FFI_DataType_S8: return *bytes = 1, BURN_INT8;
    case XLA_FFI_DataType_S16: return *bytes = 2, BURN_INT16;
    case XLA_FFI_DataType_S32: return *bytes = 4, BURN_INT32;
    case XLA_FFI_DataType_S64: return *bytes = 8, BURN_INT64;
    case XLA_FFI_DataType_U8: return *bytes = 1, BURN_UINT8;
    case XLA_FFI_DataType_U16: return *bytes = 2, BURN_UINT16;
    case XLA_FFI_DataType_U32: return *bytes = 4, BURN_UINT32;
    case XLA_FFI_DataType_U64: return *bytes = 8, BURN_UINT64;
    case XLA_FFI_DataType_F16: return *bytes = 2, BURN_FLOAT16;
    case XLA_FFI_DataType_BF16: return *bytes = 2, BURN_BFLOAT16;
    case XLA_FFI_DataType_F32: return *bytes = 4, BURN_FLOAT32;
    case XLA_FFI_DataType_F64: return *bytes = 8, BURN_FLOAT64;
    default: return -1;
    }
}

static XLA_FFI_Error *failed(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *message) {
    XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = message, .errc = code};
    return api->XLA_FFI_Error_Create(&args);
}

/* A buffer as a tensor. 0, or -1 for a type or rank that models do not take. */
static int tensor_of(const XLA_FFI_Buffer *buffer, burn_tensor *tensor) {
    int64_t width = 0;
    memset(tensor, 0, sizeof *tensor);
    tensor->element = element_of(buffer->dtype, &width);
    if (tensor->element < 0 || buffer->rank > BURN_TENSOR_RANK)
        return -1;
    tensor->rank = (int32_t)buffer->rank;
    tensor->bytes = width;
    for (int64_t axis = 0; axis < buffer->rank; axis++) {
        tensor->dims[axis] = buffer->dims[axis];
        tensor->bytes *= buffer->dims[axis];
    }
    tensor->data = tensor->bytes ? buffer->data : nothing;
    return 0;
}

static int same_shape(const XLA_FFI_Buffer *buffer, const burn_tensor *tensor) {
    if (tensor->rank != buffer->rank)
        return 0;
    for (int64_t axis = 0; axis < buffer->rank; axis++)
        if (tensor->dims[axis] != buffer->dims[axis])
            return 0;
    return 1;
}

/* Makes the model, once and before any call: 0, or an error whose text burn_xla_error returns. */
EXPORTED int32_t burn_xla_open(void) {
    return model ? BURN_DONE : program_create(&model, NULL);
}

EXPORTED const char *burn_xla_error(void) {
    return program_error();
}

EXPORTED XLA_FFI_Error *burn_xla_call(XLA_FFI_CallFrame *frame) {
    /* XLA queries the version at registration. The type of extensions has another name from JAX 0.11 on. */
    if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)(void *)frame->extension_start)->metadata;
        metadata->api_version.major_version = XLA_FFI_API_MAJOR;
        metadata->api_version.minor_version = XLA_FFI_API_MINOR;
        metadata->traits = 0;
        return NULL;
    }
    if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE)
        return NULL;
    if (frame->args.size != PROGRAM_INPUTS || frame->rets.size != PROGRAM_OUTPUTS)
        return failed(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "burn: the call has other operands than the program");
    burn_tensor inputs[MOST], outputs[MOST];
    int bad = 0;
    for (int64_t i = 0; i < frame->args.size; i++)
        bad |= frame->args.types[i] != XLA_FFI_ArgType_BUFFER || tensor_of(frame->args.args[i], &inputs[i]);
    for (int64_t i = 0; i < frame->rets.size; i++)
        bad |= frame->rets.types[i] != XLA_FFI_RetType_BUFFER || tensor_of(frame->rets.rets[i], &outputs[i]);
    if (bad)
        return failed(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "burn: an operand has a type that programs do not take");
    if (program_run_tensors(model, inputs, outputs))
        return failed(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT, program_error());
    for (int64_t i = 0; i < frame->rets.size; i++)
        if (!same_shape(frame->rets.rets[i], &outputs[i]))
            return failed(frame->api, XLA_FFI_Error_Code_INTERNAL, "burn: an output has another shape than was declared");
    return NULL;
}
