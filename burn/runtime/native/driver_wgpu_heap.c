/* Device memory of WebGPU: parts of pages. A page grows by copying into a larger buffer; addresses stay valid. */
#include <stdlib.h>

#include "driver_wgpu.h"

static const uint64_t FIRST = 16 << 20, STEP = 256, LEAST = 1 << 16;

static uint64_t page_most(void) { return (uint64_t)1 << wgpu.page_bits; }
static uint64_t start_of(int page) { return (uint64_t)page << wgpu.page_bits; }

static void forget_group(int number) {
    if (wgpu.group[number])
        wgpu.api.group_release(wgpu.group[number]);
    wgpu.group[number] = NULL;
}

static int make_group(int number, const wgpu_group_entry *entries, size_t count) {
    const wgpu_group_descriptor descriptor = {.layout = wgpu.group_layout[number == ALL_PAGES], .count = count, .entries = entries};
    wgpu.group[number] = wgpu.api.group(wgpu.device, &descriptor);
    int code = burn_wgpu_status();
    if (code)
        forget_group(number);
    return code;
}

static wgpu_group_entry entry_of(int page, uint32_t binding) {
    wgpu_group_entry entry = {.binding = binding, .buffer = wgpu.page[page].buffer};
    entry.size = wgpu.page[page].bytes ? wgpu.page[page].bytes : STEP;
    return entry;
}

/* Binding 1 has the words; pages behind the first one follow. A page that is not in use is a small buffer of its own, as no buffer may
 * be bound twice. */
static int bind_all(void) {
    wgpu_group_entry entries[MOST_PAGES + 1] = {{.binding = 0}, {.binding = 1, .buffer = wgpu.words, .size = WORDS_BYTES}};
    for (int page = 0; page < wgpu.most_pages; page++) {
        int code = wgpu.page[page].buffer ? 0 : burn_wgpu_buffer(&wgpu.page[page].buffer, WGPU_STORAGE_USE, STEP);
        if (code)
            return code;
        entries[page ? page + 1 : 0] = entry_of(page, (uint32_t)(page ? page + 1 : 0));
    }
    return make_group(ALL_PAGES, entries, (size_t)wgpu.most_pages + 1);
}

int burn_wgpu_group(int number, wgpu_handle *group) {
    int code = 0;
    if (!wgpu.group[number] && number == ALL_PAGES)
        code = bind_all();
    else if (!wgpu.group[number]) {
        const wgpu_group_entry entries[] = {entry_of(number, 0), {.binding = 1, .buffer = wgpu.words, .size = WORDS_BYTES}};
        code = make_group(number, entries, 2);
    }
    *group = wgpu.group[number];
    return code;
}

/* Gives a page so many bytes. Commands that use its old buffer are submitted before. */
static int resize(int number, uint64_t bytes) {
    wgpu_page *page = &wgpu.page[number];
    wgpu_handle larger;
    int code = burn_wgpu_flush();
    if (!code)
        code = burn_wgpu_buffer(&larger, WGPU_STORAGE_USE | WGPU_COPY_SOURCE | WGPU_COPY_TARGET, bytes);
    if (code)
        return code;
    if (page->bytes) {
        wgpu_handle encoder = wgpu.api.encoder(wgpu.device, NULL);
        wgpu.api.copy(encoder, page->buffer, 0, larger, 0, page->bytes);
        code = burn_wgpu_submit(encoder);
    }
    if (code) {
        wgpu.api.buffer_release(larger);
        return code;
    }
    if (page->buffer)
        wgpu.api.buffer_release(page->buffer); /* the device keeps it until the copy is done */
    *page = (wgpu_page){larger, bytes};
    forget_group(number);
    forget_group(ALL_PAGES);
    return 0;
}

/* Returns a part to the list, joined with its neighbours in the page. 0: this process has no memory left. */
static int give(uint64_t at, uint64_t bytes) {
    wgpu_free **link = &wgpu.free, *before = NULL;
    while (*link && (*link)->at < at) {
        before = *link;
        link = &(*link)->next;
    }
    wgpu_free *behind = *link;
    int joins = behind && at + bytes == behind->at && behind->at % page_most();
    if (before && before->at + before->bytes == at && at % page_most()) {
        before->bytes += bytes;
        if (joins) {
            before->bytes += behind->bytes;
            before->next = behind->next;
            free(behind);
        }
        return 1;
    }
    if (joins) {
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

/* The bytes of the free part at a page's end. */
static uint64_t last_free(int page) {
    uint64_t end = start_of(page) + wgpu.page[page].bytes;
    for (const wgpu_free *each = wgpu.free; each; each = each->next)
        if (each->at + each->bytes == end && each->at >= start_of(page))
            return each->bytes;
    return 0;
}

/* Makes a page so much larger that a part of `bytes` bytes fits: twice as large if the device has that, else as needed. */
static int grow_page(int page, uint64_t bytes) {
    uint64_t old = wgpu.page[page].bytes, needed = old + bytes - (old ? last_free(page) : 0);
    uint64_t doubled = old ? old * 2 : FIRST, size = doubled > needed ? doubled : needed;
    size = size > page_most() ? page_most() : size;
    int code = resize(page, size);
    if (code == BURN_DRIVER_OUT_OF_MEMORY && needed < size)
        code = resize(page, needed);
    if (code)
        return code;
    return give(start_of(page) + old, wgpu.page[page].bytes - old) ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
}

/* To grow a page takes its old and its new bytes together. A device without that memory may have enough for a further page. */
static int grow(uint64_t bytes) {
    for (int page = 0; page < wgpu.pages; page++)
        if (wgpu.page[page].bytes + bytes - last_free(page) <= page_most()) {
            int code = grow_page(page, bytes);
            if (code != BURN_DRIVER_OUT_OF_MEMORY)
                return code;
        }
    if (wgpu.pages == wgpu.most_pages || bytes > page_most())
        return BURN_DRIVER_OUT_OF_MEMORY;
    int code = grow_page(wgpu.pages, bytes);
    wgpu.pages += !code;
    return code;
}

int burn_wgpu_heap_open(void) {
    uint64_t binding = wgpu.limits.storage_binding < wgpu.limits.buffer ? wgpu.limits.storage_binding : wgpu.limits.buffer;
    const char *lowered = getenv("BURN_WGPU_BINDING");
    uint64_t wanted = lowered ? strtoull(lowered, NULL, 10) : 0;
    if (wanted >= LEAST && wanted < binding)
        binding = wanted;
    int bits = 8;
    while (bits < 31 && (uint64_t)2 << bits <= binding)
        bits++;
    uint32_t bindings = wgpu.limits.storage_buffers;
    int pages = 1 << (32 - bits); /* kernels that copy bytes have 32-bit addresses */
    wgpu.page_bits = bits;
    pages = pages > MOST_PAGES ? MOST_PAGES : pages;
    wgpu.most_pages = bindings < (uint32_t)pages ? (int)bindings : pages;
    int code = burn_wgpu_work_open();
    if (!code)
        code = grow(2 * HEAP_RESERVED);
    if (!code)
        wgpu.free->at += HEAP_RESERVED, wgpu.free->bytes -= HEAP_RESERVED;
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
