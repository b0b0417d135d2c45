/* The functions that burn uses from a GPU driver, as a table filled from the driver's library at the first use of a device.
 *
 * CUDA's driver interface and HIP have the same functions and parameters, under other names: an address is a
 * 64-bit word, everything else a handle. So the table holds the library's own functions, and device*.c are independent of the
 * vendor. Another kind of driver needs a file like driver_cuda.c and a row in driver.c.
 */
#ifndef BURN_DRIVER_H
#define BURN_DRIVER_H

#include "device.h"

typedef struct burn_driver burn_driver;

/* A launch as a node of a graph. */
typedef struct burn_driver_launch {
    void *function;
    unsigned blocks, threads, shared;
    void **parameters;
} burn_driver_launch;

/* A copy as a node of a graph: within the device, or to pinned memory of the host. */
typedef struct burn_driver_copy {
    uint64_t to, from;
    size_t bytes;
    int to_host;
} burn_driver_copy;

/* Numbers that CUDA and HIP share. */
enum {
    BURN_DRIVER_OUT_OF_MEMORY = 2,
    BURN_DRIVER_NO_DEVICE = 100,
    BURN_DRIVER_OWN_STREAM = 1,    /* of a stream: waits for the default stream only on request */
    BURN_DRIVER_UNTIMED = 2,       /* of an event: no clock, which makes it cheaper */
    BURN_DRIVER_RELAXED = 2,       /* of a recording: calls of other threads and libraries are allowed meanwhile */
    BURN_DRIVER_MEMORY_TYPE = 2,   /* of an address: known to the driver at all */
    BURN_DRIVER_SHARED_MEMORY = 8, /* of a function: the most dynamic shared memory that a launch may ask for */
};

/* Functions return 0, or a number that error_name and error_text explain. */
struct burn_driver {
    const char *kind;    /* "cuda", "hip", "wgpu" */
    int32_t devices;     /* how many there are */
    int32_t oldest;      /* the first version that will do */
    int32_t newest;      /* the last major version (29000 for 29) that will do; 0: any */

    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*error_name)(int code, const char **name);
    int (*error_text)(int code, const char **text);

    int (*count)(int *devices);
    int (*device)(int *device, int index);
    int (*name)(char *name, int room, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*total)(size_t *bytes, int device);
    int (*free)(size_t *free, size_t *total);          /* of the current context's device */
    /* Fills in the facts that `attribute` and `name` provide. */
    int (*describe)(const burn_driver *driver, int device, burn_device_facts *facts);

    int (*context)(void **context, int device);        /* the one that all libraries of the process share */
    int (*current)(void **context);
    int (*push)(void *context);
    int (*pop)(void **context);

    int (*alloc)(uint64_t *memory, size_t bytes);
    int (*release)(uint64_t memory);                   /* waits for work that is under way */
    int (*is_gone)(uint64_t memory);                   /* true if it was lost with its device; NULL: a driver without a new start */
    int (*pinned_alloc)(void **memory, size_t bytes, unsigned flags); /* of the host, pages locked */
    int (*about)(void *value, int attribute, uint64_t memory);

    int (*send)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*fetch)(void *to, uint64_t from, size_t bytes, void *stream);
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    /* Between devices, on a stream of either context. NULL: the driver has no such copy. */
    int (*peer_copy)(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes, void *stream);
    int (*fill)(uint64_t to, unsigned char byte, size_t bytes, void *stream);

    int (*stream)(void **stream, unsigned flags);
    int (*stream_release)(void *stream);               /* its work goes on to the end */
    int (*wait_for)(void *stream, void *event, unsigned flags);
    int (*event)(void **event, unsigned flags);
    int (*event_release)(void *event);
    int (*record)(void *event, void *stream);
    int (*wait)(void *event);
    int (*elapsed)(float *milliseconds, void *first, void *last);

    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*find)(void **function, void *module, const char *name);
    int (*set)(void *function, int attribute, int value);
    int (*launch)(void *function, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads, unsigned threads_y,
                  unsigned threads_z, unsigned shared, void *stream, void **parameters, void **extra);

    /* Launches a kernel that may start before the one before it in the stream ends. NULL: the driver has no such launches. */
    int (*launch_early)(const burn_driver *driver, const burn_driver_launch *launch, void *stream);

    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*graph)(void **ready, void *graph, unsigned long long flags); /* makes a recording ready to be launched */
    int (*graph_launch)(void *ready, void *stream);
    int (*graph_release)(void *graph);
    int (*ready_release)(void *ready);

    /* Graphs that are built node by node. A node follows `after`, if that is not NULL. set_*: replaces the launch or copy of a node in a
     * graph that is ready. Later launches of the graph use it. */
    int (*graph_new)(void **graph, unsigned flags);
    int (*add_launch)(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_launch *launch);
    int (*set_launch)(const burn_driver *driver, void *ready, void *node, const burn_driver_launch *launch);
    int (*add_copy)(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_copy *copy, void *context);
    int (*set_copy)(const burn_driver *driver, void *ready, void *node, const burn_driver_copy *copy, void *context);
    void *own[5]; /* functions of the library for these four and launch_early, if they are not adapted */
};

/* The driver of a kind from a library (NULL: the usual one), ready for use; the same one at every call. NULL: see error. */
const burn_driver *burn_driver_find(const char *kind, const char *library, char *error, size_t error_size);
/* "out of memory (CUDA_ERROR_OUT_OF_MEMORY)" */
void burn_driver_explain(const burn_driver *driver, int code, char *text, size_t size);
/* True if this process was forked from one that had used a driver: no device works here, nor can one be opened. */
int burn_driver_forked(void);
extern const char burn_driver_forked_text[];

/* driver_<kind>.c: fill a table from an open library (dlopen). Return the name of a function that it lacks, or NULL. */
const char *burn_driver_cuda(burn_driver *driver, void *library);
const char *burn_driver_hip(burn_driver *driver, void *library);
const char *burn_driver_wgpu(burn_driver *driver, void *library);

#endif
