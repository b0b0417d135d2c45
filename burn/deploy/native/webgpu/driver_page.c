/* WebGPU of a page's JavaScript as burn_driver. It takes the place of driver.c and driver_wgpu.c in a module of WebAssembly.
 *
 * Memory and commands are those of the native driver (driver_wgpu_device.c, _heap.c, _kernels.c, _work.c, _staging.c). Their table of
 * functions, wgpu_api, has adapters here, which take descriptors apart. gpu.js has the objects (page.h).
 *
 * A page cannot wait, so a fetch is a copy that is noted, and arrives when the page's next wait ends. Only a program that reads from the
 * GPU during a call waits in a call: it suspends the module. Events are not needed for the order of one queue, and have no clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"
#include "page.h"

wgpu_state wgpu;

static wgpu_handle handle(page_object number) { return (wgpu_handle)(uintptr_t)number; }
static page_object number(wgpu_handle handle) { return (page_object)(uintptr_t)handle; }

/* The last fetch, while its words cannot have changed on the device. */
static struct {
    uint64_t from;
    size_t bytes;
    const void *to;
} fetched;
static int waiting; /* a fetch is under way */

/* ---- adapters ---------------------------------------------------------------------------------------------------- */

static void api_release(wgpu_handle object) { page_release(number(object)); }

static wgpu_handle api_buffer(wgpu_handle device, const wgpu_buffer_descriptor *descriptor) {
    (void)device;
    return handle(page_buffer((uint32_t)descriptor->usage, (double)descriptor->size));
}

static wgpu_handle api_group_layout(wgpu_handle device, const wgpu_layout_descriptor *descriptor) {
    const wgpu_layout_entry *entries = descriptor->items;
    (void)device;
    for (size_t i = 0; i < descriptor->count; i++)
        page_layout_entry(entries[i].binding, entries[i].buffer.type == WGPU_UNIFORM, entries[i].buffer.dynamic != 0);
    return handle(page_group_layout());
}

static wgpu_handle api_pipeline_layout(wgpu_handle device, const wgpu_layout_descriptor *descriptor) {
    (void)device;
    return handle(page_pipeline_layout(number(*(const wgpu_handle *)descriptor->items)));
}

static wgpu_handle api_group(wgpu_handle device, const wgpu_group_descriptor *descriptor) {
    (void)device;
    for (size_t i = 0; i < descriptor->count; i++) {
        const wgpu_group_entry *entry = &descriptor->entries[i];
        page_group_entry(entry->binding, number(entry->buffer), (double)entry->offset, (double)entry->size);
    }
    return handle(page_group(number(descriptor->layout)));
}

static wgpu_handle api_module(wgpu_handle device, const wgpu_labelled *descriptor, uint64_t checks) {
    const wgpu_wgsl *source = descriptor->next;
    (void)device, (void)checks; /* a browser checks all */
    return handle(page_module(source->code.data, (uint32_t)source->code.length));
}

static wgpu_handle api_pipeline(wgpu_handle device, const wgpu_pipeline_descriptor *descriptor) {
    const wgpu_text entry = descriptor->compute.entry;
    (void)device;
    return handle(page_pipeline(number(descriptor->layout), number(descriptor->compute.module), entry.data, (uint32_t)entry.length));
}

static wgpu_handle api_encoder(wgpu_handle device, const wgpu_labelled *descriptor) {
    (void)device, (void)descriptor;
    return handle(page_encoder());
}

static wgpu_handle api_begin_pass(wgpu_handle encoder, const wgpu_pass_descriptor *descriptor) {
    (void)descriptor;
    return handle(page_begin_pass(number(encoder)));
}

static void api_set_pipeline(wgpu_handle pass, wgpu_handle pipeline) { page_set_pipeline(number(pass), number(pipeline)); }

static void api_set_group(wgpu_handle pass, uint32_t index, wgpu_handle group, size_t count, const uint32_t *offsets) {
    (void)index, (void)count;
    page_set_group(number(pass), number(group), *offsets);
}

static void api_dispatch(wgpu_handle pass, uint32_t x, uint32_t y, uint32_t z) { page_dispatch(number(pass), x, y, z); }
static void api_end_pass(wgpu_handle pass) { page_end_pass(number(pass)); }

static void api_copy(wgpu_handle encoder, wgpu_handle from, uint64_t from_offset, wgpu_handle to, uint64_t to_offset, uint64_t size) {
    page_copy(number(encoder), number(from), (double)from_offset, number(to), (double)to_offset, (double)size);
}

static wgpu_handle api_finish(wgpu_handle encoder, const wgpu_labelled *descriptor) {
    (void)descriptor;
    return handle(page_finish(number(encoder)));
}

static void api_submit(wgpu_handle queue, size_t count, const wgpu_handle *commands) {
    (void)queue;
    fetched.to = NULL;
    for (size_t i = 0; i < count; i++)
        page_submit(number(commands[i]));
}

static void api_write(wgpu_handle queue, wgpu_handle buffer, uint64_t offset, const void *data, size_t size) {
    (void)queue;
    fetched.to = NULL;
    page_write(number(buffer), (double)offset, data, (uint32_t)size);
}

