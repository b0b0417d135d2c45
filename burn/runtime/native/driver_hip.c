/* AMD's runtime as burn_driver: libamdhip64.so, of ROCm 6 or later.
 *
 * Most functions have CUDA's parameters. The others are adapted here. A context is a device's number plus 1: HIP's own contexts are
 * deprecated, and its hipCtxPopCurrent leaves the popped device current. So "push" remembers the thread's current device, and "pop"
 * makes it current again. A process has one HIP runtime, so these adapters keep its functions in a table of their own.
 *
 * No AMD GPU has run this file. The functions, structures and numbers are those of hip/hip_runtime_api.h, and tests use a simulated
 * library.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

enum { OLDEST = 6000, MOST_PUSHED = 64 };

/* hipDeviceAttribute_t */
enum { PROCESSORS = 63, SHARED_MEMORY_OF_BLOCK = 74, WARP_SIZE = 87 };

/* hipDeviceProp_tR0600: where the architecture's name begins, and room for the structure of later versions. */
enum { ARCHITECTURE_AT = 1160, PROPERTIES_ROOM = 4096 };

/* hipMemcpyKind */
enum { DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3 };

/* dim3 */
typedef struct size {
    unsigned x, y, z;
} size;

/* hipKernelNodeParams */
typedef struct kernel_node {
    size threads;
    void **extra;
    void *function;
    size blocks;
    void **parameters;
    unsigned shared;
} kernel_node;

static struct {
    int (*version)(int *);
    int (*current)(int *);
    int (*choose)(int);
    int (*properties)(void *, int);
    int (*add_kernel)(void **, void *, void *const *, size_t, const kernel_node *);
    int (*set_kernel)(void *, void *, const kernel_node *);
    int (*add_copy)(void **, void *, void *const *, size_t, void *, const void *, size_t, int);
    int (*set_copy)(void *, void *, void *, const void *, size_t, int);
    int (*peer_copy)(void *, int, const void *, int, size_t, void *);
} hip;

#define FUNCTION(field, name) {offsetof(burn_driver, field), name}
static const struct {
    size_t at;
    const char *name;
} FUNCTIONS[] = {
    FUNCTION(init, "hipInit"),
    FUNCTION(error_name, "hipDrvGetErrorName"),
    FUNCTION(error_text, "hipDrvGetErrorString"),
    FUNCTION(count, "hipGetDeviceCount"),
    FUNCTION(device, "hipDeviceGet"),
    FUNCTION(name, "hipDeviceGetName"),
    FUNCTION(attribute, "hipDeviceGetAttribute"),
    FUNCTION(total, "hipDeviceTotalMem"),
    FUNCTION(free, "hipMemGetInfo"),
    FUNCTION(alloc, "hipMalloc"),
    FUNCTION(release, "hipFree"),
    FUNCTION(pinned_alloc, "hipHostMalloc"),
    FUNCTION(about, "hipPointerGetAttribute"),
    FUNCTION(send, "hipMemcpyHtoDAsync"),
    FUNCTION(fetch, "hipMemcpyDtoHAsync"),
    FUNCTION(copy, "hipMemcpyDtoDAsync"),
    FUNCTION(fill, "hipMemsetD8Async"),
    FUNCTION(stream, "hipStreamCreateWithFlags"),
    FUNCTION(stream_release, "hipStreamDestroy"),
    FUNCTION(wait_for, "hipStreamWaitEvent"),
    FUNCTION(event, "hipEventCreateWithFlags"),
    FUNCTION(event_release, "hipEventDestroy"),
    FUNCTION(record, "hipEventRecord"),
    FUNCTION(wait, "hipEventSynchronize"),
    FUNCTION(elapsed, "hipEventElapsedTime"),
    FUNCTION(load, "hipModuleLoadData"),
    FUNCTION(unload, "hipModuleUnload"),
    FUNCTION(find, "hipModuleGetFunction"),
    FUNCTION(launch, "hipModuleLaunchKernel"),
    FUNCTION(begin_capture, "hipStreamBeginCapture"),
    FUNCTION(end_capture, "hipStreamEndCapture"),
    FUNCTION(graph, "hipGraphInstantiateWithFlags"),
    FUNCTION(graph_launch, "hipGraphLaunch"),
    FUNCTION(graph_release, "hipGraphDestroy"),
    FUNCTION(ready_release, "hipGraphExecDestroy"),
    FUNCTION(graph_new, "hipGraphCreate"),
};

#define OWN(field, name) {(void *)&hip.field, name}
static const struct {
    void *at;
    const char *name;
} OWN_FUNCTIONS[] = {
    OWN(version, "hipDriverGetVersion"),
    OWN(current, "hipGetDevice"),
    OWN(choose, "hipSetDevice"),
    OWN(properties, "hipGetDevicePropertiesR0600"),
    OWN(add_kernel, "hipGraphAddKernelNode"),
    OWN(set_kernel, "hipGraphExecKernelNodeSetParams"),
    OWN(add_copy, "hipGraphAddMemcpyNode1D"),
    OWN(set_copy, "hipGraphExecMemcpyNodeSetParams1D"),
    OWN(peer_copy, "hipMemcpyPeerAsync"),
};

