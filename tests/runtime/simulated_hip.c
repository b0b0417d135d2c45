/* A stand-in for libamdhip64.so: HIP's functions that driver_hip.c uses, on the simulated GPUs of simulated_driver.c.
 *
 * HIP has no stack of contexts but a current device, which is the first one in a new thread. It differs from CUDA in numbers of
 * attributes, in structures, and in the version. BURN_SIMULATED_ARCHITECTURE is the architecture's name.
 */
#include <stddef.h>

#include "simulated_driver.c"

/* ---- the runtime and its devices --------------------------------------------------------------------------------- */

/* The device that calls use: the thread's current one. */
static void use_current(void) {
    if (!depth)
        stack[depth++] = &contexts[0];
}

API int hipInit(unsigned flags) { return cuInit(flags); }
API int hipDriverGetVersion(int *version) {
    *version = (int)number("BURN_SIMULATED_VERSION", 60342134);
    return SUCCESS;
}
API int hipGetDeviceCount(int *count) { return cuDeviceGetCount(count); }
API int hipDeviceGet(int *device, int index) { return cuDeviceGet(device, index); }
API int hipDeviceGetName(char *name, int room, int device) { return cuDeviceGetName(name, room, device); }
API int hipDeviceTotalMem(size_t *bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }
API int hipDrvGetErrorName(int code, const char **name) { return cuGetErrorName(code, name); }
API int hipDrvGetErrorString(int code, const char **text) { return cuGetErrorString(code, text); }

API int hipGetDevice(int *device) {
    int code = check("hipGetDevice", 0);
    use_current();
    *device = stack[depth - 1]->device;
    return code;
}

API int hipSetDevice(int device) {
    int code = check("hipSetDevice", 0);
    if (device < 0 || device >= DEVICES)
        return INVALID_DEVICE;
    use_current();
    if (!code)
        stack[depth - 1] = &contexts[device];
    return code;
}

static const char *architecture(void) {
    const char *name = getenv("BURN_SIMULATED_ARCHITECTURE");
    return name ? name : "gfx942:sramecc+:xnack-";
}

API int hipDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    int code = check("hipDeviceGetAttribute", 0);
    const int VALUES[][2] = {{63, 304}, {74, 64 << 10}, {87, strncmp(architecture(), "gfx9", 4) ? 32 : 64}};
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++)
        if (VALUES[i][0] == attribute) {
            *value = VALUES[i][1];
            return code;
        }
    return INVALID_VALUE;
}

/* Begins as hipDeviceProp_tR0600 does; the architecture's name is behind many numbers. */
typedef struct properties {
    char name[256], uuid[16], luid[8];
    unsigned luid_mask;
    size_t memory, shared;
    int registers, warp;
    size_t pitch;
    int threads, sizes[6], clock;
    size_t constants;
    int major, minor;
    size_t alignment, pitch_alignment;
    int numbers[46];
    size_t surface_alignment;
    int more[16];
    size_t shared_of_processor;
    int flags[12];
    size_t shared_on_request;
    int others[4];
    size_t reserved;
    int last[13], of_cuda[63], of_hip[32];
    char architecture[256];
    char rest[56];
} properties;
_Static_assert(offsetof(properties, architecture) == 1160, "hipDeviceProp_tR0600");

API int hipGetDevicePropertiesR0600(properties *found, int device) {
    int code = check("hipGetDevicePropertiesR0600", 0);
    memset(found, 0x5a, sizeof *found);
    snprintf(found->name, sizeof found->name, "Simulated GPU %d", device);
    snprintf(found->architecture, sizeof found->architecture, "%s", architecture());
    return code;
}

/* ---- the same functions as CUDA's -------------------------------------------------------------------------------- */

#define SAME(hip_name, cuda_name, parameters, arguments) \
    API int hip_name parameters {                        \
        use_current();                                   \
        return cuda_name arguments;                      \
    }

SAME(hipMemGetInfo, cuMemGetInfo_v2, (size_t *left, size_t *total), (left, total))
SAME(hipMalloc, cuMemAlloc_v2, (uint64_t *memory, size_t bytes), (memory, bytes))
SAME(hipFree, cuMemFree_v2, (uint64_t memory), (memory))
SAME(hipHostMalloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags))
SAME(hipPointerGetAttribute, cuPointerGetAttribute, (void *value, int attribute, uint64_t at), (value, attribute, at))
SAME(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t n, void *on), (to, from, n, on))
SAME(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t n, void *on), (to, from, n, on))
SAME(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t n, void *on), (to, from, n, on))
SAME(hipMemcpyPeerAsync, cuMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, size_t n, void *on),
     ((uint64_t)(uintptr_t)to, &contexts[to_device], (uint64_t)(uintptr_t)from, &contexts[from_device], n, on))
