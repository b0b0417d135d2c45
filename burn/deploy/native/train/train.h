/* A compiled training step: tables that burn-compile generates, and the functions over them. Enter at burn_trainer_create. */
#ifndef BURN_TRAIN_H
#define BURN_TRAIN_H

#include <stddef.h>

#include "model.h"

/* A tensor that lives from call to call. */
typedef struct burn_state {
    const char *type, *dtype, *code; /* "float32[3, 4]", "float32", and the element type as safetensors has it: "F32" */
    int32_t rank, item;              /* item: bytes of an element */
    const int64_t *dims;
    int64_t bytes, offset; /* offset: of its first elements in the weights, or -1: they are zeros */
} burn_state;

/* A state's name in checkpoints. A state may have several, and those that never change have none. */
typedef struct burn_state_name {
    const char *name; /* "model.head.weight" */
    int32_t state;
    int32_t counts; /* of an optimizer's count of some parameters' steps: the state with the number of all steps; else -1 */
} burn_state_name;

/* A program over states. state_inputs: the states that are its further inputs; state_outputs: those that its further outputs are
 * the next elements of. */
typedef struct burn_trained {
    const burn_model_facts *facts;
    const int32_t *state_inputs, *state_outputs;
    int64_t state_input_count, state_output_count;
} burn_trained;

typedef struct burn_trainer_facts {
    burn_trained step, predict; /* predict.facts is NULL if there is no function for inference */
    const char *about;          /* JSON */
    const burn_state *states;
    int64_t state_count;
    const burn_state_name *names;
    int64_t name_count;
    uint64_t seed, draws; /* of random numbers */
    const char *checkpoint; /* JSON: the content of a checkpoint besides tensors */
    int64_t steps;          /* that were made already */
    /* Of commands; for others has_rows is NULL. By the step's inputs: 1 if its first axis is the rows of a batch. */
    const unsigned char *has_rows;
    int64_t batch; /* the number of a batch's rows, or 0: any */
} burn_trainer_facts;

typedef struct burn_trainer burn_trainer;

/* Each returns an enum burn_code; burn_model_error then has the message. All are thread-safe: calls of one trainer run one
 * after another. */
int32_t burn_trainer_create(const burn_trainer_facts *facts, const char *weights, burn_trainer **made);
void burn_trainer_destroy(burn_trainer *trainer);
int32_t burn_trainer_step(burn_trainer *trainer, const int64_t *symbols, const void *const *inputs, void *const *outputs);
int32_t burn_trainer_predict(burn_trainer *trainer, const int64_t *symbols, const void *const *inputs, void *const *outputs);
int32_t burn_trainer_step_tensors(burn_trainer *trainer, const burn_tensor *inputs, burn_tensor *outputs);
int32_t burn_trainer_predict_tensors(burn_trainer *trainer, const burn_tensor *inputs, burn_tensor *outputs);
int32_t burn_trainer_seed(burn_trainer *trainer, uint64_t seed);
int64_t burn_trainer_steps(burn_trainer *trainer);
int32_t burn_trainer_read(burn_trainer *trainer, const char *name, void *data, int64_t bytes);
int32_t burn_trainer_write(burn_trainer *trainer, const char *name, const void *data, int64_t bytes);

/* The largest number of steps, epochs and batches: sums of two do not overflow. */
#define BURN_MOST_COUNT (INT64_MAX / 2)

/* ---- checkpoint_*.c ---------------------------------------------------------------------------------------------- */
/* Receives a checkpoint piece by piece; 0: it cannot take more. */
typedef int (*burn_sink)(void *context, const void *data, size_t bytes);

int32_t burn_trainer_save(burn_trainer *trainer, const char *path);
int32_t burn_trainer_load(burn_trainer *trainer, const char *path);
int32_t burn_trainer_save_to(burn_trainer *trainer, burn_sink sink, void *context);
/* what: the file's name for messages. */
int32_t burn_trainer_load_from(burn_trainer *trainer, const unsigned char *data, int64_t bytes, const char *what);

/* A training's position in its data, for the facts of checkpoints. data: JSON of a loader's position, or NULL. */
typedef struct burn_position {
    int64_t epoch, batch;
    const char *data;
    int is_known; /* 0: no checkpoint was loaded, or steps were made since */
} burn_position;

/* Takes a copy. NULL: none is known, and the history of epochs is left out. */
void burn_trainer_set_position(burn_trainer *trainer, const burn_position *position);
/* The loaded or last given position. data is JSON or NULL, and valid until the next call. */
burn_position burn_trainer_position(burn_trainer *trainer);

/* ---- shared by train.c and checkpoints ---------------------------------------------------------------------------- */
typedef struct burn_trainer_content {
    const burn_trainer_facts *facts;
    void **states;
    uint64_t *seed, *draws;
    int64_t *steps, *positioned; /* positioned: the number of steps at the position in data, or -1: none is known */
    char **checkpoint; /* JSON in memory of malloc, or NULL: facts->checkpoint */
} burn_trainer_content;

burn_trainer_content burn_trainer_lock(burn_trainer *trainer); /* until burn_trainer_unlock no other call changes it */
void burn_trainer_unlock(burn_trainer *trainer);

#endif
