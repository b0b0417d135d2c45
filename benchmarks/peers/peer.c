/* ./PEER MODEL RUNS OUT [NAME:f|i:DIM,DIM:FILE ...]: one inference, whose first output is written to OUT, and RUNS that are timed.
 * Prints the least and the median time in milliseconds. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Noreturn void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void *contents(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path, "cannot be read");
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = aligned_alloc(64, (*bytes + 63) / 64 * 64);
    if (!data || fread(data, 1, *bytes, file) != *bytes)
        fail(path, "cannot be read");
    fclose(file);
    return data;
}

static void parse(char *text, input *in) {
    char *file = strrchr(text, ':');
    *file++ = 0;
    char *dims = strrchr(text, ':');
    *dims++ = 0;
    char *type = strrchr(text, ':');
    *type++ = 0;
    snprintf(in->name, sizeof in->name, "%s", text);
    in->is_int64 = *type == 'i';
    for (char *dim = strtok(dims, ","); dim; dim = strtok(NULL, ","))
        in->dims[in->rank++] = atoll(dim);
    in->data = contents(file, &in->bytes);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int words, char **word) {
    if (words < 4 || words > 4 + MOST_INPUTS)
        fail(word[0], "takes MODEL RUNS OUT and inputs");
    static input inputs[MOST_INPUTS];
    int count = words - 4, runs = atoi(word[2]);
    for (int i = 0; i < count; i++)
        parse(word[4 + i], &inputs[i]);
    peer_open(word[1], inputs, count);
    size_t bytes;
    const void *output = peer_run(inputs, count, &bytes);
    FILE *file = fopen(word[3], "wb");
    if (!file || fwrite(output, 1, bytes, file) != bytes || fclose(file))
        fail(word[3], "cannot be written");
    if (!runs)
        return 0;
    double *times = malloc(sizeof *times * (size_t)runs);
    for (int i = 0; i < runs; i++) {
        double began = now();
        peer_run(inputs, count, &bytes);
        times[i] = now() - began;
    }
    qsort(times, (size_t)runs, sizeof *times, by_size);
    printf("%.6f %.6f\n", times[0], times[runs / 2]);
}
