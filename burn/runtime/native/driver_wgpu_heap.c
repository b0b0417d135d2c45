/* Device memory of WebGPU: parts of pages. A page grows by copying into a larger buffer; addresses stay valid. */
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"

static const uint64_t FIRST = 16 << 20, STEP = 256;

static uint64_t page_most(void) { return (uint64_t)1 << wgpu.page_bits; }
static uint64_t start_of(int page) { return (uint64_t)page << wgpu.page_bits; }

/* Adds pages to a set until it has as many as its width's bindings. */
static int filled(int pages) {
    int count = burn_wgpu_pages_of_width(burn_wgpu_width(pages));
    for (int page = 0; __builtin_popcount(pages) < count; page++)
        pages |= 1 << page;
    return pages;
}

/* Releases the bindings that have a page: of sets that contain it, and of those that it fills up. */
static void forget_groups(int page) {
    for (int set = 0; set < SETS; set++)
        if (wgpu.group[set] && filled(set) >> page & 1) {
            wgpu.api.group_release(wgpu.group[set]);
            wgpu.group[set] = NULL;
        }
}

/* Binding 1 has the words; pages behind the first one follow. Pages that fill up the width come last, as the launch's addresses do not
 * count them. A page that is not in use is a small buffer of its own, as no buffer may be bound twice. */
static int bind(int pages) {
    wgpu_group_entry entries[MOST_PAGES + 1] = {{.binding = 0}, {.binding = 1, .buffer = wgpu.words, .size = WORDS_BYTES}};
    const int sets[] = {pages, filled(pages) & ~pages};
    size_t count = 1;
    for (int i = 0; i < 2; i++)
        for (int page = 0; page < wgpu.most_pages; page++)
            if (sets[i] >> page & 1) {
                wgpu_page *it = &wgpu.page[page];
                int code = it->buffer ? 0 : burn_wgpu_buffer(&it->buffer, WGPU_STORAGE_USE, STEP);
                if (code)
                    return code;
                uint32_t binding = count == 1 ? 0 : (uint32_t)count;
                entries[binding] = (wgpu_group_entry){.binding = binding, .buffer = it->buffer, .size = it->bytes ? it->bytes : STEP};
                count++;
            }
    const wgpu_group_descriptor descriptor = {.layout = wgpu.group_layout[burn_wgpu_width(pages)], .count = count, .entries = entries};
    wgpu_handle made = wgpu.api.group(wgpu.device, &descriptor);
    int code = burn_wgpu_status();
    if (!code)
        wgpu.group[pages] = made;
    else if (made)
        wgpu.api.group_release(made);
    return code;
}

int burn_wgpu_group(int pages, wgpu_handle *group) {
    int code = wgpu.group[pages] ? 0 : bind(pages);
    *group = wgpu.group[pages];
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
    forget_groups(number);
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
    if (wgpu.lowered_binding && wgpu.lowered_binding < binding)
        binding = wgpu.lowered_binding;
    int bits = 8;
    while (bits < 31 && (uint64_t)2 << bits <= binding)
        bits++;
    uint32_t bindings = wgpu.limits.storage_buffers;
    int pages = 1 << (32 - bits); /* kernels that copy bytes have 32-bit addresses */
    wgpu.page_bits = bits;
    pages = pages > MOST_PAGES ? MOST_PAGES : pages;
    wgpu.most_pages = bindings < (uint32_t)pages ? (int)bindings : pages;
    int code = burn_wgpu_kernels_open();
    if (!code)
        code = grow(2 * HEAP_RESERVED);
    if (!code)
        wgpu.free->at += HEAP_RESERVED, wgpu.free->bytes -= HEAP_RESERVED;
    return code;
}

/* ---- parts of several pages ---------------------------------------------------------------------------------------- */

/* The bytes of the free part at a page's start. */
static uint64_t first_free(int page) {
    for (const wgpu_free *each = wgpu.free; each; each = each->next)
        if (each->at == start_of(page))
            return each->bytes;
    return 0;
}

/* True if a page begins with so many free bytes, or can: it is free as a whole, or not in use. */
static int can_begin_with(int page, uint64_t bytes) {
    return page >= wgpu.pages || first_free(page) >= bytes || first_free(page) == wgpu.page[page].bytes;
}

static uint64_t piece_of(uint64_t bytes, int number) {
    uint64_t left = bytes - (uint64_t)number * page_most();
    return left < page_most() ? left : page_most();
}

/* The first of neighbouring pages that can hold a part; -1: there are none. */
static int neighbours(uint64_t bytes, int count) {
    for (int first = 0; first + count <= wgpu.most_pages; first++) {
        int found = 0;
        while (found < count && can_begin_with(first + found, piece_of(bytes, found)))
            found++;
        if (found == count)
            return first;
    }
    return -1;
}

static int begin_with(int page, uint64_t bytes) {
    uint64_t old = wgpu.page[page].bytes;
    if (page < wgpu.pages && first_free(page) >= bytes)
        return 0;
    int code = resize(page, bytes);
    if (!code && !give(start_of(page) + old, bytes - old))
        code = BURN_DRIVER_OUT_OF_MEMORY;
    if (!code && page >= wgpu.pages)
        wgpu.pages = page + 1;
    return code;
}

