/* Common declarations of all compiled models' interfaces. Each model's header includes this text, so one file is enough. */
#ifndef BURN_MODEL_H
#define BURN_MODEL_H
#include <stdint.h>

/* Return codes. Codes above 0 are errors; <model>_error() returns their text. */
enum burn_code {
    BURN_DONE = 0,
    /* The program failed while it ran. */
    BURN_E_OUT_OF_MEMORY = 1,
    BURN_E_INDEX_OUT_OF_RANGE = 2,
    BURN_E_SHAPE_MISMATCH = 3,
    BURN_E_NEGATIVE_SIZE = 4,
    BURN_E_DIVIDE_BY_ZERO = 5,
    BURN_E_EMPTY_REDUCTION = 6,
    BURN_E_LOOP_LIMIT = 7,
    BURN_E_CHECK_FAILED = 8,
    BURN_E_SIZE_OVERFLOW = 9,
    BURN_E_INPUT_MISMATCH = 10, /* an input's sizes are not those that the model takes */
    BURN_E_SHARED_MEMORY = 11,
    BURN_E_INTERRUPTED = 12,
    BURN_E_BAD_TEXT = 13,
    BURN_E_EMPTY_LIST = 14,
    BURN_E_WRONG_ITEM = 15,
    BURN_E_HOST_FAILED = 16,
    BURN_E_DEVICE_FAILED = 17,
    BURN_E_SMALL_OUTPUT = 18, /* the memory given for an output is too small */
    BURN_E_CANCELLED = 19,    /* these three end only runs of a process with burn's own runtime: no call here sets a limit */
    BURN_E_TOO_LONG = 20,
    BURN_E_TOO_LARGE = 21,
    BURN_E_NOT_FINITE = 22,    /* a program compiled under burn.debug.nans made a NaN or an infinity */
    BURN_E_CUSTOM_FAILED = 23, /* a custom op's function returned a number other than 0 */
    BURN_E_OUT_OF_BOUNDS = 24, /* a custom op's function wrote outside of its tensors, under BURN_DEBUG_BOUNDS=1 */
    BURN_E_COLLECTIVE_FAILED = 25, /* only in a process of a training on several: a collective did not end */
    /* The call was wrong, or the machine is. */
    BURN_E_ARGUMENT = 64, /* a null pointer, a negative size, an element type that is not the model's */
    BURN_E_WEIGHTS = 65,  /* the file of weights is absent, too short, or another model's */
    BURN_E_CPU = 66,      /* this CPU lacks instructions that the model was compiled to use */
    BURN_E_GPU = 67,     /* there is no driver, or no GPU that the model was compiled for */
    BURN_E_CHECKPOINT = 68 /* a checkpoint cannot be read or written, is damaged, or is another training's */
};

/* Element types. Those narrower than a byte take one, bool is 0 or 1, complex numbers are pairs. */
enum burn_element {
    BURN_FLOAT64, BURN_FLOAT32, BURN_FLOAT16, BURN_BFLOAT16,
    BURN_FLOAT8_E4M3FN, BURN_FLOAT8_E4M3FNUZ, BURN_FLOAT8_E5M2, BURN_FLOAT8_E5M2FNUZ, BURN_FLOAT8_E8M0FNU,
    BURN_FLOAT4_E2M1FN,
    BURN_INT2, BURN_INT4, BURN_INT8, BURN_INT16, BURN_INT32, BURN_INT64,
    BURN_UINT2, BURN_UINT4, BURN_UINT8, BURN_UINT16, BURN_UINT32, BURN_UINT64,
    BURN_BOOLEAN, BURN_COMPLEX64, BURN_COMPLEX128
};

enum { BURN_TENSOR_RANK = 16 };

/* A tensor in row-major order. */
typedef struct burn_tensor {
    void *data;      /* of an output: the caller's memory, or NULL to have it allocated (burn_tensor's model frees it) */
    int64_t bytes;   /* of an output: how many there are; after the call, how many were written */
    int32_t element; /* enum burn_element; an output's is filled in */
    int32_t rank;    /* an output's is filled in, with its dims */
    int64_t dims[BURN_TENSOR_RANK];
} burn_tensor;
#endif
