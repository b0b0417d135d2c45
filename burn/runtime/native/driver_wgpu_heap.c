/* Device memory of WebGPU: parts of one buffer, which grows by copying into a larger one. Addresses stay valid. */
#include <stdlib.h>

#include "driver_wgpu.h"

static const uint64_t FIRST = 16 << 20, STEP = 256;

static int bind(wgpu_handle heap, uint64_t bytes) {
    const wgpu_group_entry entries[] = {
        {.binding = 0, .buffer = heap, .size = bytes},
        {.binding = 1, .buffer = wgpu.words, .size = WORDS_BYTES},
    };
    const wgpu_group_descriptor descriptor = {.layout = wgpu.group_layout, .count = 2, .entries = entries};
    wgpu_handle group = wgpu.api.group(wgpu.device, &descriptor);
    int code = burn_wgpu_status();
    if (code)
        return code;
    if (wgpu.group)
        wgpu.api.group_release(wgpu.group);
    wgpu.group = group;
    return 0;
}

/* Replaces the heap by one of so many bytes. Commands that use the old one are submitted before. */
static int replace(uint64_t bytes) {
    int code = burn_wgpu_flush();
    wgpu_handle larger = code ? NULL : burn_wgpu_buffer(WGPU_STORAGE_USE | WGPU_COPY_SOURCE | WGPU_COPY_TARGET, bytes);
    if (!code)
        code = burn_wgpu_status();
    if (code || !larger)
        return code ? code : BURN_DRIVER_OUT_OF_MEMORY;
    if (wgpu.heap) {
        wgpu_handle encoder = wgpu.api.encoder(wgpu.device, NULL);
        wgpu.api.copy(encoder, wgpu.heap, 0, larger, 0, wgpu.heap_bytes);
        wgpu_handle commands = wgpu.api.finish(encoder, NULL);
        wgpu.api.submit(wgpu.queue, 1, &commands);
        wgpu.api.commands_release(commands);
        wgpu.api.encoder_release(encoder);
        wgpu.api.buffer_release(wgpu.heap); /* the device keeps it until the copy is done */
    }
    wgpu.heap = larger;
    wgpu.heap_bytes = bytes;
    return bind(larger, bytes);
}

/* Returns a part to the list, joined with its neighbours. 0: this process has no memory left. */
static int give(uint64_t at, uint64_t bytes) {
    wgpu_free **link = &wgpu.free, *before = NULL;
    while (*link && (*link)->at < at) {
        before = *link;
        link = &(*link)->next;
    }
    wgpu_free *behind = *link;
    if (before && before->at + before->bytes == at) {
        before->bytes += bytes;
        if (behind && at + bytes == behind->at) {
            before->bytes += behind->bytes;
            before->next = behind->next;
            free(behind);
        }
        return 1;
    }
    if (behind && at + bytes == behind->at) {
        behind->at = at;
        behind->bytes += bytes;
        return 1;
    }
    wgpu_free *made = malloc(sizeof *made);
    if (!made)
        return 0;
    *made = (wgpu_free){behind, at, bytes};
    *link = made;
    return 1;
}

/* The bytes of the free part at the heap's end. */
static uint64_t last_free(void) {
    const wgpu_free *each = wgpu.free;
    while (each && each->next)
        each = each->next;
    return each && each->at + each->bytes == wgpu.heap_bytes ? each->bytes : 0;
}

static int grow(uint64_t bytes) {
    uint64_t needed = wgpu.heap_bytes + bytes - last_free(), doubled = wgpu.heap_bytes * 2, old = wgpu.heap_bytes;
    if (needed > wgpu.heap_most)
        return BURN_DRIVER_OUT_OF_MEMORY;
    uint64_t size = doubled > needed ? doubled : needed;
    int code = replace(size > wgpu.heap_most ? wgpu.heap_most : size);
    if (code == BURN_DRIVER_OUT_OF_MEMORY && needed < size)
        code = replace(needed);
    if (code)
        return code;
    return give(old, wgpu.heap_bytes - old) ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
}

int burn_wgpu_heap_open(void) {
    uint64_t most = wgpu.limits.storage_binding < wgpu.limits.buffer ? wgpu.limits.storage_binding : wgpu.limits.buffer;
    most = most > UINT32_MAX ? UINT32_MAX : most; /* kernels that copy bytes have 32-bit addresses */
    wgpu.heap_most = most / STEP * STEP;
    int code = replace(FIRST < wgpu.heap_most ? FIRST : wgpu.heap_most);
    if (!code && !give(HEAP_RESERVED, wgpu.heap_bytes - HEAP_RESERVED))
        code = BURN_DRIVER_OUT_OF_MEMORY;
    return code;
}

static wgpu_free **fitting(uint64_t bytes) {
    wgpu_free **link = &wgpu.free;
    while (*link && (*link)->bytes < bytes)
        link = &(*link)->next;
    return link;
}

int burn_wgpu_alloc(uint64_t *memory, size_t bytes) {
    uint64_t size = ((uint64_t)bytes + STEP - 1) / STEP * STEP;
    size = size ? size : STEP;
    if (bytes > UINT32_MAX)
        return BURN_DRIVER_OUT_OF_MEMORY;
    pthread_mutex_lock(&wgpu.lock);
    wgpu_used *used = malloc(sizeof *used);
    int code = used ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
    if (!code && !*fitting(size))
        code = grow(size);
    wgpu_free **link = fitting(size), *part = *link;
    if (!code && part) {
        *used = (wgpu_used){wgpu.used, part->at, size};
        wgpu.used = used;
        wgpu.used_bytes += size;
        *memory = part->at;
        part->at += size;
        part->bytes -= size;
        if (!part->bytes) {
            *link = part->next;
            free(part);
        }
    } else
        free(used);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

int burn_wgpu_release(uint64_t memory) {
    pthread_mutex_lock(&wgpu.lock);
    wgpu_used **link = &wgpu.used;
    while (*link && (*link)->at != memory)
        link = &(*link)->next;
    wgpu_used *part = *link;
    if (part) {
        *link = part->next;
        wgpu.used_bytes -= part->bytes;
        give(part->at, part->bytes); /* without memory for the list the part is lost */
        free(part);
    }
    pthread_mutex_unlock(&wgpu.lock);
    return part ? 0 : WGPU_REFUSED;
}
