/* GPUs through NCCL, NVIDIA's library of collectives (libnccl.so.2 of nvidia-nccl-cu12 or -cu13), which is opened at the first use.
 *
 * Collectives go to a stream of their own: it waits for the program's work so far, and the program goes on. `await` lets the program's
 * stream wait for one collective. Both work while a run is being recorded, which adds the other stream's work to the graph.
 *
 * ncclCommAbort frees a communicator. So threads that pass one to NCCL are counted, and the last of them aborts it if another thread
 * asked for that meanwhile. No lock is held while NCCL may wait for other processes, except the device's during a submission.
 */
#include "communicator.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_inner.h"
#include "lib_keys.h"

enum { OLDEST = 21800, EVENTS = 64, PENDING = 4096, IN_PROGRESS = 7 };
enum { NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64, NCCL_F16, NCCL_F32, NCCL_F64, NCCL_BF16 };

typedef struct {
    char bytes[BURN_NCCL_ID];
} nccl_id;

typedef void *nccl_comm;

static struct {
    void *library;
    int (*version)(int *version);
    int (*id)(nccl_id *id);
    int (*init)(nccl_comm *comm, int ranks, nccl_id id, int rank);
    int (*destroy)(nccl_comm comm);
    int (*abort)(nccl_comm comm);
    int (*failed)(nccl_comm comm, int *code);
    const char *(*text)(int code);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int reduction, nccl_comm comm, void *stream);
    int (*all_gather)(const void *from, void *to, size_t count, int type, nccl_comm comm, void *stream);
    int (*reduce_scatter)(const void *from, void *to, size_t count, int type, int reduction, nccl_comm comm, void *stream);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, nccl_comm comm, void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
} nccl;

static int32_t failed(const char *doing, int code) {
    return burn_communicator_refuse("NCCL: %s: %s", doing, nccl.text ? nccl.text(code) : "no text");
}

/* ---- the library ------------------------------------------------------------------------------------------------------------ */

static const char *fill(void *library) {
    const struct {
        const char *name;
        void *to;
    } rows[] = {
        {"ncclGetVersion", &nccl.version},       {"ncclGetUniqueId", &nccl.id},           {"ncclCommInitRank", &nccl.init},
        {"ncclCommDestroy", &nccl.destroy},      {"ncclCommAbort", &nccl.abort},          {"ncclCommGetAsyncError", &nccl.failed},
        {"ncclGetErrorString", &nccl.text},      {"ncclAllReduce", &nccl.all_reduce},     {"ncclAllGather", &nccl.all_gather},
        {"ncclReduceScatter", &nccl.reduce_scatter}, {"ncclBroadcast", &nccl.broadcast},  {"ncclGroupStart", &nccl.group_start},
        {"ncclGroupEnd", &nccl.group_end},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *found = dlsym(library, rows[i].name);
        if (!found)
            return rows[i].name;
        memcpy(rows[i].to, &found, sizeof found);
    }
    return NULL;
}

int32_t burn_nccl_version(const char *library) {
    int version = 0;
    if (!nccl.library) {
        void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (!opened) {
            burn_communicator_refuse("%s", dlerror());
            return -1;
        }
        const char *missing = fill(opened);
        if (missing) {
            burn_communicator_refuse("%s has no function %s", library, missing);
            dlclose(opened);
            return -1;
        }
        nccl.library = opened;
    }
    int code = nccl.version(&version);
    if (code) {
        failed("reading its version", code);
        return -1;
    }
    if (version < OLDEST) {
        burn_communicator_refuse("NCCL %d.%d.%d is too old: 2.18 or newer", version / 10000, version / 100 % 100, version % 100);
        return -1;
    }
    return version;
}

int32_t burn_nccl_id(void *id) {
    nccl_id made;
    if (!nccl.library)
        return burn_communicator_refuse("NCCL is not open");
    int code = nccl.id(&made);
    if (code)
        return failed("making an id", code);
    memcpy(id, made.bytes, sizeof made.bytes);
    return BURN_OK;
}

/* ---- communicators ------------------------------------------------------------------------------------------------------------ */

