/* The tables of a model for module.c. */
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

#endif
