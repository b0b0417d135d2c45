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
    FUNCTION(fill, "cuMemsetD8Async"),
    FUNCTION(stream, "cuStreamCreate"),
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

const char *burn_driver_cuda(burn_driver *driver, void *library) {
    driver->kind = "cuda";
    driver->oldest = OLDEST;
    driver->describe = describe;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (!function)
            return FUNCTIONS[i].name;
        memcpy((char *)driver + FUNCTIONS[i].at, &function, sizeof function);
    }
    return NULL;
}
