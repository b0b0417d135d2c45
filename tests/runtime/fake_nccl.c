/* A stand-in for libnccl.so.2, for tests on machines without a GPU: the functions that communicator_nccl.c uses, between processes whose
 * GPUs are those of simulated_driver.c.
 *
 * A group's processes share a file, whose name is the id. Collectives are work of a stream, so a recording has them. BURN_FAKE_NCCL_VERSION
 * is the version. BURN_FAKE_NCCL_LOG is a file in which each group of calls gets a line: how many calls it has. A call with a
 * communicator that was aborted or destroyed writes "ended" there.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { SLOT = 1 << 20, RANKS = 8, CALLS = 256, FAILED = 2, ABORTED = 6 };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, F16, F32, F64, BF16 };

typedef struct {
    char bytes[128];
} unique_id;

typedef struct {
    _Atomic int64_t arrived[RANKS];
    _Atomic int aborted;
    char slots[RANKS][SLOT];
} shared;

typedef struct {
    shared *memory;
    int ranks, rank;
    int64_t barriers;
    _Atomic int ended; /* such a one is kept */
} comm;

typedef struct {
    enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST } kind;
    const char *from;
    char *to;
    size_t count;
    int type, number;
    comm *among;
    void *stream;
} call;

static const size_t BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static int barrier(comm *own) {
    own->barriers++;
    atomic_store(&own->memory->arrived[own->rank], own->barriers);
    for (int rank = 0; rank < own->ranks; rank++)
        while (atomic_load(&own->memory->arrived[rank]) < own->barriers) {
            if (atomic_load(&own->memory->aborted))
                return ABORTED;
            nanosleep(&(struct timespec){0, 20000}, NULL);
        }
    return 0;
}

#define SUM(type)                                                                                                      \
    for (size_t i = 0; i < count; i++) {                                                                               \
        type sum = ((const type *)slots[0])[first + i];                                                                \
        for (int rank = 1; rank < ranks; rank++) {                                                                     \
            type other = ((const type *)slots[rank])[first + i];                                                       \
            sum = number == 0 ? sum + other : number == 1 ? sum * other : (number == 2) == (other > sum) ? other : sum; \
        }                                                                                                              \
        ((type *)to)[i] = sum;                                                                                         \
    }                                                                                                                  \
    break

static void reduce(int type, int number, int ranks, char (*slots)[SLOT], size_t first, size_t count, char *to) {
    switch (type) {
    case F32:
        SUM(float);
    case F64:
        SUM(double);
    case INT32:
        SUM(int32_t);
    case INT64:
        SUM(int64_t);
    default:
        abort();
    }
}

