/* A device's memory, handed out again when it is freed.
 *
 * The driver takes its time to give memory, and stops the device to take some back. So blocks come in sizes that recur, and one
 * that is freed is kept for the next of about its size. Nothing is cut in two: what is kept can always go back to the driver,
 * which happens when it has no more to give.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_inner.h"

enum { STEPS = 8, FIRST_BUCKETS = 256 };
static const int64_t LARGEST_STEP = 2 << 20, LIMIT = (int64_t)1 << 46;

int32_t burn_store_init(burn_store *store) {
    store->buckets = calloc(FIRST_BUCKETS, sizeof *store->buckets);
    store->bucket_count = FIRST_BUCKETS;
    return store->buckets && !pthread_mutex_init(&store->lock, NULL) ? BURN_OK : BURN_OUT_OF_MEMORY;
}

/* Eight sizes between a power of two and the next, so that less than 1/8 is lost. */
static int64_t round_up(int64_t bytes) {
    int64_t power = BURN_DEVICE_ALIGNMENT * STEPS;
    while (power < bytes / 2 && power < LARGEST_STEP * STEPS)
        power *= 2;
    int64_t step = power / STEPS;
    return bytes > step ? (bytes + step - 1) / step * step : step;
}

/* ---- blocks that are handed out, by address ---------------------------------------------------------------------- */

static burn_block **bucket_of(const burn_store *store, uint64_t address) {
    uint64_t hash = address / BURN_DEVICE_ALIGNMENT * 0x9e3779b97f4a7c15u;
    return &store->buckets[(hash >> 32) & (uint64_t)(store->bucket_count - 1)];
}

static void add_used(burn_store *store, burn_block *block) {
    if (store->block_count == store->bucket_count) {
        burn_block **old = store->buckets, **more = calloc((size_t)store->bucket_count * 2, sizeof *more);
        int64_t count = store->bucket_count;
        if (more) { /* without them it goes on, slower */
            store->buckets = more;
            store->bucket_count *= 2;
            for (int64_t i = 0; i < count; i++)
                for (burn_block *next, *each = old[i]; each; each = next) {
                    next = each->next;
                    burn_block **bucket = bucket_of(store, each->address);
                    each->next = *bucket;
                    *bucket = each;
                }
            free(old);
        }
    }
    burn_block **bucket = bucket_of(store, block->address);
    block->next = *bucket;
    *bucket = block;
    store->block_count++;
    store->used_bytes += block->bytes;
}

static burn_block *take_used(burn_store *store, uint64_t address) {
    burn_block **at = bucket_of(store, address);
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    burn_block *block = *at;
    if (block) {
        *at = block->next;
        store->block_count--;
        store->used_bytes -= block->bytes;
    }
    return block;
}

/* ---- blocks that are kept ---------------------------------------------------------------------------------------- */

/* The first kept block of that many bytes or more; of those of equal size, from that address on. Equal blocks are handed out by
 * address, in whatever order they were freed. The calls of a loop then soon have the addresses of an earlier call, and find its
 * recording (run_recorded.c). */
