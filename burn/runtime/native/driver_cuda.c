/* NVIDIA's driver as burn_driver: libcuda.so.1, which comes with the driver. Nothing of the CUDA toolkit is needed, neither to
 * build nor to run.
 *
 * Names with a version are those that CUDA's header stands for since 64-bit addresses came. Without it they are older functions
 * with other parameters, which the library still has.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

enum { OLDEST = 12000 };

/* CUdevice_attribute */
enum { WARP_SIZE = 10, PROCESSORS = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, SHARED_MEMORY_OF_BLOCK = 97 };

/* burn_driver.own */
enum { ADD_LAUNCH, SET_LAUNCH, ADD_COPY, SET_COPY, LAUNCH_WITH };

enum { EARLY_LAUNCHES = 12030 }; /* the first version that records them */

/* CUDA_KERNEL_NODE_PARAMS_v2 */
typedef struct kernel_node {
    void *function;
    unsigned blocks, blocks_y, blocks_z, threads, threads_y, threads_z, shared;
    void **parameters, **extra;
    void *kernel, *context;
} kernel_node;

/* Half of CUDA_MEMCPY3D: where elements come from, or go to. */
enum { HOST_MEMORY = 1, DEVICE_MEMORY = 2 };
typedef struct copy_end {
    size_t x, y, z, level;
    int type; /* CUmemorytype */
    void *host;
    uint64_t device;
    void *array, *reserved;
    size_t pitch, height;
} copy_end;

typedef struct copy_node {
    copy_end from, to;
    size_t bytes, height, depth;
} copy_node;

typedef int (*add_kernel_node)(void **, void *, void *const *, size_t, const kernel_node *);
typedef int (*set_kernel_node)(void *, void *, const kernel_node *);
typedef int (*add_copy_node)(void **, void *, void *const *, size_t, const copy_node *, void *);
typedef int (*set_copy_node)(void *, void *, const copy_node *, void *);

/* CUlaunchAttribute, CUlaunchConfig */
enum { STARTS_EARLY = 6 }; /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
typedef struct launch_attribute {
    int which;
    int padding;
    union {
        int number;
        char room[64];
    } value;
} launch_attribute;

typedef struct launch_config {
    unsigned blocks, blocks_y, blocks_z, threads, threads_y, threads_z, shared;
    void *stream;
    launch_attribute *attributes;
    unsigned count;
} launch_config;

typedef int (*launch_with)(const launch_config *, void *, void **, void **);

#define FUNCTION(field, name) {offsetof(burn_driver, field), name}
static const struct {
    size_t at;
    const char *name;
} FUNCTIONS[] = {
    FUNCTION(init, "cuInit"),
    FUNCTION(version, "cuDriverGetVersion"),
    FUNCTION(error_name, "cuGetErrorName"),
    FUNCTION(error_text, "cuGetErrorString"),
    FUNCTION(count, "cuDeviceGetCount"),
    FUNCTION(device, "cuDeviceGet"),
    FUNCTION(name, "cuDeviceGetName"),
    FUNCTION(attribute, "cuDeviceGetAttribute"),
    FUNCTION(total, "cuDeviceTotalMem_v2"),
    FUNCTION(free, "cuMemGetInfo_v2"),
    FUNCTION(context, "cuDevicePrimaryCtxRetain"),
    FUNCTION(current, "cuCtxGetCurrent"),
    FUNCTION(push, "cuCtxPushCurrent_v2"),
    FUNCTION(pop, "cuCtxPopCurrent_v2"),
    FUNCTION(alloc, "cuMemAlloc_v2"),
    FUNCTION(release, "cuMemFree_v2"),
    FUNCTION(pinned_alloc, "cuMemHostAlloc"),
    FUNCTION(about, "cuPointerGetAttribute"),
    FUNCTION(send, "cuMemcpyHtoDAsync_v2"),
    FUNCTION(fetch, "cuMemcpyDtoHAsync_v2"),
    FUNCTION(copy, "cuMemcpyDtoDAsync_v2"),
    FUNCTION(peer_copy, "cuMemcpyPeerAsync"),
    FUNCTION(fill, "cuMemsetD8Async"),
    FUNCTION(stream, "cuStreamCreate"),
    FUNCTION(stream_release, "cuStreamDestroy_v2"),
    FUNCTION(wait_for, "cuStreamWaitEvent"),
    FUNCTION(event, "cuEventCreate"),
    FUNCTION(event_release, "cuEventDestroy_v2"),
    FUNCTION(record, "cuEventRecord"),
    FUNCTION(wait, "cuEventSynchronize"),
    FUNCTION(elapsed, "cuEventElapsedTime"),
    FUNCTION(load, "cuModuleLoadData"),
    FUNCTION(unload, "cuModuleUnload"),
    FUNCTION(find, "cuModuleGetFunction"),
    FUNCTION(set, "cuFuncSetAttribute"),
    FUNCTION(launch, "cuLaunchKernel"),
    FUNCTION(begin_capture, "cuStreamBeginCapture_v2"),
    FUNCTION(end_capture, "cuStreamEndCapture"),
    FUNCTION(graph, "cuGraphInstantiateWithFlags"),
    FUNCTION(graph_launch, "cuGraphLaunch"),
    FUNCTION(graph_release, "cuGraphDestroy"),
    FUNCTION(ready_release, "cuGraphExecDestroy"),
    FUNCTION(graph_new, "cuGraphCreate"),
    FUNCTION(own[ADD_LAUNCH], "cuGraphAddKernelNode_v2"),
    FUNCTION(own[SET_LAUNCH], "cuGraphExecKernelNodeSetParams_v2"),
    FUNCTION(own[ADD_COPY], "cuGraphAddMemcpyNode"),
    FUNCTION(own[SET_COPY], "cuGraphExecMemcpyNodeSetParams"),
    FUNCTION(own[LAUNCH_WITH], "cuLaunchKernelEx"),
};

