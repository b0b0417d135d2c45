/* WebGPU as burn_driver, through wgpu-native's library: Vulkan, Metal, Direct3D 12. The library ships in the PyPI wheel `wgpu`. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"

wgpu_state wgpu;

#define FUNCTION(field, name) {offsetof(wgpu_api, field), name}
static const struct {
    size_t at;
    const char *name;
} FUNCTIONS[] = {
    FUNCTION(version, "wgpuGetVersion"),
    FUNCTION(instance, "wgpuCreateInstance"),
    FUNCTION(request_adapter, "wgpuInstanceRequestAdapter"),
    FUNCTION(adapter_info, "wgpuAdapterGetInfo"),
    FUNCTION(adapter_limits, "wgpuAdapterGetLimits"),
    FUNCTION(adapter_has, "wgpuAdapterHasFeature"),
    FUNCTION(request_device, "wgpuAdapterRequestDevice"),
    FUNCTION(queue, "wgpuDeviceGetQueue"),
    FUNCTION(poll, "wgpuDevicePoll"),
    FUNCTION(when_done, "wgpuQueueOnSubmittedWorkDone"),
    FUNCTION(buffer, "wgpuDeviceCreateBuffer"),
    FUNCTION(buffer_release, "wgpuBufferRelease"),
    FUNCTION(buffer_map, "wgpuBufferMapAsync"),
    FUNCTION(buffer_mapped, "wgpuBufferGetConstMappedRange"),
    FUNCTION(buffer_unmap, "wgpuBufferUnmap"),
    FUNCTION(group_layout, "wgpuDeviceCreateBindGroupLayout"),
    FUNCTION(pipeline_layout, "wgpuDeviceCreatePipelineLayout"),
    FUNCTION(group, "wgpuDeviceCreateBindGroup"),
    FUNCTION(group_release, "wgpuBindGroupRelease"),
    FUNCTION(module, "wgpuDeviceCreateShaderModuleTrusted"),
    FUNCTION(module_release, "wgpuShaderModuleRelease"),
    FUNCTION(pipeline, "wgpuDeviceCreateComputePipeline"),
    FUNCTION(pipeline_release, "wgpuComputePipelineRelease"),
    FUNCTION(encoder, "wgpuDeviceCreateCommandEncoder"),
    FUNCTION(begin_pass, "wgpuCommandEncoderBeginComputePass"),
    FUNCTION(set_pipeline, "wgpuComputePassEncoderSetPipeline"),
    FUNCTION(set_group, "wgpuComputePassEncoderSetBindGroup"),
    FUNCTION(dispatch, "wgpuComputePassEncoderDispatchWorkgroups"),
    FUNCTION(end_pass, "wgpuComputePassEncoderEnd"),
    FUNCTION(pass_release, "wgpuComputePassEncoderRelease"),
    FUNCTION(copy, "wgpuCommandEncoderCopyBufferToBuffer"),
    FUNCTION(resolve, "wgpuCommandEncoderResolveQuerySet"),
    FUNCTION(finish, "wgpuCommandEncoderFinish"),
    FUNCTION(encoder_release, "wgpuCommandEncoderRelease"),
    FUNCTION(commands_release, "wgpuCommandBufferRelease"),
    FUNCTION(submit, "wgpuQueueSubmit"),
    FUNCTION(write, "wgpuQueueWriteBuffer"),
    FUNCTION(queries, "wgpuDeviceCreateQuerySet"),
    FUNCTION(timestamp_period, "wgpuQueueGetTimestampPeriod"),
};

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* wgpu-native reports errors from inside of the function that fails, so the lock is held. The first one has the cause. */
static void note(wgpu_text message, int code) {
    size_t length = message.length < sizeof wgpu.error - 1 ? message.length : sizeof wgpu.error - 1;
    if (message.length == SIZE_MAX)
        length = message.data ? strnlen(message.data, sizeof wgpu.error - 1) : 0;
    if (!wgpu.failed) {
        if (length)
            memcpy(wgpu.error, message.data, length);
        wgpu.error[length] = 0;
        for (char *at = wgpu.error; *at; at++) /* an error is one line */
            *at = *at == '\n' ? ' ' : *at;
        wgpu.failed = code;
    }
}

