/* Processes of one host that share memory.
 *
 * They map one file: a header, and for each rank a line of counters and a slot of CHUNK bytes. A tensor is sent in chunks. For each
 * chunk a process writes its slot and counts it as posted. When all of its group have posted theirs, it reads all slots
 * in the order of the group. So the bits of a sum are the same whichever process came first. Then it counts the chunk as read. A slot is
 * written again when all of the group have read it. All processes run the same collectives, so the numbers of their chunks agree.
 */
#include "communicator.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "half.h"
#include "lib_keys.h"
#include "run.h"
#include "system.h"

enum { CHUNK = 1 << 18, SPINS = 2000, YIELDS = 200, MOST_RANKS = 1024, LINE = 128, WHY = 512 };

typedef struct {
    _Atomic uint64_t posted, read, stamp; /* stamp: what was posted */
    char rest[LINE - 3 * sizeof(uint64_t)];
} line;

typedef struct {
    _Atomic int32_t failed; /* 1 + the rank whose program has failed */
    char rest[LINE - sizeof(int32_t)];
} header;

typedef struct {
    burn_communicator base;
    header *head;
    line *lines;
    char *slots;
    int64_t bytes;
    uint64_t chunk;                 /* the last one of this process */
    uint64_t number;                /* of its last collective */
    int64_t readers[MOST_RANKS], reader_count; /* of that chunk */
    _Atomic int32_t aborted;
    char why[WHY];
} shared;

/* ---- errors, and which there are --------------------------------------------------------------------------------------- */

static char error[WHY];
static burn_lock error_lock = BURN_LOCK_NEW;

const char *burn_communicator_error(void) { return error; }

int32_t burn_communicator_refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    burn_lock_take(&error_lock);
    vsnprintf(error, sizeof error, format, arguments);
    burn_lock_give(&error_lock);
    va_end(arguments);
    return BURN_COLLECTIVE_FAILED;
}

enum { MOST_DEVICES = 64 };
static struct {
    const burn_device *device;
    burn_communicator *communicator;
} known[MOST_DEVICES];

burn_communicator *burn_communicator_of(const burn_device *device) {
    for (int i = 0; i < MOST_DEVICES; i++)
        if (known[i].communicator && known[i].device == device)
            return known[i].communicator;
    return NULL;
}

static int32_t on_host(burn_run *run, int64_t kind, int64_t number, int64_t size, int64_t ranks, const int64_t *groups,
                       int64_t count, const int64_t *words) {
    burn_communicator *own = burn_communicator_of(NULL);
    const burn_collective what = {kind, number, size, ranks, groups, count, (const burn_collective_tensor *)words};
    return own ? own->run(own, run, &what) : burn_communicator_refuse("this process has no communicator for the CPU");
}

int32_t burn_communicator_set(const burn_device *device, burn_communicator *communicator) {
    burn_set_collective_host(on_host);
    int free = -1;
    for (int i = MOST_DEVICES - 1; i >= 0; i--) {
        if (!known[i].communicator)
            free = i;
        else if (known[i].device == device) {
            known[i].communicator = communicator;
            return BURN_OK;
        }
    }
    if (free < 0)
        return burn_communicator_refuse("a process has communicators for at most %d devices", MOST_DEVICES);
    known[free].device = device;
    known[free].communicator = communicator;
    return BURN_OK;
}

int64_t burn_collective_position(const burn_collective *what, int64_t rank, const int64_t **group) {
    for (int64_t i = 0; i < what->ranks; i++)
        if (what->groups[i] == rank) {
            *group = what->groups + i / what->size * what->size;
            return i % what->size;
        }
    return -1;
}

int64_t burn_collective_result(const burn_collective *what, const burn_collective_tensor *tensor) {
    return what->kind == BURN_ALL_GATHER       ? tensor->elements * what->size
           : what->kind == BURN_REDUCE_SCATTER ? tensor->elements / what->size
                                               : tensor->elements;
}

/* ---- reductions ----------------------------------------------------------------------------------------------------------- */

