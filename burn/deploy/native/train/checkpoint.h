/* Shared by the files of checkpoints: the names in the metadata, the content besides tensors, and checksums.
 *
 * A checkpoint is in Python's format (burn/train/checkpoints.py): safetensors, whose metadata has the content besides tensors as
 * JSON, and checksums. That content is in checkpoint_content.c, and checkpoint_write.c and checkpoint_read.c are the two directions.
 * Those of files are in checkpoint_file.c. */
#ifndef BURN_CHECKPOINT_H
#define BURN_CHECKPOINT_H

#include "json.h"
#include "train.h"

#define KEY "burn.train"
#define CHECKSUMS "burn.train.checksums"
#define PARTS "burn.train.parts"
#define PRODUCER "burn-mlir"
#define MODEL "model."

enum { HEAD = 8, ALIGNED = 64, MOST_HEADER = 100000000, LARGEST_ITEM = 16 };

int32_t burn_no_memory(void); /* BURN_E_OUT_OF_MEMORY, with its message */

/* ---- checkpoint_content.c ---------------------------------------------------------------------------------------- */

typedef struct burn_replacement {
    const char *key;
    const char *value; /* JSON */
} burn_replacement;

/* An object with other values for some keys, which are added if they are not there. A value of NULL takes a key away. */
void burn_content_replace(burn_text *out, const char *object, const burn_replacement *with, size_t count);
burn_member burn_content_member(const char *object, const char *key); /* its key is NULL if there is none */
int burn_content_number(const char *object, const char *key, uint64_t *number);
const char *burn_content_facts(const burn_trainer_content *content); /* of the last checkpoint, or the training's own */
/* If the position is unknown, as steps were made since the last: writes the facts without one, and returns 1. Otherwise 0. */
int burn_content_here(const burn_trainer_content *content, burn_text *out);

/* ---- checkpoint_sums.c ------------------------------------------------------------------------------------------- */

typedef struct burn_text_of {
    char *key, *value;
} burn_text_of;

/* Of all metadata but the checksums, which it sorts by key. 0: memory is out. */
int burn_metadata_checksum(burn_text_of *texts, size_t count, uint32_t *crc);
uint32_t burn_tensor_checksum(const char *name, const burn_state *state, const void *data);

#endif
