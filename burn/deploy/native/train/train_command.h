/* Shared by the files of a training's command: `command_main.c` enters, `command_options.c` reads the command line, `command_rows.c` the
 * .npz files, `command_order.c` shuffles, `command_epochs.c` trains and `command_predict.c` runs the model. */
#ifndef BURN_TRAIN_COMMAND_H
#define BURN_TRAIN_COMMAND_H

#include <signal.h>

#include "command.h"
#include "files.h"
#include "train.h"

extern const burn_trainer_facts *const burn_main_trainer;

extern volatile sig_atomic_t burn_interrupted; /* Ctrl-C and SIGTERM end the training after its step */

void burn_trainer_failed(const char *what); /* ends the command with the error of the last call */

/* ---- command_options.c ------------------------------------------------------------------------------------------- */

typedef struct burn_train_options {
    const char **files;
    int64_t file_count, epochs, batch, every;
    const char *load, *resume, *save, *predict, *output, *weights;
    uint64_t seed, draws_seed;
    int keeps_order, drops_last, has_draws_seed;
} burn_train_options;

/* Ends the process for --help, --info, and words that are no options. */
burn_train_options burn_parse_options(int count, char **words);

/* ---- command_rows.c ---------------------------------------------------------------------------------------------- */

/* An input's array of all rows. Inputs without an axis for rows are the same in each step. */
typedef struct burn_column {
    unsigned char *data;
    int64_t rows, row_bytes, bytes;
    int has_rows, rank;
    int64_t dims[BURN_TENSOR_RANK];
    const char *path; /* of the first file that has it */
} burn_column;

/* The arrays of all inputs from all files, and how many rows they have. */
burn_column *burn_read_columns(const burn_train_options *o, int64_t *rows);
/* Reads one file's array for an input; 0: there is none of its name. */
int burn_read_array(const burn_value *value, burn_content file, const char *path, burn_array *array);
void burn_missing_array(const burn_value *value, burn_content file, const char *path); /* ends the command */

/* ---- command_order.c --------------------------------------------------------------------------------------------- */

typedef struct burn_ranked {
    uint64_t word;
    int64_t row;
} burn_ranked;

/* The rows of an epoch, which counts from 0, in their order. */
void burn_order_rows(burn_ranked *order, int64_t rows, const burn_train_options *o, int64_t epoch);

/* ---- command_epochs.c, command_predict.c ------------------------------------------------------------------------- */

void burn_train(burn_trainer *trainer, const burn_train_options *o);
burn_tensor *burn_read_predicted(const burn_train_options *o); /* the inputs of --predict */
void burn_predict(burn_trainer *trainer, const burn_train_options *o, const burn_tensor *inputs);

#endif