typedef struct group {
    struct group *next;
    nccl_comm comm;
    int64_t size;
    int64_t ranks[]; /* of all groups */
} group;

typedef struct {
    const void *result;
    int event;
} pending;

typedef struct {
    burn_communicator base;
    burn_device *device;
    void *stream, *begun; /* begun: an event of the program's work so far */
    void *events[EVENTS]; /* each behind a collective */
    int next;             /* this and the waits: under the device's lock */
    pending waits[PENDING];
    int wait_count;
    pthread_mutex_t lock; /* over the rest */
    group *groups;        /* new ones come first. An aborted communicator has none */
    int users;            /* threads that may pass a group's handle to NCCL */
    int aborted;
    char why[512];
} gpus;

/* Ends the groups of an aborted communicator, unless a thread uses them: the last one to leave does it then. */
static void end_aborted(gpus *own) {
    pthread_mutex_lock(&own->lock);
    group *dead = own->aborted && !own->users ? own->groups : NULL;
    if (dead)
        own->groups = NULL;
    pthread_mutex_unlock(&own->lock);
    for (group *next; dead; dead = next) {
        next = dead->next;
        nccl.abort(dead->comm);
        free(dead);
    }
}

/* Groups stay until `leave`. BURN_COLLECTIVE_FAILED: they are aborted, and there is nothing to leave. */
static int32_t use(gpus *own) {
    char why[sizeof own->why];
    pthread_mutex_lock(&own->lock);
    int aborted = own->aborted;
    if (aborted)
        memcpy(why, own->why, sizeof why);
    else
        own->users++;
    pthread_mutex_unlock(&own->lock);
    return aborted ? burn_communicator_refuse("%s", why) : BURN_OK;
}

static void leave(gpus *own) {
    pthread_mutex_lock(&own->lock);
    own->users--;
    pthread_mutex_unlock(&own->lock);
    end_aborted(own);
}

/* In use. */
static const group *find(gpus *own, const burn_collective *what) {
    pthread_mutex_lock(&own->lock);
    const group *each = own->groups;
    pthread_mutex_unlock(&own->lock);
    while (each && (each->size != what->size || memcmp(each->ranks, what->groups, (size_t)what->ranks * sizeof *what->groups) != 0))
        each = each->next;
    return each;
}

/* NCCL's type. Elements that are not reduced are sent as bytes where it has no type for them: `count` is multiplied. -1: none. */
static int type_of(int64_t dtype, int is_reduced, size_t *count) {
    static const struct {
        int64_t dtype;
        int type;
    } rows[] = {{BURN_F64, NCCL_F64}, {BURN_F32, NCCL_F32}, {BURN_F16, NCCL_F16}, {BURN_BF16, NCCL_BF16}, {BURN_I8, NCCL_INT8},
                {BURN_I32, NCCL_INT32}, {BURN_I64, NCCL_INT64}, {BURN_U8, NCCL_UINT8}, {BURN_U32, NCCL_UINT32},
                {BURN_U64, NCCL_UINT64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].dtype == dtype)
            return rows[i].type;
    if (is_reduced)
        return -1;
    *count *= (size_t)burn_lib_element_bytes(dtype);
    return NCCL_UINT8;
}

static int submit(gpus *own, const group *among, const burn_collective *what, const burn_collective_tensor *tensor) {
    const void *from = (const void *)(uintptr_t)tensor->from;
    void *to = (void *)(uintptr_t)tensor->to;
    size_t count = (size_t)(what->kind == BURN_REDUCE_SCATTER ? tensor->elements / what->size : tensor->elements);
    int reduced = what->kind == BURN_ALL_REDUCE || what->kind == BURN_REDUCE_SCATTER;
    int type = type_of(tensor->dtype, reduced, &count), number = (int)what->number;
    if (type < 0)
        return -1;
    switch (what->kind) {
    case BURN_ALL_REDUCE:
        return nccl.all_reduce(from, to, count, type, number, among->comm, own->stream);
    case BURN_ALL_GATHER:
        return nccl.all_gather(from, to, count, type, among->comm, own->stream);
    case BURN_REDUCE_SCATTER:
        return nccl.reduce_scatter(from, to, count, type, number, among->comm, own->stream);
    default:
        return nccl.broadcast(from, to, count, type, number, among->comm, own->stream);
    }
}

