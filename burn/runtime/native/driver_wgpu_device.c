/* Entries of the driver's table that are the same for wgpu-native and for a page: one device with one context, its memory, and the
 * names and texts of errors. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver_wgpu.h"

int burn_wgpu_refuse(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wgpu.error, sizeof wgpu.error, format, arguments);
    va_end(arguments);
    return code;
}

static int error_name(int code, const char **name) {
    *name = code == BURN_DRIVER_OUT_OF_MEMORY ? "out of memory" : code == WGPU_LOST ? "device lost"
            : code == WGPU_REFUSED ? "refused" : "error";
    return 0;
}

static int error_text(int code, const char **text) {
    *text = code == BURN_DRIVER_OUT_OF_MEMORY ? "out of memory" : code == WGPU_LOST ? burn_wgpu_lost_text : wgpu.error;
    return 0;
}

static int count(int *devices) {
    *devices = 1;
    return 0;
}

static int device(int *found, int index) {
    *found = index;
    return 0;
}

static size_t all_bytes(void) {
    uint64_t all = (uint64_t)wgpu.most_pages << wgpu.page_bits;
    return all > SIZE_MAX ? SIZE_MAX : (size_t)all;
}

static int total(size_t *bytes, int index) {
    (void)index;
    *bytes = all_bytes();
    return 0;
}

static int free_bytes(size_t *left, size_t *all) {
    pthread_mutex_lock(&wgpu.lock);
    *all = all_bytes();
    *left = *all - (size_t)wgpu.used_bytes;
    pthread_mutex_unlock(&wgpu.lock);
    return 0;
}

/* One context, always current. */
static int context(void **found, int index) {
    (void)index;
    *found = &wgpu;
    return 0;
}

static int current(void **found) { return context(found, 0); }

static int pinned_alloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    *memory = malloc(bytes);
    return *memory ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
}

/* Memory of the host is never known to the driver: a send has copied it when it returns. */
static int about(void *value, int attribute, uint64_t memory) {
    (void)value, (void)attribute, (void)memory;
    return WGPU_REFUSED;
}

void burn_wgpu_fill_device(burn_driver *driver) {
    driver->kind = "wgpu";
    driver->error_name = error_name;
    driver->error_text = error_text;
    driver->count = count;
    driver->device = device;
    driver->total = total;
    driver->free = free_bytes;
    driver->context = context;
    driver->current = current;
    driver->alloc = burn_wgpu_alloc;
    driver->release = burn_wgpu_release;
    driver->pinned_alloc = pinned_alloc;
    driver->about = about;
}
