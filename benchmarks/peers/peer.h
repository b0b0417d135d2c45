/* A program that runs a model by another engine: the interface that peer.c uses. */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_INPUTS = 8, MOST_DIMS = 8 };

typedef struct input {
    char name[128];
    int is_int64; /* float32 otherwise */
    size_t rank, bytes;
    int64_t dims[MOST_DIMS];
    void *data;
} input;

void peer_open(const char *model, const input *inputs, int count);

/* One inference; the first output's bytes. */
const void *peer_run(const input *inputs, int count, size_t *bytes);

_Noreturn void fail(const char *what, const char *why);

#endif
