/* Shared by the files of a module of WebAssembly, and the tables of its model. */
#ifndef BURN_MODULE_H
#define BURN_MODULE_H

#include "runtime.h"

typedef struct burn_stored {
    int64_t offset, bytes; /* in the weights */
    int64_t strings;       /* how many, where it is a tensor of strings, or -1 */
} burn_stored;

typedef struct burn_module {
    burn_program_info program; /* without its constants' addresses */
    const burn_stored *constants;
} burn_module;

extern const burn_module burn_own_module;
extern const int64_t burn_own_kernels[]; /* of a program with GPU code: where the text of each kernel begins */

/* values.c: of the one call at a time. */
typedef struct burn_values {
    burn_input *inputs;
    burn_output *outputs;
    burn_failure failure;
    int32_t on_device; /* inputs are addresses of a device's memory */
} burn_values;

extern burn_values burn_own_values;

int burn_values_open(const burn_program_info *program); /* 0: there is no memory */

#endif