#define REDUCE(type, wide, load, store)                                                                                 \
    for (int64_t i = 0; i < count; i++) {                                                                               \
        wide found = load(((const type *)slots[0])[i]);                                                                 \
        for (int64_t k = 1; k < size; k++) {                                                                            \
            wide other = load(((const type *)slots[k])[i]);                                                             \
            switch (reduction) {                                                                                        \
            case BURN_SUM:                                                                                              \
                found = (wide)(found + other);                                                                          \
                break;                                                                                                  \
            case BURN_PROD:                                                                                             \
                found = (wide)(found * other);                                                                          \
                break;                                                                                                  \
            case BURN_MAX: /* NaN stays, as in burn.max */                                                              \
                found = found != found || found >= other ? found : other;                                               \
                break;                                                                                                  \
            default:                                                                                                    \
                found = found != found || found <= other ? found : other;                                               \
            }                                                                                                           \
        }                                                                                                               \
        ((type *)to)[i] = store(found);                                                                                 \
    }                                                                                                                   \
    break

#define SAME(x) (x)

static float from_bf16(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t bits_of(float half) { /* half.c returns the bits in the low part of a float */
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static float from_f16(uint16_t bits) {
    uint32_t word = bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return burn_extendhfsf2(value);
}

static uint16_t to_f16(float value) { return bits_of(burn_truncsfhf2(value)); }
static uint16_t to_bf16(float value) { return bits_of(burn_truncsfbf2(value)); }

/* Integers are unsigned words here, so that results wrap. */
static int reduce(int64_t dtype, int64_t reduction, int64_t size, const void *const *slots, int64_t count, void *to) {
    int ordered = reduction == BURN_MAX || reduction == BURN_MIN;
    switch (dtype) {
    case BURN_F64:
        REDUCE(double, double, SAME, SAME);
    case BURN_F32:
        REDUCE(float, float, SAME, SAME);
    case BURN_F16:
        REDUCE(uint16_t, float, from_f16, to_f16);
    case BURN_BF16:
        REDUCE(uint16_t, float, from_bf16, to_bf16);
    case BURN_I8:
        if (ordered) {
            REDUCE(int8_t, int8_t, SAME, SAME);
        }
        /* fall through */
    case BURN_U8:
        REDUCE(uint8_t, uint8_t, SAME, SAME);
    case BURN_I16:
        if (ordered) {
            REDUCE(int16_t, int16_t, SAME, SAME);
        }
        /* fall through */
    case BURN_U16:
        REDUCE(uint16_t, uint32_t, SAME, (uint16_t));
    case BURN_I32:
        if (ordered) {
            REDUCE(int32_t, int32_t, SAME, SAME);
        }
        /* fall through */
    case BURN_U32:
        REDUCE(uint32_t, uint32_t, SAME, SAME);
    case BURN_I64:
        if (ordered) {
            REDUCE(int64_t, int64_t, SAME, SAME);
        }
        /* fall through */
    case BURN_U64:
        REDUCE(uint64_t, uint64_t, SAME, SAME);
    default:
        return 0;
    }
    return 1;
}

/* ---- one chunk -------------------------------------------------------------------------------------------------------------- */

/* Waits until a counter has reached a number. A burn_status. */
static int32_t reach(shared *own, burn_run *run, _Atomic uint64_t *counter, uint64_t number) {
    for (int64_t tries = 0; atomic_load_explicit(counter, memory_order_acquire) < number; tries++) {
        if (tries < SPINS)
            continue;
        if (atomic_load(&own->aborted))
            return burn_communicator_refuse("%s", own->why);
        int32_t failed = atomic_load(&own->head->failed);
        if (failed)
            return burn_communicator_refuse("the program of rank %d has failed", (int)failed - 1);
        if (run) {
            burn_run_poll(run, 1);
            if (burn_run_failed(run))
                return burn_rt_status(run);
        }
        if (tries < SPINS + YIELDS)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, 50000}, NULL);
    }
    return BURN_OK;
}