SAME(hipMemsetD8Async, cuMemsetD8Async, (uint64_t to, unsigned char byte, size_t n, void *on), (to, byte, n, on))
SAME(hipStreamCreateWithFlags, cuStreamCreate, (void **made, unsigned flags), (made, flags))
SAME(hipStreamDestroy, cuStreamDestroy_v2, (void *it), (it))
SAME(hipStreamWaitEvent, cuStreamWaitEvent, (void *on, void *event_, unsigned flags), (on, event_, flags))
SAME(hipEventCreateWithFlags, cuEventCreate, (void **made, unsigned flags), (made, flags))
SAME(hipEventDestroy, cuEventDestroy_v2, (void *event_), (event_))
SAME(hipEventRecord, cuEventRecord, (void *event_, void *on), (event_, on))
SAME(hipEventSynchronize, cuEventSynchronize, (void *event_), (event_))
SAME(hipEventElapsedTime, cuEventElapsedTime, (float *found, void *first, void *last_), (found, first, last_))
SAME(hipModuleLoadData, cuModuleLoadData, (void **made, const void *image), (made, image))
SAME(hipModuleUnload, cuModuleUnload, (void *it), (it))
SAME(hipModuleGetFunction, cuModuleGetFunction, (void **made, void *of, const char *name), (made, of, name))
SAME(hipStreamBeginCapture, cuStreamBeginCapture_v2, (void *on, int mode), (on, mode))
SAME(hipStreamEndCapture, cuStreamEndCapture, (void *on, void **made), (on, made))
SAME(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (void **made, void *of, unsigned long long flags),
     (made, of, flags))
SAME(hipGraphLaunch, cuGraphLaunch, (void *ready, void *on), (ready, on))
SAME(hipGraphDestroy, cuGraphDestroy, (void *it), (it))
SAME(hipGraphExecDestroy, cuGraphExecDestroy, (void *it), (it))
SAME(hipGraphCreate, cuGraphCreate, (void **made, unsigned flags), (made, flags))

/* Shared memory needs no request, up to the compute unit's 64 KB. */
API int hipModuleLaunchKernel(void *handle, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                              unsigned threads_z, unsigned shared, void *on, void **parameters, void **extra) {
    use_current();
    if (is(handle, FUNCTION))
        ((function *)handle)->shared = 64 << 10;
    return cuLaunchKernel(handle, x, y, z, threads, threads_y, threads_z, shared, on, parameters, extra);
}

/* ---- nodes of graphs --------------------------------------------------------------------------------------------- */

typedef struct hip_kernel_node { /* hipKernelNodeParams */
    unsigned threads, threads_y, threads_z;
    void **extra, *function;
    unsigned x, y, z;
    void **parameters;
    unsigned shared;
} hip_kernel_node;

static kernel_node as_cuda(const hip_kernel_node *it) {
    if (is(it->function, FUNCTION))
        ((function *)it->function)->shared = 64 << 10;
    return (kernel_node){it->function, it->x, it->y, it->z, it->threads, it->threads_y, it->threads_z, it->shared,
                         it->parameters, it->extra, NULL, NULL};
}

static copy_node copy_as_cuda(void *to, const void *from, size_t bytes, int kind) {
    copy_node made = {.bytes = bytes, .height = 1, .depth = 1};
    made.from.type = 2;
    made.from.device = (uint64_t)(uintptr_t)from;
    made.to.type = kind == 2 ? 1 : 2;
    if (kind == 2)
        made.to.host = to;
    else
        made.to.device = (uint64_t)(uintptr_t)to;
    return made;
}

API int hipGraphAddKernelNode(void **node, void *of, void *const *after, size_t count, const hip_kernel_node *it) {
    use_current();
    kernel_node made = as_cuda(it);
    return cuGraphAddKernelNode_v2(node, of, after, count, &made);
}

API int hipGraphExecKernelNodeSetParams(void *ready, void *node, const hip_kernel_node *it) {
    use_current();
    kernel_node made = as_cuda(it);
    return cuGraphExecKernelNodeSetParams_v2(ready, node, &made);
}

API int hipGraphAddMemcpyNode1D(void **node, void *of, void *const *after, size_t count, void *to, const void *from,
                                size_t bytes, int kind) {
    use_current();
    copy_node made = copy_as_cuda(to, from, bytes, kind);
    return cuGraphAddMemcpyNode(node, of, after, count, &made, stack[depth - 1]);
}

API int hipGraphExecMemcpyNodeSetParams1D(void *ready, void *node, void *to, const void *from, size_t bytes, int kind) {
    use_current();
    copy_node made = copy_as_cuda(to, from, bytes, kind);
    return cuGraphExecMemcpyNodeSetParams(ready, node, &made, stack[depth - 1]);
}