/* All tensors in one group of calls, which NCCL does with one kernel. */
static int submit_all(gpus *own, const group *among, const burn_collective *what) {
    int code = nccl.group_start();
    for (int64_t i = 0; i < what->count && !code; i++)
        code = submit(own, among, what, &what->tensors[i]);
    int ended = nccl.group_end();
    return code ? code : ended;
}

static int32_t run_among(gpus *own, const group *among, const burn_collective *what) {
    static const char doing[] = "a collective";
    burn_device *device = own->device;
    const burn_driver *driver = device->driver;
    int entered;
    int32_t status = burn_device_begin(device, &entered);
    if (status != BURN_OK)
        return burn_communicator_refuse("%s", burn_device_error());
    if (own->wait_count + what->count > PENDING) {
        int count = own->wait_count;
        burn_device_end(device, doing, entered, 0);
        return burn_communicator_refuse("%d results of collectives are not awaited", count);
    }
    int event = own->next;
    own->next = (event + 1) % EVENTS;
    int code = driver->record(own->begun, device->stream);
    if (!code)
        code = driver->wait_for(own->stream, own->begun, 0);
    int theirs = code ? 0 : submit_all(own, among, what);
    if (!code)
        code = driver->record(own->events[event], own->stream);
    for (int64_t i = 0; i < what->count; i++)
        own->waits[own->wait_count++] = (pending){(const void *)(uintptr_t)what->tensors[i].to, event};
    status = burn_device_end(device, doing, entered, code);
    if (status != BURN_OK)
        return burn_communicator_refuse("%s", burn_device_error());
    return theirs == -1 ? burn_communicator_refuse("NCCL does not reduce elements of this type") : theirs ? failed(doing, theirs)
                                                                                                          : BURN_OK;
}

static int32_t run_gpus(burn_communicator *base, burn_run *run, const burn_collective *what) {
    gpus *own = (gpus *)base;
    (void)run;
    int32_t status = use(own);
    if (status != BURN_OK)
        return status;
    const group *among = what->ranks == base->ranks ? find(own, what) : NULL;
    status = among ? run_among(own, among, what)
                   : burn_communicator_refuse("rank %d is not connected to its group of %d processes", base->rank, (int)what->size);
    leave(own);
    return status;
}

/* NULL: all collectives so far. One that is awaited already needs nothing. */
static int32_t await_gpus(burn_communicator *base, const void *result) {
    gpus *own = (gpus *)base;
    int entered, code = 0;
    int32_t status = burn_device_begin(own->device, &entered);
    if (status != BURN_OK)
        return status;
    int at = own->wait_count - 1;
    while (at >= 0 && result && own->waits[at].result != result)
        at--;
    if (at >= 0)
        code = own->device->driver->wait_for(own->device->stream, own->events[own->waits[at].event], 0);
    if (at >= 0 && !code) { /* the stream is in order: earlier collectives have ended */
        memmove(own->waits, own->waits + at + 1, (size_t)(own->wait_count - at - 1) * sizeof *own->waits);
        own->wait_count -= at + 1;
    }
    return burn_device_end(own->device, "awaiting a collective", entered, code);
}

static void abort_gpus(burn_communicator *base, const char *why) {
    gpus *own = (gpus *)base;
    pthread_mutex_lock(&own->lock);
    if (!own->aborted)
        snprintf(own->why, sizeof own->why, "%s", why);
    own->aborted = 1;
    pthread_mutex_unlock(&own->lock);
    end_aborted(own);
}

int32_t burn_nccl_look(burn_communicator *base) {
    gpus *own = (gpus *)base;
    int code = 0, asked = 0;
    pthread_mutex_lock(&own->lock);
    int aborted = own->aborted;
    const group *each = own->groups;
    own->users += !aborted;
    pthread_mutex_unlock(&own->lock);
    if (aborted)
        return BURN_OK;
    for (; each && !asked && (!code || code == IN_PROGRESS); each = each->next)
        asked = nccl.failed(each->comm, &code);
    leave(own);
    if (asked)
        return failed("asking for the error of a collective", asked);
    return code && code != IN_PROGRESS ? failed("a collective", code) : BURN_OK;
}