/* Begins a chunk: the slot may be written. */
static int32_t begin(shared *own, burn_run *run) {
    for (int64_t i = 0; i < own->reader_count; i++) {
        int32_t status = reach(own, run, &own->lines[own->readers[i]].read, own->chunk);
        if (status != BURN_OK)
            return status;
    }
    own->chunk++;
    return BURN_OK;
}

/* The slot is written: waits for those of the group, and checks that they are of the same collective. */
static int32_t exchange(shared *own, burn_run *run, const int64_t *group, int64_t size, uint64_t stamp, const void **slots) {
    line *mine = &own->lines[own->base.rank];
    atomic_store_explicit(&mine->stamp, stamp, memory_order_relaxed);
    atomic_store_explicit(&mine->posted, own->chunk, memory_order_release);
    own->reader_count = size;
    memcpy(own->readers, group, (size_t)size * sizeof *group);
    for (int64_t k = 0; k < size; k++) {
        line *other = &own->lines[group[k]];
        int32_t status = reach(own, run, &other->posted, own->chunk);
        if (status != BURN_OK)
            return status;
        if (atomic_load_explicit(&other->stamp, memory_order_relaxed) != stamp)
            return burn_communicator_refuse("rank %d and rank %d run different collectives", own->base.rank, (int)group[k]);
        slots[k] = own->slots + group[k] * CHUNK;
    }
    return BURN_OK;
}

static void end(shared *own) {
    atomic_store_explicit(&own->lines[own->base.rank].read, own->chunk, memory_order_release);
}

/* ---- a tensor ----------------------------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t stamp, const int64_t *words, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        stamp = (stamp ^ (uint64_t)words[i]) * 1099511628211u;
    return stamp;
}

/* A hash of a collective's number, kind and groups, and of one of its tensors. Processes that disagree have different ones. */
static uint64_t stamp_of(const shared *own, const burn_collective *what, int64_t position) {
    const burn_collective_tensor *tensor = &what->tensors[position];
    const int64_t words[] = {(int64_t)own->number, what->kind,       what->number,  what->size, what->count,
                             position,             tensor->elements, tensor->dtype, what->ranks};
    uint64_t stamp = mixed(14695981039346656037u, words, sizeof words / sizeof *words);
    return mixed(stamp, what->groups, what->ranks);
}

/* Elements of a result in one chunk: a slot has a piece for each process of a reduce-scatter. */
static int64_t room(const burn_collective *what, int64_t element_bytes) {
    int64_t pieces = what->kind == BURN_REDUCE_SCATTER ? what->size : 1;
    return CHUNK / element_bytes / pieces;
}

static int32_t send(shared *own, burn_run *run, const burn_collective *what, int64_t number) {
    const burn_collective_tensor *tensor = &what->tensors[number];
    const int64_t *group = NULL;
    int64_t position = burn_collective_position(what, own->base.rank, &group), bytes = burn_lib_element_bytes(tensor->dtype);
    const void *slots[MOST_RANKS];
    if (position < 0 || what->ranks != own->base.ranks)
        return burn_communicator_refuse("a collective is for %d processes, and there are %d", (int)what->ranks, own->base.ranks);
    int64_t each = what->kind == BURN_REDUCE_SCATTER ? tensor->elements / what->size : tensor->elements, step = room(what, bytes);
    if (step < 1)
        return burn_communicator_refuse("a group of %d processes is too large", (int)what->size);
    const char *from = (const char *)(uintptr_t)tensor->from;
    char *to = (char *)(uintptr_t)tensor->to, *slot = own->slots + own->base.rank * (int64_t)CHUNK;
    uint64_t stamp = stamp_of(own, what, number);
    for (int64_t start = 0; start < each; start += step) {
        int64_t count = each - start < step ? each - start : step;
        int32_t status = begin(own, run);
        if (status != BURN_OK)
            return status;
        if (what->kind == BURN_REDUCE_SCATTER)
            for (int64_t k = 0; k < what->size; k++)
                memcpy(slot + k * step * bytes, from + (k * each + start) * bytes, (size_t)(count * bytes));
        else if (what->kind != BURN_BROADCAST || position == what->number)
            memcpy(slot, from + start * bytes, (size_t)(count * bytes));
        status = exchange(own, run, group, what->size, stamp, slots);
        if (status != BURN_OK)
            return status;
        int fits = 1;
        switch (what->kind) {
        case BURN_ALL_REDUCE:
            fits = reduce(tensor->dtype, what->number, what->size, slots, count, to + start * bytes);
            break;
        case BURN_ALL_GATHER:
            for (int64_t k = 0; k < what->size; k++)
                memcpy(to + (k * each + start) * bytes, slots[k], (size_t)(count * bytes));
            break;
        case BURN_REDUCE_SCATTER:
            for (int64_t k = 0; k < what->size; k++)
                slots[k] = (const char *)slots[k] + position * step * bytes;
            fits = reduce(tensor->dtype, what->number, what->size, slots, count, to + start * bytes);
            break;
        default:
            memcpy(to + start * bytes, slots[what->number], (size_t)(count * bytes));
        }
        end(own);
        if (!fits)
            return burn_communicator_refuse("there is no reduction of elements of the type %d", (int)tensor->dtype);
    }
    return BURN_OK;
}