static const wgpu_api API = {
    .buffer = api_buffer,
    .buffer_release = api_release,
    .group_layout = api_group_layout,
    .pipeline_layout = api_pipeline_layout,
    .group = api_group,
    .group_release = api_release,
    .module = api_module,
    .module_release = api_release,
    .pipeline = api_pipeline,
    .pipeline_release = api_release,
    .encoder = api_encoder,
    .begin_pass = api_begin_pass,
    .set_pipeline = api_set_pipeline,
    .set_group = api_set_group,
    .dispatch = api_dispatch,
    .end_pass = api_end_pass,
    .pass_release = api_release,
    .copy = api_copy,
    .finish = api_finish,
    .encoder_release = api_release,
    .commands_release = api_release,
    .submit = api_submit,
    .write = api_write,
};

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Errors of WebGPU arrive at the page after the call, in its error scopes. A failure here is one that burn finds. */
int burn_wgpu_status(void) {
    wgpu.lost = wgpu.lost || page_lost();
    int code = wgpu.lost ? WGPU_LOST : wgpu.failed;
    wgpu.failed = 0;
    return code;
}

/* A page starts again with a new module: model.reload(). So there is one session. */
int burn_wgpu_renew(void) { return burn_wgpu_status(); }
int burn_wgpu_local(uint64_t *address) { return *address >> SESSION_BITS ? WGPU_LOST : 0; }

const char burn_wgpu_lost_text[] = "the device was lost";

void burn_driver_explain(const burn_driver *driver, int code, char *text, size_t size) {
    const char *words = "";
    driver->error_text(code, &words);
    snprintf(text, size, "%s (%d)", words, code);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static int version(int *found) {
    *found = 0; /* WebGPU has none */
    return 0;
}

static int describe(const burn_driver *driver, int index, burn_device_facts *facts) {
    (void)driver, (void)index;
    snprintf(facts->architecture, sizeof facts->architecture, "webgpu");
    facts->warp = 32;
    facts->shared = wgpu.limits.workgroup_memory;
    return 0;
}

/* ---- fetches and events ------------------------------------------------------------------------------------------ */

static int fetch(void *to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    if (!bytes)
        return burn_wgpu_status();
    int code = burn_wgpu_flush();
    if (code)
        return code;
    if (fetched.to && fetched.from == from && fetched.bytes == bytes && !waiting) {
        memmove(to, fetched.to, bytes);
        return 0;
    }
    uint64_t page = (uint64_t)1 << wgpu.page_bits;
    for (uint64_t done = 0, part; done < bytes; done += part) { /* in each page of a tensor */
        uint64_t at = from + done, start = at / 4 * 4, left = page - at % page;
        part = left < bytes - done ? left : bytes - done;
        page_fetch(number(wgpu.page[start >> wgpu.page_bits].buffer), (double)(start % page),
                   (uint32_t)((at + part + 3) / 4 * 4 - start), (uint32_t)(at - start), (char *)to + done, (uint32_t)part);
    }
    fetched.from = from;
    fetched.bytes = bytes;
    fetched.to = to;
    waiting = 1;
    return 0;
}

/* gpu.js has waited for all fetches. */
__attribute__((export_name("fetched"))) void all_fetched(void) { waiting = 0; }

static int wait(void *event) {
    (void)event;
    int code = burn_wgpu_flush();
    if (!code && waiting)
        code = page_drain() ? WGPU_LOST : burn_wgpu_status();
    waiting = 0;
    return code;
}

static int new_event(void **event, unsigned flags) {
    (void)flags;
    *event = &waiting;
    return 0;
}

/* There is one queue, in order. */
static int stream(void **made, unsigned flags) {
    (void)flags;
    *made = &wgpu;
    return 0;
}

static int stream_release(void *it) {
    (void)it;
    return 0;
}

static int wait_for(void *it, void *event, unsigned flags) {
    (void)it, (void)event, (void)flags;
    return 0;
}

static int event_release(void *event) {
    (void)event;
    return 0;
}

static int record(void *event, void *stream) {
    (void)event, (void)stream;
    return 0;
}

static int elapsed(float *milliseconds, void *first, void *last) {
    (void)first, (void)last;
    *milliseconds = 0;
    return burn_wgpu_refuse(WGPU_REFUSED, "a page's events have no clock");
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int open_page(void) {
    static const char name[] = "the adapter";
    wgpu.api = API;
    wgpu.info.device = (wgpu_text){name, sizeof name - 1};
    wgpu.limits.storage_buffers = (uint32_t)page_limit(PAGE_STORAGE_BUFFERS);
    wgpu.limits.storage_binding = (uint64_t)page_limit(PAGE_STORAGE_BINDING);
    wgpu.limits.buffer = (uint64_t)page_limit(PAGE_BUFFER);
    wgpu.limits.uniform_alignment = (uint32_t)page_limit(PAGE_UNIFORM_ALIGNMENT);
    wgpu.limits.workgroups = (uint32_t)page_limit(PAGE_WORKGROUPS);
    wgpu.limits.workgroup_memory = (uint32_t)page_limit(PAGE_WORKGROUP_MEMORY);
    return burn_wgpu_heap_open();
}

const burn_driver *burn_driver_find(const char *kind, const char *library, char *error, size_t error_size) {
    static burn_driver driver;
    (void)kind, (void)library;
    if (driver.devices)
        return &driver;
    burn_wgpu_fill_device(&driver);
    burn_wgpu_fill_kernels(&driver);
    burn_wgpu_fill_work(&driver);
    burn_wgpu_fill_staging(&driver);
    driver.version = version;
    driver.describe = describe;
    driver.fetch = fetch;
    driver.stream = stream;
    driver.stream_release = stream_release;
    driver.wait_for = wait_for;
    driver.event = new_event;
    driver.event_release = event_release;
    driver.record = record;
    driver.wait = wait;
    driver.elapsed = elapsed;
    int code = open_page();
    if (!code) {
        driver.devices = 1;
        return &driver;
    }
    char text[256];
    burn_driver_explain(&driver, code, text, sizeof text);
    snprintf(error, error_size, "WebGPU does not start: %s", text);
    return NULL;
}

const char burn_driver_forked_text[] = "";
int burn_driver_forked(void) { return 0; }
