/* Blocks of 64-byte aligned memory for arenas, outputs and scratch.
 *
 * A block has a 64-byte header in front of it. Large blocks are mapped, with huge pages asked for: a network's arena is
 * walked end to end every inference and 4 KiB pages would cost it in TLB misses. Only blocks that are many huge pages long
 * end at one: a parameter of 1 MiB would take twice its memory.
 *
 * The operating system zeroes fresh pages, which for an output costs more than computing it, and malloc returns free memory at
 * its end. So freed blocks of several pages are kept for the next blocks of about the same size, the last freed first. A
 * decoder has twice as many outputs as layers, in every step.
 */
#include <stdint.h>
#include <stdlib.h> /* which says whether it is glibc's */
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "guarded.h"
#include "runtime.h"
#include "system.h"

enum { KEPT_BLOCKS = BURN_HAS_PAGES ? 256 : 1, MANY = 16 };
static const int64_t LARGE = 1 << 20, SOME_PAGES = 16 << 10, PAGE = 4 << 10, HUGE_PAGE = 2 << 20, KEPT_BYTES = 256 << 20, LIMIT = (int64_t)1 << 46;

typedef struct header {
    int64_t capacity; /* bytes of the whole block, header included */
    int64_t mapped;
    int64_t shift; /* bytes of mapped pages before the header */
    char padding[BURN_ALIGNMENT - 3 * sizeof(int64_t)];
} header;

/* Held over a fork, so that the child finds it free. */
static burn_lock lock = BURN_LOCK_NEW;
static burn_once once = BURN_ONCE_NEW;

static void acquire(void) { burn_lock_take(&lock); }
static void release(void) { burn_lock_give(&lock); }
static void guard(void) { burn_at_fork(acquire, release, release); }

static header *kept[KEPT_BLOCKS]; /* those freed first come first */
static int32_t kept_count;
static int64_t kept_bytes;

static header *removed(int32_t index) {
    header *block = kept[index];
    memmove(kept + index, kept + index + 1, (size_t)(kept_count - index - 1) * sizeof *kept);
    kept_count--;
    kept_bytes -= block->capacity;
    return block;
}

/* The smallest kept block that fits without wasting more than half of it. */
static header *take_kept(int64_t capacity) {
    int32_t best = -1;
    burn_once_call(&once, guard);
    acquire();
    for (int32_t i = 0; i < kept_count; i++)
        if (kept[i]->capacity >= capacity && kept[i]->capacity / 2 <= capacity &&
            (best < 0 || kept[i]->capacity <= kept[best]->capacity))
            best = i;
    header *block = best < 0 ? NULL : removed(best);
    release();
    return block;
}

static void give_back(header *block) {
    if (block->mapped)
        burn_pages_free((char *)block - block->shift, block->capacity + block->shift);
    else
        burn_aligned_free(block);
}

/* Keeps a block, in place of those that were freed first where there are too many. */
static void keep(header *block) {
    header *old[KEPT_BLOCKS];
    int32_t count = 0;
    acquire();
    while (kept_count == KEPT_BLOCKS || (kept_count > 0 && kept_bytes + block->capacity > KEPT_BYTES))
        old[count++] = removed(0);
    kept[kept_count++] = block;
    kept_bytes += block->capacity;
    release();
    while (count > 0)
        give_back(old[--count]);
}

static int is_kept(int64_t capacity) { return BURN_HAS_PAGES && capacity >= SOME_PAGES && capacity <= KEPT_BYTES; }

static int32_t poison = -1;

void burn_memory_poison(int32_t byte) { poison = byte; }

int32_t burn_memory_poisoned(void) { return poison; }

void burn_memory_spoil(void *memory, int64_t bytes) {
    if (poison >= 0 && memory && bytes > 0)
        memset(memory, poison, (size_t)bytes);
}

/* Mapped blocks begin at different offsets of a page: see BURN_SPREAD. */
static int64_t next_shift(void) {
    static _Atomic uint32_t count;
    return (int64_t)(count++ % (uint32_t)(PAGE / BURN_SPREAD)) * BURN_SPREAD;
}

static void *new_block(int64_t bytes) {
    if (bytes < 0 || bytes > LIMIT || (uint64_t)bytes > SIZE_MAX - 2 * (uint64_t)HUGE_PAGE)
        return NULL;
    int64_t capacity = bytes + (int64_t)sizeof(header);
    const int large = bytes >= LARGE && BURN_HAS_PAGES;
    const int64_t unit = !large ? BURN_ALIGNMENT : capacity < MANY * HUGE_PAGE ? PAGE : HUGE_PAGE;
    capacity = (capacity + unit - 1) / unit * unit;
    header *block = is_kept(capacity) ? take_kept(capacity) : NULL;
    if (block)
        return block + 1;
    const int64_t shift = large ? next_shift() : 0;
    char *made = large ? burn_pages_new(capacity + PAGE) : burn_aligned_new(capacity);
    if (!made)
        return NULL;
    block = (header *)(made + shift);
    block->mapped = large;
    block->shift = shift;
    block->capacity = large ? capacity + PAGE - shift : capacity;
    return block + 1;
}

void *burn_memory_new(int64_t bytes) {
    void *memory = burn_guards_are_on() ? burn_guarded_new(bytes) : new_block(bytes);
    burn_memory_spoil(memory, bytes);
    return memory;
}

void burn_memory_free(void *memory) {
    if (!memory)
        return;
    if (burn_guards_are_on()) {
        burn_guarded_free(memory);
        return;
    }
    header *block = (header *)memory - 1;
    if (is_kept(block->capacity))
        keep(block);
    else
        give_back(block);
}

void burn_memory_trim(void) {
    header *freed[KEPT_BLOCKS];
    acquire();
    const int32_t count = kept_count;
    memcpy(freed, kept, (size_t)count * sizeof *kept);
    kept_count = 0;
    kept_bytes = 0;
    release();
    for (int32_t i = 0; i < count; i++)
        give_back(freed[i]);
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
