/* Blocks of 64-byte aligned memory for arenas, outputs and scratch.
 *
 * A block has a 64-byte header in front of it. Large blocks are mapped, with huge pages asked for: a network's arena is
 * walked end to end every inference and 4 KiB pages would cost it in TLB misses. Only blocks that are many huge pages long
 * end at one: a parameter of 1 MiB would take twice its memory. The kernel zeroes fresh pages, which
 * for a large output costs more than computing it, so a few freed mappings are kept for the next block of about the
 * same size.
 */
#include <stdlib.h> /* which says whether it is glibc's */
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "runtime.h"
#include "system.h"

enum { KEPT_BLOCKS = 8, MANY = 16 };
static const int64_t LARGE = 1 << 20, PAGE = 4 << 10, HUGE_PAGE = 2 << 20, KEPT_BYTES = 256 << 20, LIMIT = (int64_t)1 << 46;

typedef struct header {
    int64_t capacity; /* bytes of the whole block, header included */
    int64_t mapped;
    char padding[BURN_ALIGNMENT - 2 * sizeof(int64_t)];
} header;

/* Held over a fork, so that the child finds it free. */
static burn_lock lock = BURN_LOCK_NEW;
static burn_once once = BURN_ONCE_NEW;

static void acquire(void) { burn_lock_take(&lock); }
static void release(void) { burn_lock_give(&lock); }
static void guard(void) { burn_at_fork(acquire, release, release); }

static header *kept[KEPT_BLOCKS];
static int64_t kept_bytes;

/* The smallest kept block that fits without wasting more than half of it. */
static header *take_kept(int64_t capacity) {
    int best = -1;
    burn_once_call(&once, guard);
    acquire();
    for (int i = 0; i < KEPT_BLOCKS; i++)
        if (kept[i] && kept[i]->capacity >= capacity && kept[i]->capacity / 2 <= capacity &&
            (best < 0 || kept[i]->capacity < kept[best]->capacity))
            best = i;
    header *block = best < 0 ? NULL : kept[best];
    if (block) {
        kept[best] = NULL;
        kept_bytes -= block->capacity;
    }
    release();
    return block;
}

static int keep(header *block) {
    int done = 0;
    acquire();
    for (int i = 0; i < KEPT_BLOCKS && !done && kept_bytes + block->capacity <= KEPT_BYTES; i++)
        if (!kept[i]) {
            kept[i] = block;
            kept_bytes += block->capacity;
            done = 1;
        }
    release();
    return done;
}

void *burn_memory_new(int64_t bytes) {
    if (bytes < 0 || bytes > LIMIT || (uint64_t)bytes > SIZE_MAX - 2 * (uint64_t)HUGE_PAGE)
        return NULL;
    header *block;
    int64_t capacity = bytes + (int64_t)sizeof(header);
    if (bytes < LARGE || !BURN_HAS_PAGES) {
        capacity = (capacity + BURN_ALIGNMENT - 1) / BURN_ALIGNMENT * BURN_ALIGNMENT;
        block = burn_aligned_new(capacity);
        if (!block)
            return NULL;
        block->mapped = 0;
    } else {
        const int64_t page = capacity < MANY * HUGE_PAGE ? PAGE : HUGE_PAGE;
        capacity = (capacity + page - 1) / page * page;
        block = take_kept(capacity);
        if (block)
            return block + 1;
        block = burn_pages_new(capacity);
        if (!block)
            return NULL;
        block->mapped = 1;
    }
    block->capacity = capacity;
    return block + 1;
}

void burn_memory_free(void *memory) {
    if (!memory)
        return;
    header *block = (header *)memory - 1;
    if (!block->mapped)
        burn_aligned_free(block);
    else if (!keep(block))
        burn_pages_free(block, block->capacity);
}

void burn_memory_trim(void) {
    header *freed[KEPT_BLOCKS];
    acquire();
    for (int i = 0; i < KEPT_BLOCKS; i++) {
        freed[i] = kept[i];
        kept[i] = NULL;
    }
    kept_bytes = 0;
    release();
    for (int i = 0; i < KEPT_BLOCKS; i++)
        if (freed[i])
            burn_pages_free(freed[i], freed[i]->capacity);
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
