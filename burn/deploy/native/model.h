/* A compiled program with its tables: what the C files that burn-compile generates say of a model, and what their functions call.
 * Enter at burn_model_create. */
#ifndef BURN_DEPLOY_MODEL_H
#define BURN_DEPLOY_MODEL_H

#include "burn_model.h"
#include "runtime.h"

/* A size: a number, or what symbols give, or what only a run can tell (-1 and no function). */
typedef struct burn_size {
    int64_t number;
    int64_t (*of)(const int64_t *symbols); /* BURN_NO_SIZE where it overflows or divides by zero */
} burn_size;

#define BURN_UNKNOWN_SIZE (-1)
#define BURN_NO_SIZE INT64_MIN

typedef struct burn_value {
    const char *name, *type; /* "x", "float32[batch, 3]" */
    int32_t element, rank;
    int64_t element_bytes;
    const burn_size *dims;
} burn_value;

typedef struct burn_stored {
    int64_t offset, bytes; /* in the weights */
    int64_t strings;       /* how many, where it is a tensor of strings, or -1 */
} burn_stored;

/* The program for one kind of CPU, and of GPU if it has GPU code. */
typedef struct burn_version {
    const char *const *features; /* all are required; ends with NULL */
    const char *gpu, *architecture; /* "cuda", "sm_90"; NULL: no GPU code */
    burn_program_info program;   /* without its constants */
    const burn_stored *constants;
} burn_version;

typedef struct burn_model_facts burn_model_facts;
struct burn_model_facts {
    const char *name, *about; /* about: JSON */
    const burn_version *versions; /* the first supported one is used; inputs and outputs are equal; all or none are for GPUs */
    int64_t version_count;
    const char *const *symbols;  /* names of sizes */
    int64_t symbol_count;
    const burn_value *inputs, *outputs; /* the random state, the program's last input, is not among them */
    int64_t input_count, output_count;
    int random_state;
    const unsigned char *weights; /* in the binary, or NULL: they lie in a file */
    const char *weights_file;     /* its usual name */
    int64_t weights_bytes;        /* of the whole file */
    uint64_t weights_checksum;
    const char *const *messages;  /* by status, with {value} and {site} in them */
    int64_t message_count;
    /* burn_gpu_open; NULL: no GPU code, and linked without the runtime's GPU files */
    int32_t (*open_gpu)(const burn_model_facts *facts, burn_device **gpu, const char **architecture);
};

typedef struct burn_model burn_model;

/* Inputs and outputs of a program behind those that its facts list: a training's state (train/train.h). */
typedef struct burn_further {
    const burn_input *inputs;
    int64_t input_count;
    burn_output *outputs; /* after the call as burn_program_run has them */
    const burn_destination *destinations;
    int64_t output_count;
    const uint64_t *random; /* the random state, if the program has one: a seed and a number */
} burn_further;

/* Each returns an enum burn_code; burn_model_error then says what went wrong in this thread. */
BURN_OWN int32_t burn_model_create(const burn_model_facts *facts, const char *weights, burn_model **model);
BURN_OWN void burn_model_destroy(burn_model *model);
BURN_OWN int32_t burn_model_run(burn_model *model, const burn_tensor *inputs, burn_tensor *outputs);
/* The same with a size for every symbol: each output lies in the caller's memory, of the size that these give. */
BURN_OWN int32_t burn_model_call(burn_model *model, const int64_t *symbols, const void *const *inputs, void *const *outputs);
/* The same with further inputs and outputs. */
int32_t burn_model_run_with(burn_model *model, const burn_tensor *inputs, burn_tensor *outputs,
                            const burn_further *further);
int32_t burn_model_call_with(burn_model *model, const int64_t *symbols, const void *const *inputs, void *const *outputs,
                             const burn_further *further);
/* The program that was chosen for this CPU, and the weights. */
const burn_version *burn_model_version(const burn_model *model);
const unsigned char *burn_model_weights(const burn_model *model);
/* The bytes of an output; -1: they are not known, or do not fit 64 bits. */
int64_t burn_model_bytes(const burn_model_facts *facts, const int64_t *symbols, int64_t output);
BURN_OWN int32_t burn_model_dims(const burn_model_facts *facts, const int64_t *symbols, int32_t output, int64_t *dims);
BURN_OWN void burn_model_seed(burn_model *model, uint64_t seed);
BURN_OWN void burn_model_free(burn_tensor *tensor);
BURN_OWN const char *burn_model_error(void);
BURN_OWN int32_t burn_model_fail(int32_t code, const char *format, ...);
/* One of a value's sizes; negative: BURN_UNKNOWN_SIZE, or there is none. */
BURN_OWN int64_t burn_model_size(const burn_size *size, const int64_t *symbols);

/* gpu.c: the first GPU of this machine with a version, and that version's architecture. */
int32_t burn_gpu_open(const burn_model_facts *facts, burn_device **gpu, const char **architecture);

/* weights.c */
typedef struct burn_weights {
    const unsigned char *data;
    int64_t bytes;
    int mapped;
} burn_weights;

BURN_OWN int burn_weights_open(const char *path, int64_t bytes, uint64_t checksum, burn_weights *weights); /* 0: an error is set */
BURN_OWN void burn_weights_close(burn_weights *weights);

/* Size arithmetic of generated functions. Overflow gives BURN_NO_SIZE, which propagates. */
BURN_OWN int64_t burn_size_add(int64_t a, int64_t b);
BURN_OWN int64_t burn_size_sub(int64_t a, int64_t b);
BURN_OWN int64_t burn_size_mul(int64_t a, int64_t b);
BURN_OWN int64_t burn_size_floordiv(int64_t a, int64_t b);
BURN_OWN int64_t burn_size_mod(int64_t a, int64_t b);
BURN_OWN int64_t burn_size_min(int64_t a, int64_t b);
BURN_OWN int64_t burn_size_max(int64_t a, int64_t b);
BURN_OWN int64_t burn_size_broadcast(int64_t a, int64_t b);

#endif