static int64_t first_of(const burn_store *store, int64_t bytes, uint64_t address) {
    int64_t low = 0, high = store->kept_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        const burn_block *block = store->kept[middle];
        if (block->bytes < bytes || (block->bytes == bytes && block->address < address))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int keep(burn_store *store, burn_block *block) {
    if (store->kept_count == store->kept_room) {
        int64_t room = store->kept_room * 2 + 64;
        burn_block **more = realloc(store->kept, (size_t)room * sizeof *more);
        if (!more)
            return 0;
        store->kept = more;
        store->kept_room = room;
    }
    int64_t at = first_of(store, block->bytes, block->address);
    memmove(&store->kept[at + 1], &store->kept[at], (size_t)(store->kept_count - at) * sizeof *store->kept);
    store->kept[at] = block;
    store->kept_count++;
    store->kept_bytes += block->bytes;
    return 1;
}

/* One of at least `bytes` bytes, and at most `most`. */
static burn_block *take_kept(burn_store *store, int64_t bytes, int64_t most) {
    int64_t at = first_of(store, bytes, 0);
    if (at == store->kept_count || store->kept[at]->bytes > most)
        return NULL;
    burn_block *block = store->kept[at];
    store->kept_count--;
    memmove(&store->kept[at], &store->kept[at + 1], (size_t)(store->kept_count - at) * sizeof *store->kept);
    store->kept_bytes -= block->bytes;
    return block;
}

/* True if a lost device had the block. Such blocks are not handed out again. */
static int is_gone(const burn_device *device, const burn_block *block) {
    return device->driver->is_gone && device->driver->is_gone(block->address);
}

/* The driver waits for what the device still does with a block before it takes it back. */
static void give_back(burn_device *device) {
    burn_store *store = &device->store;
    while (store->kept_count) {
        burn_block *block = store->kept[--store->kept_count];
        store->kept_bytes -= block->bytes;
        device->driver->release(block->address);
        free(block);
    }
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* `asked`: what the caller wanted, for the error's text. */
static burn_block *new_block(burn_device *device, int64_t bytes, int64_t asked) {
    burn_block *block = malloc(sizeof *block);
    int entered = block ? burn_device_enter(device) : -1;
    if (!block)
        burn_device_refuse(device, BURN_OUT_OF_MEMORY, "out of memory: this process has none left");
    if (entered < 0) {
        free(block);
        return NULL;
    }
    block->bytes = bytes;
    int code = device->driver->alloc(&block->address, (size_t)bytes);
    if (code == BURN_DRIVER_OUT_OF_MEMORY && device->store.kept_count) {
        give_back(device);
        code = device->driver->alloc(&block->address, (size_t)bytes);
    }
    if (code == BURN_DRIVER_OUT_OF_MEMORY) {
        size_t left = 0, total = 0;
        device->driver->free(&left, &total);
        burn_device_refuse(device, BURN_OUT_OF_MEMORY,
                           "out of memory: %lld bytes were asked for, %lld of %lld are free; burn uses %lld",
                           (long long)asked, (long long)left, (long long)total, (long long)device->store.used_bytes);
    } else if (code)
        burn_device_failed(device, "allocating memory", code);
    burn_device_leave(device, entered);
    if (code) {
        free(block);
        return NULL;
    }
    return block;
}

void *burn_device_alloc(burn_device *device, int64_t bytes) {
    if (burn_driver_forked()) {
        burn_device_refuse(device, BURN_DEVICE_FAILED, "%s", burn_driver_forked_text);
        return NULL;
    }
    if (bytes < 0 || bytes > LIMIT) {
        burn_device_refuse(device, BURN_OUT_OF_MEMORY, "out of memory: %lld bytes were asked for", (long long)bytes);
        return NULL;
    }
    burn_store *store = &device->store;
    int64_t usual = round_up(bytes), most = bytes + bytes / STEPS;
    pthread_mutex_lock(&store->lock);
    if (store->kept_count && is_gone(device, store->kept[0]))
        give_back(device);
    burn_block *block = take_kept(store, usual, most > usual ? most : usual);
    if (!block)
        block = new_block(device, usual, bytes);
    if (block)
        add_used(store, block);
    pthread_mutex_unlock(&store->lock);
    return block ? (void *)(uintptr_t)block->address : NULL;
}

void burn_device_free(burn_device *device, void *memory) {
    if (!memory || burn_driver_forked())
        return;
    burn_store *store = &device->store;
    pthread_mutex_lock(&store->lock);
    burn_block *block = take_used(store, (uint64_t)(uintptr_t)memory);
    if (!block) {
        fprintf(stderr, "burn: %s: %p is freed, but was not allocated or was freed before\n", device->label, memory);
        abort();
    }
    if (is_gone(device, block) || !keep(store, block)) {
        int entered = burn_device_enter(device);
        device->driver->release(block->address);
        burn_device_leave(device, entered);
        free(block);
    }
    pthread_mutex_unlock(&store->lock);
}

void burn_device_trim(burn_device *device) {
    if (burn_driver_forked())
        return;
    pthread_mutex_lock(&device->store.lock);
    int entered = burn_device_enter(device);
    if (entered >= 0)
        give_back(device);
    burn_device_leave(device, entered);
    pthread_mutex_unlock(&device->store.lock);
}
