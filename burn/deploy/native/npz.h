/* Arrays in numpy's files: .npy, and .npz, which are zip files of these. See npz.c. */
#ifndef BURN_NPZ_H
#define BURN_NPZ_H

#include <stdint.h>
#include <stdio.h>

#include "burn_model.h"

/* An array found in a file's bytes. `owned` is memory to free, or NULL where data lies in these. */
typedef struct burn_array {
    const unsigned char *data;
    int64_t bytes;
    char kind; /* as numpy's dtype.kind: 'f', 'i', 'u', 'b', 'c', 'V' */
    int item;  /* bytes of an element */
    int rank;
    int64_t dims[BURN_TENSOR_RANK];
    void *owned;
} burn_array;

/* Each returns 0 with the reason in `error` (at least 256 bytes) for what is malformed or not supported. */
int burn_npy_read(const unsigned char *file, int64_t bytes, burn_array *array, char *error);
/* -1: there is no array of that name. name NULL: the first one. */
int burn_npz_read(const unsigned char *file, int64_t bytes, const char *name, burn_array *array, char *error);
/* The names of all arrays, for people. */
void burn_npz_names(const unsigned char *file, int64_t bytes, char *text, size_t size);
void burn_array_free(burn_array *array);

/* The header of a .npy file for a tensor, with its length; text has room for 512 bytes. */
int burn_npy_header(char *text, char kind, int item, int rank, const int64_t *dims);
/* Writes a .npz file of arrays; 0: it could not be written. `names` are without ".npy". */
int burn_npz_write(FILE *file, int count, const char *const *names, const burn_array *arrays);

int burn_inflate(const unsigned char *in, int64_t in_bytes, unsigned char *out, int64_t out_bytes); /* 0: malformed */

#endif
