/* Messages, numbers and files of the command line, for the commands of models and of trainings. */
#ifndef BURN_COMMAND_H
#define BURN_COMMAND_H

#include "model.h"
#include "npz.h"

enum { BURN_EXIT_FAILED = 1, BURN_EXIT_USAGE = 2 }; /* exit statuses */

void burn_command_name(const char *name); /* in front of messages */
/* Prints text in which a model's names stand; characters that steer a terminal are written as numbers. */
void burn_say(const char *format, ...);
/* Ends the process with a message of one line. */
void burn_exit(int status, const char *format, ...);
void *burn_room(size_t count, size_t size); /* zeroed memory, or the end of the process */
/* A number from `least` to `most`, or the end of the process. what: the option. */
int64_t burn_number(const char *text, const char *what, int64_t least, int64_t most);
int burn_ends_in(const char *text, const char *end);

typedef struct burn_content {
    unsigned char *data;
    int64_t bytes;
} burn_content;

burn_content burn_read_all(const char *path); /* "-" is standard input */
/* A copy of an array as an input, whose element type it must have. path: the file, for messages. */
burn_tensor burn_tensor_of(const burn_value *value, const burn_array *array, const char *path);
burn_array burn_array_of(const burn_value *value, const burn_tensor *tensor);
char burn_kind_letter(int32_t element); /* numpy's; 'V' for elements that numpy has no letter for */
/* Into a .npz, or one array into a .npy, or as plain bytes. "-" is standard output. */
void burn_write_arrays(const char *path, int64_t count, const char *const *names, const burn_array *arrays);
void burn_show(const burn_model_facts *facts, const burn_tensor *tensors); /* the first elements of each output */
/* The file of weights: `given`, or else beside the program, whose own name is `self`. */
const char *burn_weights_path(const burn_model_facts *facts, const char *given, const char *self);

#endif