static void perform(void *argument) {
    call *it = argument;
    comm *own = it->among;
    size_t each = BYTES[it->type], sent = it->count * (it->kind == REDUCE_SCATTER ? (size_t)own->ranks : 1);
    if (sent * each > SLOT)
        abort();
    if (barrier(own))
        return;
    memcpy(own->memory->slots[own->rank], it->from, sent * each);
    if (barrier(own))
        return;
    switch (it->kind) {
    case ALL_REDUCE:
        reduce(it->type, it->number, own->ranks, own->memory->slots, 0, it->count, it->to);
        break;
    case REDUCE_SCATTER:
        reduce(it->type, it->number, own->ranks, own->memory->slots, (size_t)own->rank * it->count, it->count, it->to);
        break;
    case ALL_GATHER:
        for (int rank = 0; rank < own->ranks; rank++)
            memcpy(it->to + (size_t)rank * it->count * each, own->memory->slots[rank], it->count * each);
        break;
    default:
        memcpy(it->to, own->memory->slots[it->number], it->count * each);
    }
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

static call calls[CALLS];
static int count, depth;
static _Atomic int broken, slow, waiting;

/* Communicators have this error from now on. */
API void burn_fake_nccl_break(int code) { atomic_store(&broken, code); }
/* A group of calls, and the end of a communicator, take that long, in milliseconds. */
API void burn_fake_nccl_slow(int milliseconds) { atomic_store(&slow, milliseconds); }
/* 1 while one is under way. */
API int burn_fake_nccl_waiting(void) { return atomic_load(&waiting); }

static void take_time(void) {
    int milliseconds = atomic_load(&slow);
    if (!milliseconds)
        return;
    atomic_store(&waiting, 1);
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
    atomic_store(&waiting, 0);
}

static void log_line(const char *text) {
    const char *log = getenv("BURN_FAKE_NCCL_LOG");
    FILE *file = log ? fopen(log, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%s\n", text);
    fclose(file);
}

API int ncclGetVersion(int *version) {
    const char *text = getenv("BURN_FAKE_NCCL_VERSION");
    *version = text ? atoi(text) : 22703;
    return 0;
}

API const char *ncclGetErrorString(int code) {
    return code == FAILED ? "unhandled system error" : code == ABORTED ? "remote process exited" : "no error";
}

API int ncclGetUniqueId(unique_id *id) {
    strcpy(id->bytes, "/tmp/burn-nccl-XXXXXX");
    int handle = mkstemp(id->bytes);
    int failed = handle < 0 || ftruncate(handle, sizeof(shared));
    close(handle);
    return failed ? FAILED : 0;
}

API int ncclCommInitRank(void **made, int ranks, unique_id id, int rank) {
    comm *own = calloc(1, sizeof *own);
    int handle = open(id.bytes, O_RDWR);
    if (handle < 0 || ranks > RANKS)
        return FAILED;
    own->memory = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    close(handle);
    own->ranks = ranks;
    own->rank = rank;
    *made = own;
    int code = barrier(own);
    if (rank == 0)
        unlink(id.bytes);
    return code;
}

API int ncclCommDestroy(void *handle) {
    atomic_store(&((comm *)handle)->ended, 1);
    take_time();
    return 0;
}

API int ncclCommAbort(void *handle) {
    if (atomic_load(&((comm *)handle)->ended))
        log_line("ended");
    atomic_store(&((comm *)handle)->memory->aborted, 1);
    atomic_store(&((comm *)handle)->ended, 1);
    return 0;
}

API int ncclCommGetAsyncError(void *handle, int *code) {
    *code = atomic_load(&((comm *)handle)->memory->aborted) ? ABORTED : atomic_load(&broken);
    return 0;
}

API int ncclGroupStart(void) {
    take_time();
    depth++;
    return 0;
}

API int ncclGroupEnd(void) {
    static int (*submit)(void *, void (*)(void *), void *);
    if (--depth)
        return 0;
    if (!submit) {
        void *driver = dlopen(getenv("BURN_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
        *(void **)&submit = driver ? dlsym(driver, "burn_simulated_call") : NULL;
    }
    if (!submit)
        return FAILED;
    char text[16];
    snprintf(text, sizeof text, "%d", count);
    int ended = 0;
    for (int i = 0; i < count; i++)
        ended |= atomic_load(&calls[i].among->ended);
    log_line(ended ? "ended" : text);
    for (int i = 0; i < count; i++) {
        call *own = malloc(sizeof *own); /* a recording does it again */
        *own = calls[i];
        if (submit(own->stream, perform, own))
            return FAILED;
    }
    count = 0;
    return 0;
}

static int add(call made) {
    if (count == CALLS)
        return FAILED;
    calls[count++] = made;
    return depth ? 0 : (depth++, ncclGroupEnd());
}

API int ncclAllReduce(const void *from, void *to, size_t n, int type, int number, void *among, void *stream) {
    return add((call){ALL_REDUCE, from, to, n, type, number, among, stream});
}

API int ncclAllGather(const void *from, void *to, size_t n, int type, void *among, void *stream) {
    return add((call){ALL_GATHER, from, to, n, type, 0, among, stream});
}

API int ncclReduceScatter(const void *from, void *to, size_t n, int type, int number, void *among, void *stream) {
    return add((call){REDUCE_SCATTER, from, to, n, type, number, among, stream});
}

API int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, void *among, void *stream) {
    return add((call){BROADCAST, from, to, n, type, root, among, stream});
}
