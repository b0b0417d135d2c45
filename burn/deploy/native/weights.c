/* A model's weights in a file beside it: mapped where files can be mapped, else read. The file must be the one that the model was
 * compiled with, byte for byte. A mapped file must not be shortened while it is in use, as that ends the process (SIGBUS); with
 * BURN_COPY_FILES=1 in the environment it is read instead. */
#include "model.h"

#include "checksum.h"

#include <errno.h>
#include <string.h>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The bytes in memory of the process, or MAP_FAILED. */
static void *copy(int file, size_t bytes) {
    unsigned char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return MAP_FAILED;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(file, data + done, bytes - done);
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR) {
            munmap(data, bytes);
            return MAP_FAILED;
        }
    }
    return data;
}

static int is_copied(void) {
    const char *asked = getenv("BURN_COPY_FILES");
    return asked && *asked && strcmp(asked, "0") != 0;
}

static int take(const char *path, int64_t bytes, burn_weights *weights) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &status) != 0) {
        burn_model_fail(BURN_E_WEIGHTS, "the weights in %s cannot be read: %s", path, strerror(errno));
        if (file >= 0)
            close(file);
        return 0;
    }
    void *data = MAP_FAILED;
    if (!S_ISREG(status.st_mode))
        burn_model_fail(BURN_E_WEIGHTS, "%s is not a file of weights", path);
    else if (status.st_size != bytes)
        burn_model_fail(BURN_E_WEIGHTS, "%s is not this model's file of weights: it has %lld bytes, not %lld", path,
                        (long long)status.st_size, (long long)bytes);
    else if ((data = is_copied() ? copy(file, (size_t)bytes)
                                 : mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, file, 0)) == MAP_FAILED)
        burn_model_fail(BURN_E_WEIGHTS, "the weights in %s cannot be mapped: %s", path, strerror(errno));
    close(file);
    *weights = (burn_weights){data, bytes, 1};
    return data != MAP_FAILED;
}

void burn_weights_close(burn_weights *weights) {
    if (weights->mapped)
        munmap((void *)weights->data, (size_t)weights->bytes);
    weights->mapped = 0;
}

#elif defined(__wasm__)

/* A module has its weights in it: a reference to files would make it ask for a file system. */
static int take(const char *path, int64_t bytes, burn_weights *weights) {
    (void)bytes;
    (void)weights;
    burn_model_fail(BURN_E_WEIGHTS, "%s cannot be read: a module has no files", path);
    return 0;
}

void burn_weights_close(burn_weights *weights) { weights->mapped = 0; }

#else
#include <stdio.h>

static int take(const char *path, int64_t bytes, burn_weights *weights) {
    FILE *file = fopen(path, "rb");
    unsigned char *data = file ? burn_memory_new(bytes) : NULL;
    int ok = data && fread(data, 1, (size_t)bytes, file) == (size_t)bytes && fgetc(file) == EOF;
    if (!file)
        burn_model_fail(BURN_E_WEIGHTS, "the weights in %s cannot be read: %s", path, strerror(errno));
    else if (!data)
        burn_model_fail(BURN_E_OUT_OF_MEMORY, "there is no memory for weights of %lld bytes", (long long)bytes);
    else if (!ok)
        burn_model_fail(BURN_E_WEIGHTS, "%s is not this model's file of weights: it has not %lld bytes", path,
                        (long long)bytes);
    if (file)
        fclose(file);
    *weights = (burn_weights){data, bytes, 1};
    if (!ok)
        burn_weights_close(weights);
    return ok;
}

void burn_weights_close(burn_weights *weights) {
    if (weights->mapped)
        burn_memory_free((void *)weights->data);
    weights->mapped = 0;
}
#endif

int burn_weights_open(const char *path, int64_t bytes, uint64_t checksum, burn_weights *weights) {
    if (!take(path, bytes, weights))
        return 0;
    if (burn_checksum(weights->data, (size_t)bytes) == checksum)
        return 1;
    burn_weights_close(weights);
    burn_model_fail(BURN_E_WEIGHTS, "%s is not this model's file of weights: its contents differ", path);
    return 0;
}