static void on_error(const wgpu_handle *device, uint32_t type, wgpu_text message, void *first, void *second) {
    (void)device, (void)first, (void)second;
    note(message, type == WGPU_OUT_OF_MEMORY ? BURN_DRIVER_OUT_OF_MEMORY : WGPU_FAILED);
}

static void on_lost(const wgpu_handle *device, uint32_t reason, wgpu_text message, void *first, void *second) {
    (void)device, (void)reason, (void)first, (void)second;
    note(message, WGPU_LOST);
    wgpu.lost = 1;
}

int burn_wgpu_status(void) {
    int code = wgpu.lost ? WGPU_LOST : wgpu.failed;
    wgpu.is_reported |= wgpu.lost;
    wgpu.failed = 0;
    return code;
}

const char burn_wgpu_lost_text[] = "the device was lost: reset by its driver, or removed. Its tensors are gone; a program that is called "
                                  "again is loaded anew";

/* ---- the device -------------------------------------------------------------------------------------------------- */

static void on_adapter(uint32_t status, wgpu_handle adapter, wgpu_text message, void *first, void *second) {
    (void)message, (void)first, (void)second;
    wgpu.adapter = status == WGPU_SUCCESS ? adapter : NULL;
}

static void on_device(uint32_t status, wgpu_handle device, wgpu_text message, void *first, void *second) {
    (void)first, (void)second;
    wgpu.device = status == WGPU_SUCCESS ? device : NULL;
    if (!wgpu.device)
        note(message, WGPU_FAILED);
}

/* Kernels keep to WebGPU's default limits of these; a device in compatibility mode has less. */
static int check_limits(void) {
    const struct {
        const char *name;
        uint32_t found, needed;
    } limits[] = {
        {"bytes of workgroup memory", wgpu.limits.workgroup_memory, 16384},
        {"invocations of a workgroup", wgpu.limits.invocations, 256},
        {"invocations along a workgroup's first axis", wgpu.limits.workgroup[0], 256},
        {"storage buffers of a stage", wgpu.limits.storage_buffers, 1},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].found < limits[i].needed)
            return burn_wgpu_refuse(WGPU_REFUSED, "%.*s allows %u %s; kernels need %u", (int)wgpu.info.device.length,
                                    wgpu.info.device.data, limits[i].found, limits[i].name, limits[i].needed);
    return 0;
}

static int open_device(void) {
    const uint32_t timestamps = WGPU_TIMESTAMP_QUERY;
    wgpu.has_timestamps = wgpu.api.adapter_has(wgpu.adapter, WGPU_TIMESTAMP_QUERY) != 0;
    wgpu.api.adapter_limits(wgpu.adapter, &wgpu.limits);
    wgpu.api.adapter_info(wgpu.adapter, &wgpu.info);
    int refused = check_limits();
    if (refused)
        return refused;
    wgpu_device_descriptor descriptor = {
        .feature_count = (size_t)wgpu.has_timestamps,
        .features = &timestamps,
        .limits = &wgpu.limits,
        .lost = {.mode = WGPU_SPONTANEOUS, .call = (void (*)(void))on_lost},
        .error = {.call = on_error},
    };
    wgpu_callback callback = {.mode = WGPU_SPONTANEOUS, .call = (void (*)(void))on_device};
    wgpu.api.request_device(wgpu.adapter, &descriptor, callback);
    if (!wgpu.device) {
        wgpu.failed = 0;
        return WGPU_FAILED;
    }
    wgpu.queue = wgpu.api.queue(wgpu.device);
    return burn_wgpu_heap_open();
}