/* The streams and events that there are, and the rest. */
static void delete(gpus *own) {
    const burn_driver *driver = own->device->driver;
    int entered = burn_device_enter(own->device);
    if (entered >= 0) {
        if (own->begun)
            driver->event_release(own->begun);
        for (int i = 0; i < EVENTS; i++)
            if (own->events[i])
                driver->event_release(own->events[i]);
        if (own->stream)
            driver->stream_release(own->stream);
        burn_device_leave(own->device, entered);
    }
    pthread_mutex_destroy(&own->lock);
    free(own);
}

static void close_gpus(burn_communicator *base) {
    gpus *own = (gpus *)base;
    int entered = burn_device_enter(own->device);
    for (group *next, *each = own->groups; each; each = next) {
        next = each->next;
        nccl.destroy(each->comm);
        free(each);
    }
    burn_device_leave(own->device, entered);
    delete(own);
}

burn_communicator *burn_nccl_open(burn_device *device, int32_t rank, int32_t ranks) {
    const burn_driver *driver = device->driver;
    int entered;
    if (strcmp(burn_device_kind(device), "cuda") != 0) {
        burn_communicator_refuse("NCCL connects devices of the kind cuda, and %s is none", device->label);
        return NULL;
    }
    gpus *own = nccl.library ? calloc(1, sizeof *own) : NULL;
    if (!own || pthread_mutex_init(&own->lock, NULL)) {
        burn_communicator_refuse(nccl.library ? "this process has no memory left" : "NCCL is not open");
        free(own);
        return NULL;
    }
    own->base = (burn_communicator){"nccl", rank, ranks, run_gpus, await_gpus, abort_gpus, close_gpus};
    own->device = device;
    int32_t status = burn_device_begin(device, &entered);
    if (status == BURN_OK) {
        int code = driver->stream(&own->stream, BURN_DRIVER_OWN_STREAM);
        if (!code)
            code = driver->event(&own->begun, BURN_DRIVER_UNTIMED);
        for (int i = 0; i < EVENTS && !code; i++)
            code = driver->event(&own->events[i], BURN_DRIVER_UNTIMED);
        status = burn_device_end(device, "opening a communicator", entered, code);
    }
    if (status == BURN_OK)
        return &own->base;
    burn_communicator_refuse("%s", burn_device_error());
    delete(own);
    return NULL;
}

static int32_t connect_group(gpus *own, group *made, nccl_id id, int64_t position) {
    int entered = burn_device_enter(own->device);
    if (entered < 0)
        return burn_communicator_refuse("%s", burn_device_error());
    int code = nccl.init(&made->comm, (int)made->size, id, (int)position); /* waits for the others */
    burn_device_leave(own->device, entered);
    if (code)
        return failed("connecting", code);
    pthread_mutex_lock(&own->lock);
    made->next = own->groups;
    own->groups = made; /* the caller's leave() aborts it if another thread asked for that */
    pthread_mutex_unlock(&own->lock);
    return BURN_OK;
}

int32_t burn_nccl_connect(burn_communicator *base, const int64_t *groups, int64_t size, const void *id) {
    gpus *own = (gpus *)base;
    const burn_collective what = {0, 0, size, base->ranks, groups, 0, NULL};
    const int64_t *first;
    int64_t position = burn_collective_position(&what, base->rank, &first);
    if (position < 0)
        return burn_communicator_refuse("rank %d is in none of the groups", base->rank);
    int32_t status = use(own);
    if (status != BURN_OK)
        return status;
    if (!find(own, &what)) {
        group *made = calloc(1, sizeof *made + (size_t)base->ranks * sizeof *made->ranks);
        nccl_id theirs;
        memcpy(theirs.bytes, id, sizeof theirs.bytes);
        if (made) {
            memcpy(made->ranks, groups, (size_t)base->ranks * sizeof *groups);
            made->size = size;
        }
        status = made ? connect_group(own, made, theirs, position) : burn_communicator_refuse("this process has no memory left");
        if (status != BURN_OK)
            free(made);
    }
    leave(own);
    return status;
}
