/* Blocks of 64-byte aligned memory for arenas, outputs and scratch.
 *
 * A block has a 64-byte header in front of it. Large blocks are mapped, with huge pages asked for: a network's arena is
 * walked end to end every inference and 4 KiB pages would cost it in TLB misses. Only blocks that are many huge pages long
 * end at one: a parameter of 1 MiB would take twice its memory. The kernel zeroes fresh pages, which
 * for a large output costs more than computing it, so a few freed mappings are kept for the next block of about the
 * same size.
 */
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime.h"

enum { KEPT_BLOCKS = 8, MANY = 16 };
static const int64_t LARGE = 1 << 20, PAGE = 4 << 10, HUGE_PAGE = 2 << 20, KEPT_BYTES = 256 << 20, LIMIT = (int64_t)1 << 46;

typedef struct header {
    int64_t capacity; /* bytes of the whole block, header included */
    int64_t mapped;
    char padding[BURN_ALIGNMENT - 2 * sizeof(int64_t)];
} header;

/* Held over a fork, so that the child finds it free. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void acquire(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }
static void guard(void) { pthread_atfork(acquire, release, release); }

static header *kept[KEPT_BLOCKS];
static int64_t kept_bytes;

/* The smallest kept block that fits without wasting more than half of it. */
static header *take_kept(int64_t capacity) {
    int best = -1;
    pthread_once(&once, guard);
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
    if (bytes < LARGE) {
        capacity = (capacity + BURN_ALIGNMENT - 1) / BURN_ALIGNMENT * BURN_ALIGNMENT;
        block = aligned_alloc(BURN_ALIGNMENT, (size_t)capacity);
        if (!block)
            return NULL;
        block->mapped = 0;
    } else {
        const int64_t page = capacity < MANY * HUGE_PAGE ? PAGE : HUGE_PAGE;
        capacity = (capacity + page - 1) / page * page;
        block = take_kept(capacity);
        if (block)
            return block + 1;
        block = mmap(NULL, (size_t)capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            return NULL;
#ifdef MADV_HUGEPAGE
        madvise(block, (size_t)capacity, MADV_HUGEPAGE); /* advice: a kernel without huge pages refuses it harmlessly */
#endif
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
        free(block);
    else if (!keep(block))
        munmap(block, (size_t)block->capacity);
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
            munmap(freed[i], (size_t)freed[i]->capacity);
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