static int describe(const burn_driver *driver, int device, burn_device_facts *facts) {
    int major = 0, minor = 0, shared = 0;
    const struct {
        int attribute;
        int *value;
    } wanted[] = {{CAPABILITY_MAJOR, &major},        {CAPABILITY_MINOR, &minor},     {PROCESSORS, &facts->processors},
                  {SHARED_MEMORY_OF_BLOCK, &shared}, {WARP_SIZE, &facts->warp}};
    int code = driver->name(facts->name, (int)sizeof facts->name, device);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !code; i++)
        code = driver->attribute(wanted[i].value, wanted[i].attribute, device);
    facts->shared = shared;
    snprintf(facts->architecture, sizeof facts->architecture, "sm_%d%d", major, minor);
    return code;
}

/* ---- nodes of graphs --------------------------------------------------------------------------------------------- */

/* A function of the library. ISO C converts no pointer to data into one to a function. */
#define OWN(type, number)                                          \
    type function;                                                 \
    memcpy(&function, &driver->own[number], sizeof function)

static kernel_node kernel_node_of(const burn_driver_launch *launch) {
    return (kernel_node){launch->function, launch->blocks, 1, 1, launch->threads, 1, 1, launch->shared, launch->parameters,
                         NULL, NULL, NULL};
}

static copy_node copy_node_of(const burn_driver_copy *copy) {
    copy_node node = {.bytes = copy->bytes, .height = 1, .depth = 1};
    node.from.type = DEVICE_MEMORY;
    node.from.device = copy->from;
    node.to.type = copy->to_host ? HOST_MEMORY : DEVICE_MEMORY;
    if (copy->to_host)
        node.to.host = (void *)(uintptr_t)copy->to;
    else
        node.to.device = copy->to;
    return node;
}

static int add_launch(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_launch *launch) {
    OWN(add_kernel_node, ADD_LAUNCH);
    kernel_node made = kernel_node_of(launch);
    return function(node, graph, &after, after != NULL, &made);
}

static int set_launch(const burn_driver *driver, void *ready, void *node, const burn_driver_launch *launch) {
    OWN(set_kernel_node, SET_LAUNCH);
    kernel_node made = kernel_node_of(launch);
    return function(ready, node, &made);
}

static int add_copy(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_copy *copy,
                    void *context) {
    OWN(add_copy_node, ADD_COPY);
    copy_node made = copy_node_of(copy);
    return function(node, graph, &after, after != NULL, &made, context);
}

static int set_copy(const burn_driver *driver, void *ready, void *node, const burn_driver_copy *copy, void *context) {
    OWN(set_copy_node, SET_COPY);
    copy_node made = copy_node_of(copy);
    return function(ready, node, &made, context);
}

static int launch_early(const burn_driver *driver, const burn_driver_launch *launch, void *stream) {
    OWN(launch_with, LAUNCH_WITH);
    launch_attribute early = {.which = STARTS_EARLY, .value.number = 1};
    launch_config config = {launch->blocks, 1, 1, launch->threads, 1, 1, launch->shared, stream, &early, 1};
    return function(&config, launch->function, launch->parameters, NULL);
}

const char *burn_driver_cuda(burn_driver *driver, void *library) {
    driver->kind = "cuda";
    driver->oldest = OLDEST;
    driver->describe = describe;
    driver->add_launch = add_launch;
    driver->set_launch = set_launch;
    driver->add_copy = add_copy;
    driver->set_copy = set_copy;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (!function)
            return FUNCTIONS[i].name;
        memcpy((char *)driver + FUNCTIONS[i].at, &function, sizeof function);
    }
    int version = 0;
    if (!driver->version(&version) && version >= EARLY_LAUNCHES)
        driver->launch_early = launch_early;
    return NULL;
}
