/* A library of WebGPU that passes calls on to the real one (REAL, a path), and lets some fail as a device with little memory does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "webgpu_api.h"

enum { MOST_BUFFERS = 1000 };

/* Bytes of all buffers together; calls that make bind groups and fail; calls of wgpuQueueSubmit so far. */
uint64_t failing_budget = UINT64_MAX;
int failing_groups, failing_submissions;

/* Modules whose kernels convert float16 by instructions. */
int failing_by_instructions;

static wgpu_error_callback error;
static wgpu_callback lost;
static struct {
    wgpu_handle buffer;
    uint64_t bytes;
} live[MOST_BUFFERS];
static uint64_t used;

static void *real(const char *name) {
    static void *library;
    if (!library)
        library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    return dlsym(library, name);
}

static void report(wgpu_handle device, uint32_t type, const char *text) {
    error.call(&device, type, (wgpu_text){text, strlen(text)}, error.first, error.second);
}

wgpu_future wgpuAdapterRequestDevice(wgpu_handle adapter, const wgpu_device_descriptor *descriptor, wgpu_callback callback) {
    wgpu_future (*call)(wgpu_handle, const wgpu_device_descriptor *, wgpu_callback) = real(__func__);
    error = descriptor->error;
    lost = descriptor->lost;
    return call(adapter, descriptor, callback);
}

static void lower(uint32_t *limit, const char *name) {
    const char *wanted = getenv(name);
    uint32_t value = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : UINT32_MAX;
    *limit = value < *limit ? value : *limit;
}

/* An adapter with the limits of the environment, which the device then enforces. */
uint32_t wgpuAdapterGetLimits(wgpu_handle adapter, wgpu_limits *limits) {
    uint32_t (*call)(wgpu_handle, wgpu_limits *) = real(__func__);
    uint32_t status = call(adapter, limits);
    lower(&limits->storage_buffers, "FAILING_STORAGE_BUFFERS");
    lower(&limits->workgroup_memory, "FAILING_WORKGROUP_MEMORY");
    lower(&limits->invocations, "FAILING_INVOCATIONS");
    lower(&limits->workgroups, "FAILING_WORKGROUPS");
    for (int i = 0; i < 3; i++)
        lower(&limits->workgroup[i], "FAILING_INVOCATIONS");
    return status;
}

wgpu_handle wgpuDeviceCreateShaderModuleTrusted(wgpu_handle device, const wgpu_labelled *descriptor, uint64_t checks) {
    wgpu_handle (*call)(wgpu_handle, const wgpu_labelled *, uint64_t) = real(__func__);
    const char *text = ((const wgpu_wgsl *)descriptor->next)->code.data;
    failing_by_instructions += strstr(text, "unpack2x16float") && !strstr(text, "quick_");
    return call(device, descriptor, checks);
}

uint32_t wgpuAdapterHasFeature(wgpu_handle adapter, uint32_t feature) {
    uint32_t (*call)(wgpu_handle, uint32_t) = real(__func__);
    return getenv("FAILING_FEATURES") ? 0 : call(adapter, feature);
}

/* As the real function does, it gives a handle of no use: here of a buffer of 4 bytes without any use. */
wgpu_handle wgpuDeviceCreateBuffer(wgpu_handle device, const wgpu_buffer_descriptor *descriptor) {
    wgpu_handle (*call)(wgpu_handle, const wgpu_buffer_descriptor *) = real(__func__);
    wgpu_buffer_descriptor given = *descriptor;
    if (used + given.size > failing_budget) {
        report(device, WGPU_OUT_OF_MEMORY, "not enough memory");
        given.usage = WGPU_COPY_TARGET;
        given.size = 4;
    }
    wgpu_handle made = call(device, &given);
    for (int i = 0; i < MOST_BUFFERS; i++)
        if (!live[i].buffer) {
            live[i].buffer = made;
            live[i].bytes = given.size;
            used += given.size;
            break;
        }
    return made;
}

void wgpuBufferRelease(wgpu_handle buffer) {
    void (*call)(wgpu_handle) = real(__func__);
    for (int i = 0; i < MOST_BUFFERS; i++)
        if (live[i].buffer == buffer) {
            live[i].buffer = NULL;
            used -= live[i].bytes;
            break;
        }
    call(buffer);
}

wgpu_handle wgpuDeviceCreateBindGroup(wgpu_handle device, const wgpu_group_descriptor *descriptor) {
    wgpu_handle (*call)(wgpu_handle, const wgpu_group_descriptor *) = real(__func__);
    if (failing_groups > 0) {
        failing_groups--;
        report(device, WGPU_OUT_OF_MEMORY, "not enough memory");
        return NULL;
    }
    return call(device, descriptor);
}

void wgpuQueueSubmit(wgpu_handle queue, size_t count, const wgpu_handle *commands) {
    void (*call)(wgpu_handle, size_t, const wgpu_handle *) = real(__func__);
    failing_submissions++;
    call(queue, count, commands);
}

/* Tells that the device is lost. */
void failing_lose(void) {
    ((void (*)(const wgpu_handle *, uint32_t, wgpu_text, void *, void *))lost.call)(NULL, 1, (wgpu_text){"gone", 4}, lost.first, lost.second);
}