static int32_t run_shared(burn_communicator *base, burn_run *run, const burn_collective *what) {
    shared *own = (shared *)base;
    own->number++;
    for (int64_t i = 0; i < what->count; i++) {
        int32_t status = send(own, run, what, i);
        if (status != BURN_OK)
            return status;
    }
    return BURN_OK;
}

/* ---- opening and closing --------------------------------------------------------------------------------------------------------- */

static void abort_shared(burn_communicator *base, const char *why) {
    shared *own = (shared *)base;
    if (atomic_load(&own->aborted))
        return;
    snprintf(own->why, sizeof own->why, "%s", why);
    atomic_store(&own->aborted, 1);
}

static void close_shared(burn_communicator *base) {
    shared *own = (shared *)base;
    munmap(own->head, (size_t)own->bytes);
    free(own);
}

int64_t burn_shared_bytes(int32_t ranks) {
    return (int64_t)sizeof(header) + (int64_t)ranks * ((int64_t)sizeof(line) + CHUNK);
}

burn_communicator *burn_shared_open(const char *file, int32_t rank, int32_t ranks) {
    if (ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks) {
        burn_communicator_refuse("rank %d of %d: at most %d processes share memory", (int)rank, (int)ranks, MOST_RANKS);
        return NULL;
    }
    int handle = open(file, O_RDWR | O_CLOEXEC);
    int64_t bytes = burn_shared_bytes(ranks);
    void *memory = handle < 0 ? MAP_FAILED : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    if (memory == MAP_FAILED)
        burn_communicator_refuse("%s cannot be mapped: %s", file, strerror(errno));
    if (handle >= 0)
        close(handle);
    if (memory == MAP_FAILED)
        return NULL;
    shared *own = calloc(1, sizeof *own);
    if (!own) {
        munmap(memory, (size_t)bytes);
        burn_communicator_refuse("this process has no memory left");
        return NULL;
    }
    own->base = (burn_communicator){"shared", rank, ranks, run_shared, NULL, abort_shared, close_shared};
    own->head = memory;
    own->lines = (line *)(own->head + 1);
    own->slots = (char *)(own->lines + ranks);
    own->bytes = bytes;
    return &own->base;
}

void burn_shared_fail(burn_communicator *base) {
    int32_t none = 0;
    atomic_compare_exchange_strong(&((shared *)base)->head->failed, &none, base->rank + 1);
}

void burn_shared_reset(burn_communicator *base) {
    shared *own = (shared *)base;
    own->chunk = own->number = 0;
    own->reader_count = 0;
    atomic_store(&own->lines[base->rank].posted, 0);
    atomic_store(&own->lines[base->rank].read, 0);
    atomic_store(&own->head->failed, 0);
}