static void take(uint64_t at, uint64_t bytes) {
    wgpu_free **link = &wgpu.free;
    while ((*link)->at != at)
        link = &(*link)->next;
    wgpu_free *part = *link;
    part->at += bytes;
    part->bytes -= bytes;
    if (!part->bytes) {
        *link = part->next;
        free(part);
    }
}

/* A part that is larger than a page lies in neighbouring pages, so its addresses are contiguous. Kernels select the page at each access. */
static int alloc_across(uint64_t *at, uint64_t bytes) {
    int count = (int)((bytes + page_most() - 1) / page_most()), first = neighbours(bytes, count), code = 0;
    if (count > wgpu.most_pages)
        return burn_wgpu_refuse(WGPU_REFUSED,
                                "%llu bytes do not fit: a storage binding of %.*s has at most %llu bytes, and a kernel %d bindings",
                                (unsigned long long)bytes, (int)wgpu.info.device.length, wgpu.info.device.data,
                                (unsigned long long)page_most(), wgpu.most_pages);
    if (first < 0)
        return BURN_DRIVER_OUT_OF_MEMORY;
    for (int i = 0; i < count && !code; i++)
        code = begin_with(first + i, piece_of(bytes, i));
    for (int i = 0; i < count && !code; i++)
        take(start_of(first + i), piece_of(bytes, i));
    *at = start_of(first);
    wgpu.across += !code;
    return code;
}

int burn_wgpu_pages_of(uint64_t address) {
    for (const wgpu_used *each = wgpu.across ? wgpu.used : NULL; each; each = each->next)
        if (each->bytes > page_most() && address >= each->at && address < each->at + each->bytes) {
            int first = (int)(each->at >> wgpu.page_bits), last = (int)((each->at + each->bytes - 1) >> wgpu.page_bits);
            return (2 << last) - (1 << first);
        }
    uint64_t page = address >> wgpu.page_bits; /* no tensor begins at the null pointer, nor at the end of the heap */
    return address && page < (uint64_t)wgpu.most_pages ? 1 << page : 0;
}

/* ---- the interface ------------------------------------------------------------------------------------------------- */

static wgpu_free **fitting(uint64_t bytes) {
    wgpu_free **link = &wgpu.free;
    while (*link && (*link)->bytes < bytes)
        link = &(*link)->next;
    return link;
}

void burn_wgpu_heap_forget(void) {
    for (wgpu_free *next, *each = wgpu.free; each; each = next) {
        next = each->next;
        free(each);
    }
    for (wgpu_used *next, *each = wgpu.used; each; each = next) {
        next = each->next;
        free(each);
    }
    wgpu.free = NULL;
    wgpu.used = NULL;
    wgpu.used_bytes = 0;
    wgpu.pages = wgpu.across = 0;
    memset(wgpu.page, 0, sizeof wgpu.page); /* handles of a lost device are left: it has no memory, and releasing may end the process */
    memset(wgpu.group, 0, sizeof wgpu.group);
}

int burn_wgpu_is_gone(uint64_t memory) {
    pthread_mutex_lock(&wgpu.lock);
    int gone = wgpu.lost || burn_wgpu_local(&memory) != 0;
    pthread_mutex_unlock(&wgpu.lock);
    return gone;
}

int burn_wgpu_alloc(uint64_t *memory, size_t bytes) {
    uint64_t size = ((uint64_t)bytes + STEP - 1) / STEP * STEP;
    size = size ? size : STEP;
    if (bytes > UINT32_MAX)
        return BURN_DRIVER_OUT_OF_MEMORY;
    pthread_mutex_lock(&wgpu.lock);
    wgpu_used *used = malloc(sizeof *used);
    int code = used ? burn_wgpu_renew() : BURN_DRIVER_OUT_OF_MEMORY;
    uint64_t at = 0;
    if (!code && size > page_most())
        code = alloc_across(&at, size);
    else if (!code) {
        if (!*fitting(size))
            code = grow(size);
        if (!code) {
            at = (*fitting(size))->at;
            take(at, size);
        }
    }
    if (!code) {
        *used = (wgpu_used){wgpu.used, at, size};
        wgpu.used = used;
        wgpu.used_bytes += size;
        *memory = at | wgpu.session << SESSION_BITS;
    } else
        free(used);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

int burn_wgpu_release(uint64_t memory) {
    pthread_mutex_lock(&wgpu.lock);
    int over = burn_wgpu_local(&memory);
    wgpu_used **link = &wgpu.used;
    while (*link && (*link)->at != memory)
        link = &(*link)->next;
    wgpu_used *part = over ? NULL : *link;
    if (part) {
        *link = part->next;
        wgpu.used_bytes -= part->bytes;
        wgpu.across -= part->bytes > page_most();
        for (uint64_t done = 0; done < part->bytes; done += page_most()) /* without memory for the list the part is lost */
            give(part->at + done, part->bytes - done < page_most() ? part->bytes - done : page_most());
        free(part);
    }
    pthread_mutex_unlock(&wgpu.lock);
    return part || over ? 0 : WGPU_REFUSED;
}