/* 60342134 is 6.3, which is 6030 for burn_driver. */
static int version(int *found) {
    int code = hip.version(found);
    if (!code)
        *found = *found / 10000000 * 1000 + *found / 100000 % 100 * 10;
    return code;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

static _Thread_local struct {
    int devices[MOST_PUSHED], count;
} pushed;

static void *context_of(int device) { return (void *)(intptr_t)(device + 1); }
static int device_of(void *handle) { return (int)(intptr_t)handle - 1; }

static int context(void **found, int device) {
    *found = context_of(device);
    return 0;
}

static int current(void **found) {
    int device = 0, code = hip.current(&device);
    *found = code ? NULL : context_of(device);
    return code;
}

static int push(void *handle) {
    int before = 0, code = pushed.count < MOST_PUSHED ? hip.current(&before) : BURN_DRIVER_OUT_OF_MEMORY;
    if (!code)
        code = hip.choose(device_of(handle));
    if (!code)
        pushed.devices[pushed.count++] = before;
    return code;
}

static int pop(void **handle) {
    int code = current(handle);
    return code ? code : hip.choose(pushed.devices[--pushed.count]);
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* The name is "gfx90a:sramecc+:xnack-". Kernels are compiled for "gfx90a", which every setting runs. */
static int describe(const burn_driver *driver, int device, burn_device_facts *facts) {
    static _Thread_local union {
        char bytes[PROPERTIES_ROOM];
        uint64_t aligned;
    } properties;
    int shared = 0;
    const struct {
        int attribute;
        int *value;
    } wanted[] = {{PROCESSORS, &facts->processors}, {SHARED_MEMORY_OF_BLOCK, &shared}, {WARP_SIZE, &facts->warp}};
    memset(properties.bytes, 0, sizeof properties.bytes);
    int code = driver->name(facts->name, (int)sizeof facts->name, device);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !code; i++)
        code = driver->attribute(wanted[i].value, wanted[i].attribute, device);
    if (!code)
        code = hip.properties(properties.bytes, device);
    facts->shared = shared;
    const char *name = properties.bytes + ARCHITECTURE_AT;
    snprintf(facts->architecture, sizeof facts->architecture, "%.*s", (int)strcspn(name, ":"), name);
    return code;
}

/* A block may use all of a compute unit's memory without a request. */
static int set(void *function, int attribute, int value) {
    (void)function, (void)attribute, (void)value;
    return 0;
}

/* ---- copies between devices -------------------------------------------------------------------------------------- */

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

static int peer_copy(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes, void *stream) {
    return hip.peer_copy(pointer(to), device_of(to_context), pointer(from), device_of(from_context), bytes, stream);
}

/* ---- nodes of graphs --------------------------------------------------------------------------------------------- */

static kernel_node kernel_node_of(const burn_driver_launch *launch) {
    return (kernel_node){{launch->threads, 1, 1}, NULL, launch->function, {launch->blocks, 1, 1}, launch->parameters,
                         launch->shared};
}

static int kind_of(const burn_driver_copy *copy) { return copy->to_host ? DEVICE_TO_HOST : DEVICE_TO_DEVICE; }

static int add_launch(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_launch *launch) {
    (void)driver;
    kernel_node made = kernel_node_of(launch);
    return hip.add_kernel(node, graph, &after, after != NULL, &made);
}

static int set_launch(const burn_driver *driver, void *ready, void *node, const burn_driver_launch *launch) {
    (void)driver;
    kernel_node made = kernel_node_of(launch);
    return hip.set_kernel(ready, node, &made);
}

static int add_copy(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_copy *copy,
                    void *in_context) {
    (void)driver, (void)in_context;
    return hip.add_copy(node, graph, &after, after != NULL, pointer(copy->to), pointer(copy->from), copy->bytes,
                        kind_of(copy));
}

static int set_copy(const burn_driver *driver, void *ready, void *node, const burn_driver_copy *copy, void *in_context) {
    (void)driver, (void)in_context;
    return hip.set_copy(ready, node, pointer(copy->to), pointer(copy->from), copy->bytes, kind_of(copy));
}

const char *burn_driver_hip(burn_driver *driver, void *library) {
    driver->kind = "hip";
    driver->oldest = OLDEST;
    for (size_t i = 0; i < sizeof OWN_FUNCTIONS / sizeof *OWN_FUNCTIONS; i++) {
        void *function = dlsym(library, OWN_FUNCTIONS[i].name);
        if (!function)
            return OWN_FUNCTIONS[i].name;
        memcpy(OWN_FUNCTIONS[i].at, &function, sizeof function);
        if (i == 0)
            driver->version = version; /* an old library lacks functions, and its version is what is wrong */
    }
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (!function)
            return FUNCTIONS[i].name;
        memcpy((char *)driver + FUNCTIONS[i].at, &function, sizeof function);
    }
    driver->context = context;
    driver->current = current;
    driver->push = push;
    driver->pop = pop;
    driver->describe = describe;
    driver->set = set;
    driver->peer_copy = peer_copy;
    driver->add_launch = add_launch;
    driver->set_launch = set_launch;
    driver->add_copy = add_copy;
    driver->set_copy = set_copy;
    return NULL;
}
