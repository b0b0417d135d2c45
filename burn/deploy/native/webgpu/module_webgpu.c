/* The interface of a WebAssembly module whose program runs on WebGPU, for JavaScript (index.js): one program, one call at a time. The
 * model's own C file has the tables; values.c has inputs and outputs.
 *
 * Constants go from the page's memory to the GPU, and are never in the module's. A call returns when its work is submitted. Its outputs
 * and its kernels' failures are there when gpu.js has waited: `finish`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"
#include "module.h"
#include "page.h"
#include "run.h"

#define OFFERED(name) __attribute__((export_name(name)))

static burn_program *program;
static burn_device *device;
static char error[512];

static page_object buffer_at(uint64_t address) { return (page_object)(uintptr_t)wgpu.page[address >> wgpu.page_bits].buffer; }
static double offset_at(uint64_t address) { return (double)(address & (((uint64_t)1 << wgpu.page_bits) - 1)); }

/* Grows the heap at once to what constants need, as each growth copies it. */
static void reserve(const burn_program_info *info) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < info->constants; i++)
        bytes += (info->constant_bytes[i] + BURN_DEVICE_ALIGNMENT) / BURN_DEVICE_ALIGNMENT * BURN_DEVICE_ALIGNMENT;
    bytes += bytes / 8; /* of blocks, whose sizes are rounded up: device_memory.c */
    if (bytes > (int64_t)1 << wgpu.page_bits)
        return;
    burn_device_free(device, burn_device_alloc(device, bytes));
    burn_device_trim(device);
}

static int send_constants(const burn_program_info *info) {
    reserve(info);
    for (int64_t i = 0; i < info->constants; i++) {
        void *memory = burn_device_alloc(device, info->constant_bytes[i]);
        program->device_constants[i] = memory;
        if (!memory)
            return 0;
        uint64_t address = (uint64_t)(uintptr_t)memory, bytes = (uint64_t)info->constant_bytes[i];
        for (uint64_t done = 0, part; done < bytes; done += part) { /* in each page of a large one */
            uint64_t left = ((uint64_t)1 << wgpu.page_bits) - (uint64_t)offset_at(address + done);
            part = left < bytes - done ? left : bytes - done;
            page_constant((int32_t)i, (double)done, (double)part, buffer_at(address + done), offset_at(address + done));
        }
    }
    return 1;
}

/* Makes the program. kernels: the texts of all kernels, which may be freed afterwards. Returns 0 if it cannot be made: see `error`. */
OFFERED("start") int32_t start(const char *kernels) {
    burn_program_info info = burn_own_module.program;
    void **constants = calloc((size_t)info.constants + 1, sizeof *constants);
    int64_t *none = malloc(((size_t)info.constants + 1) * sizeof *none);
    burn_device_kernel *images = malloc(((size_t)info.device_kernel_count + 1) * sizeof *images);
    if (!constants || !none || !images || !burn_values_open(&info)) {
        snprintf(error, sizeof error, "out of memory");
        return 0;
    }
    for (int64_t i = 0; i < info.constants; i++)
        none[i] = -1; /* sent below */
    for (int64_t i = 0; i < info.device_kernel_count; i++) {
        images[i] = info.device_kernels[i];
        images[i].image = kernels + burn_own_kernels[i];
    }
    burn_own_values.on_device = 1;
    device = burn_device_open("wgpu", 0, NULL, error, sizeof error);
    if (!device)
        return 0;
    info.device = device;
    info.constant_data = constants;
    info.constant_bytes = none;
    info.device_kernels = images;
    program = burn_program_new(&info, error, sizeof error);
    free(constants);
    free(none);
    free(images);
    if (!program || !send_constants(&burn_own_module.program)) {
        if (!*error)
            snprintf(error, sizeof error, "%s", *burn_device_error() ? burn_device_error() : "out of memory");
        return 0;
    }
    return 1;
}

/* One line about the last call that failed, and whether memory was what it lacked. */
OFFERED("error") const char *last_error(void) { return error; }
OFFERED("device_error") const char *device_error(void) { return burn_device_error(); }

/* Memory of the GPU: 0 if there is none. An address's buffer, and its offset in that. */
OFFERED("device_allocate") void *device_allocate(double bytes) { return burn_device_alloc(device, (int64_t)bytes); }
OFFERED("device_release") void device_release(void *memory) { burn_device_free(device, memory); }
OFFERED("buffer_of") page_object buffer_of(uint32_t address) { return buffer_at(address); }
OFFERED("offset_of") double offset_of(uint32_t address) { return offset_at(address); }
OFFERED("used_bytes") double used_bytes(void) {
    burn_device_facts facts;
    return burn_device_describe(device, &facts) == BURN_OK ? (double)facts.used : 0;
}

/* Submits one inference; returns a burn_status. */
OFFERED("run") int32_t run(void) {
    const burn_options options = {.stay = 1};
    burn_own_values.failure = burn_program_run(program, burn_own_values.inputs, burn_own_values.outputs, &options);
    int code = burn_own_values.failure.code ? 0 : burn_wgpu_flush();
    if (code)
        burn_own_values.failure = (burn_failure){BURN_DEVICE_FAILED, -1, code};
    return burn_own_values.failure.code;
}

/* The failure that kernels have reported, after the wait; a burn_status. */
OFFERED("finish") int32_t finish(void) {
    burn_reported found;
    if (burn_device_reported(device, &found))
        burn_own_values.failure = (burn_failure){found.code, found.site, found.value};
    return burn_own_values.failure.code;
}

OFFERED("output_on_device") int32_t output_on_device(int32_t index) { return burn_own_values.outputs[index].on_device; }

OFFERED("done") void done(void) {
    for (int64_t i = 0; i < burn_own_module.program.outputs; i++) {
        burn_output *output = &burn_own_values.outputs[i];
        burn_device_moment_delete(output->ready);
        output->ready = NULL;
        if (!output->on_device)
            burn_output_free(burn_own_module.program.output_specs[i].kind, output);
        else if (output->taken_from < 0)
            burn_device_free(device, output->data);
        output->data = NULL;
    }
}