static void make_lock(void) {
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&wgpu.lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

static int open_adapter(void) {
    const wgpu_adapter_options options = {.power = WGPU_HIGH_PERFORMANCE};
    wgpu_callback callback = {.mode = WGPU_SPONTANEOUS, .call = (void (*)(void))on_adapter};
    wgpu.adapter = NULL;
    wgpu.api.request_adapter(wgpu.instance, &options, callback);
    return wgpu.adapter ? open_device() : BURN_DRIVER_NO_DEVICE;
}

int burn_wgpu_renew(void) {
    if (!wgpu.lost || !wgpu.is_reported)
        return burn_wgpu_status();
    burn_wgpu_heap_forget();
    burn_wgpu_forget();
    wgpu.lost = wgpu.failed = wgpu.is_reported = 0;
    wgpu.device = NULL;
    wgpu.session++;
    int code = open_adapter();
    if (code) /* tried again at the next call */
        wgpu.lost = wgpu.is_reported = 1;
    return code ? WGPU_LOST : 0;
}

int burn_wgpu_local(uint64_t *address) {
    if (*address >> SESSION_BITS != wgpu.session)
        return WGPU_LOST;
    *address &= ((uint64_t)1 << SESSION_BITS) - 1;
    return 0;
}

static int start(void) {
    int refused = burn_wgpu_read_options();
    if (refused)
        return refused;
    wgpu_instance_extras extras = {.chain = {NULL, WGPU_INSTANCE_EXTRAS}, .backends = WGPU_VULKAN | WGPU_METAL | WGPU_DIRECT3D};
    const wgpu_instance_descriptor descriptor = {.next = &extras.chain};
    wgpu.instance = wgpu.api.instance(&descriptor);
    if (!wgpu.instance)
        return burn_wgpu_refuse(WGPU_FAILED, "no instance of WebGPU can be made");
    pthread_mutex_lock(&wgpu.lock);
    int code = open_adapter();
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

/* The state is global and what a failed start leaves is not undone, so the library is started once. Later calls give the result. */
static int init(unsigned flags) {
    (void)flags;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_lock);
    if (!wgpu.opened) {
        wgpu.opened = 1;
        wgpu.opening = start();
    }
    return wgpu.opening;
}

static int refuse_init(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&wgpu.lock);
    int code = burn_wgpu_refuse(WGPU_REFUSED, "this process uses another library of WebGPU");
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int version(int *found) {
    uint32_t number = wgpu.api.version(); /* a byte each: 29.0.1.1 */
    *found = (int)(number >> 24) * 1000 + (int)(number >> 16 & 255) * 10;
    return 0;
}

static int describe(const burn_driver *driver, int index, burn_device_facts *facts) {
    (void)driver, (void)index;
    wgpu_text name = wgpu.info.device;
    size_t length = name.length < sizeof facts->name - 1 ? name.length : sizeof facts->name - 1;
    memcpy(facts->name, name.data, length);
    facts->name[length] = 0;
    snprintf(facts->architecture, sizeof facts->architecture, "webgpu");
    facts->warp = wgpu.info.subgroup_least ? (int32_t)wgpu.info.subgroup_least : 32;
    facts->processors = 0; /* WebGPU does not tell */
    facts->shared = wgpu.limits.workgroup_memory;
    return 0;
}

/* One context, always current. */
static int push(void *context) {
    (void)context;
    return 0;
}

static int pop(void **found) {
    *found = &wgpu;
    return 0;
}

const char *burn_driver_wgpu(burn_driver *driver, void *library) {
    burn_wgpu_fill_device(driver);
    driver->oldest = driver->newest = WGPU_MAJOR * 1000;
    driver->init = wgpu.opened && library != wgpu.library ? refuse_init : init;
    driver->version = version;
    driver->describe = describe;
    driver->push = push;
    driver->pop = pop;
    driver->is_gone = burn_wgpu_is_gone;
    burn_wgpu_fill_kernels(driver);
    burn_wgpu_fill_work(driver);
    burn_wgpu_fill_staging(driver);
    burn_wgpu_fill_queries(driver);
    if (wgpu.opened)
        return NULL;
    wgpu.library = library;
    wgpu.with_half = burn_wgpu_with_half;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (!function) {
            driver->version = NULL;
            return FUNCTIONS[i].name;
        }
        memcpy((char *)&wgpu.api + FUNCTIONS[i].at, &function, sizeof function);
    }
    return NULL;
}
