/* A stand-in for libcuda.so.1, for tests on machines without a GPU: the functions that driver_cuda.c uses.
 *
 * There are two devices. Their memory is this process's, and the size of every block is recorded. An address that is not the
 * device's, a copy beyond a block's end and a block freed twice are faults, which tests check (burn_simulated_fault).
 * A kernel's image is a text that names it, and a launch calls back into the test.
 *
 * Work runs when it is submitted, or at the next synchronisation (burn_simulated_be_lazy), as late as a real driver may run it.
 * Then a test that reads or overwrites memory too early finds the wrong elements there.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, ILLEGAL_STATE = 401, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900,
    CAPTURE_UNJOINED = 904
};

static const struct {
    int code;
    const char *name, *text;
} ERRORS[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capture has not joined all streams"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
};

enum { DEVICES = 2, STACK = 16, USUAL_SHARED = 48 << 10, MOST_SHARED = 227 << 10, ALIGNMENT = 512 };

/* ---- what there is ----------------------------------------------------------------------------------------------- */

typedef enum kind { MEMORY, PINNED, EVENT, MODULE, GRAPH, STREAM, FUNCTION, CONTEXT, KINDS } kind;
static const char *const KIND_NAMES[KINDS] = {"memory", "pinned", "event", "module", "graph", "stream", "function", "context"};

/* Never freed, so that one that is used after its end is known. */
typedef struct object {
    struct object *older;
    kind kind;
    int alive;
} object;

typedef struct context {
    object object;
    int device;
} context;

typedef struct block { /* of a device, or pinned memory of the host */
    struct block *next;
    char *begin;
    size_t bytes;
    int device;
} block;

typedef struct module {
    object object;
    struct function *functions;
    char image[];
} module;

typedef struct function {
    object object;
    struct function *next;
    const module *module;
    unsigned shared;
    char name[];
} function;

typedef struct operation {
    struct operation *next;
    enum { COPY, FILL, LAUNCH, RECORD, CALL } kind;
    char *to;
    const char *from;
    char *staged; /* what `from` held, of a host's ordinary memory */
    size_t bytes;
    unsigned char byte;
    const function *function;
    unsigned blocks, threads;
    uint64_t *words; /* the arguments */
    unsigned shared, count;
    struct event *event;
    void (*call)(void *); /* another library's work, and its argument */
    void *argument;
    int to_host;             /* a copy to pinned memory */
    struct operation *ready; /* of a node: its counterpart in the graph that was made ready last */
} operation;

typedef struct list {
    operation *first, *last;
} list;

typedef struct graph {
    object object;
    list work;
} graph;

typedef struct stream {
    object object;
    struct stream *next;
    list queue;
    int capturing, broken;
    list captured;
    struct stream *origin;       /* whose recording has this stream's work; NULL: its own */
    int64_t recorded, joined;    /* how much of its work was recorded, and how much of that its origin waits for */
} stream;

typedef struct event {
    object object;
    stream *stream; /* NULL: not recorded yet */
    int timed;
    int pending; /* how often it is still to be recorded */
    int64_t at;
    stream *in;    /* the recording that it is part of */
    int64_t after; /* so much of its stream's recorded work */
} event;

typedef void (*launched)(const char *image, const char *function, uint32_t blocks, uint32_t threads, uint32_t shared,
                         void **parameters);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over the lists and counts */
static pthread_mutex_t work;                             /* recursive: over what the devices do */
static int initialised, lazy;
static context contexts[DEVICES];
static stream standard = {.object = {NULL, STREAM, 1}}, *streams = &standard;
static object *objects;
static block *blocks[2]; /* of devices, of the host */
static size_t used[DEVICES];
static int64_t alive[KINDS];
static launched on_launch;
static int64_t early_launches;
static char fault[256], failing[64];
static int fail_code, fail_after, lost;
static int64_t changed_nodes;
static _Thread_local context *stack[STACK];
static _Thread_local int depth;

static size_t number(const char *variable, size_t otherwise) {
    const char *text = getenv(variable);
    return text ? (size_t)strtoull(text, NULL, 10) : otherwise;
}

static int found_fault(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!*fault)
        vsnprintf(fault, sizeof fault, format, arguments);
    va_end(arguments);
    return code;
}

static int check(const char *name, int in_context) {
    if (!initialised)
        return NOT_INITIALIZED;
    if (lost)
        return lost;
    if (strcmp(failing, name) == 0 && fail_after-- == 0) {
        *failing = 0;
        return fail_code;
    }
    if (in_context && (depth == 0 || !stack[depth - 1]))
        return found_fault(INVALID_CONTEXT, "%s: no context", name);
    return SUCCESS;
}

#define BEGIN(in_context)                    \
    do {                                     \
        int refused = check(__func__, in_context); \
        if (refused)                         \
            return refused;                  \
    } while (0)

static object *new_object(kind what, size_t bytes) {
    object *made = calloc(1, bytes);
    made->kind = what;
    made->alive = 1;
    pthread_mutex_lock(&lock);
    made->older = objects;
    objects = made;
    pthread_mutex_unlock(&lock);
    __atomic_fetch_add(&alive[what], 1, __ATOMIC_RELAXED);
    return made;
}

static int is(const void *handle, kind what) {
    const object *it = handle;
    if (it && it->kind == what && it->alive)
        return 1;
    found_fault(INVALID_HANDLE, "a %s that is none, or no more", KIND_NAMES[what]);
    return 0;
}

static int end_object(void *handle, kind what) {
    if (!is(handle, what))
        return INVALID_HANDLE;
    ((object *)handle)->alive = 0;
    __atomic_fetch_sub(&alive[what], 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { OF_DEVICE, OF_HOST };

/* The block that holds any of these bytes. */
static block *block_of(int where, const char *begin, size_t bytes) {
    pthread_mutex_lock(&lock);
    block *found = blocks[where];
    while (found && !(begin < found->begin + found->bytes && found->begin < begin + bytes))
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

static int is_memory_of(int device, const char *begin, size_t bytes) {
    const block *found = block_of(OF_DEVICE, begin, bytes);
    if (!found)
        return found_fault(0, "%p is not the device's", (const void *)begin);
    if (begin < found->begin || begin + bytes > found->begin + found->bytes)
        return found_fault(0, "%zu bytes from %p on go beyond a block of %zu bytes", bytes, (const void *)begin, found->bytes);
    if (device >= 0 && device != found->device)
        return found_fault(0, "%p is another device's", (const void *)begin);
    return 1;
}

static int is_device_memory(const char *begin, size_t bytes) {
    return is_memory_of(depth && stack[depth - 1] ? stack[depth - 1]->device : -1, begin, bytes);
}

static int is_host_memory(const char *begin, size_t bytes) {
    return block_of(OF_DEVICE, begin, bytes) ? found_fault(0, "%p is the device's", (const void *)begin) : 1;
}

static void add_block(int where, char *begin, size_t bytes, int device) {
    block *made = malloc(sizeof *made);
    *made = (block){NULL, begin, bytes, device};
    memset(begin, 0xa5, bytes < 1 << 16 ? bytes : 1 << 16); /* nothing that tests expect */
    pthread_mutex_lock(&lock);
    made->next = blocks[where];
    blocks[where] = made;
    pthread_mutex_unlock(&lock);
    __atomic_fetch_add(&alive[where == OF_DEVICE ? MEMORY : PINNED], 1, __ATOMIC_RELAXED);
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static void append(list *to, operation *each) {
    each->next = NULL;
    if (to->first)
        to->last->next = each;
    else
        to->first = each;
    to->last = each;
}

static void launch(const operation *it) {
    void **parameters = calloc(it->count + 1, sizeof *parameters);
    for (unsigned i = 0; i < it->count; i++)
        parameters[i] = &it->words[i];
    if (on_launch)
        on_launch(it->function->module->image, it->function->name, it->blocks, it->threads, it->shared, parameters);
    free(parameters);
}

static void perform(const operation *it) {
    switch (it->kind) {
    case COPY:
        memmove(it->to, it->staged ? it->staged : it->from, it->bytes);
        break;
    case FILL:
        memset(it->to, it->byte, it->bytes);
        break;
    case LAUNCH:
        launch(it);
        break;
    case CALL:
        it->call(it->argument);
        break;
    case RECORD:
        it->event->at = now();
        __atomic_fetch_sub(&it->event->pending, 1, __ATOMIC_RELAXED);
    }
}

/* A stream's work, or no more of it than an event waits for. */
static void flush(stream *it, const event *until) {
    pthread_mutex_lock(&work);
    for (operation *each; (!until || __atomic_load_n(&until->pending, __ATOMIC_RELAXED)) && (each = it->queue.first); free(each)) {
        it->queue.first = each->next;
        perform(each);
        free(each->staged);
        free(each->words);
    }
    pthread_mutex_unlock(&work);
}

static void flush_all(void) {
    for (stream *each = streams; each; each = each->next)
        flush(each, NULL);
}

static stream *stream_of(void *handle) { return handle ? handle : &standard; }

static int submit(void *handle, operation operation_) {
    if (handle && !is(handle, STREAM))
        return INVALID_HANDLE;
    stream *it = stream_of(handle);
    operation *made = malloc(sizeof *made);
    *made = operation_;
    if (it->capturing) {
        append(it->origin ? &it->origin->captured : &it->captured, made);
        it->recorded++;
        return SUCCESS;
    }
    pthread_mutex_lock(&work);
    append(&it->queue, made);
    if (!lazy)
        flush(it, NULL);
    pthread_mutex_unlock(&work);
    return SUCCESS;
}

/* Another library's work on a stream. */
API int burn_simulated_call(void *on, void (*call)(void *), void *argument) {
    return submit(on, (operation){.kind = CALL, .call = call, .argument = argument});
}

/* A thread must not wait for, or time, what is only being recorded: that ends the recording. */
static int captures(stream *it) {
    if (it && it->capturing) {
        it->broken = 1;
        return 1;
    }
    return 0;
}

/* ---- for tests --------------------------------------------------------------------------------------------------- */

API void burn_simulated_on_launch(launched callback) { on_launch = callback; }
API int64_t burn_simulated_early_launches(void) { return early_launches; }
API void burn_simulated_be_lazy(int yes) {
    flush_all();
    lazy = yes;
}
/* How many there are of "memory", "pinned", "event", "module", "graph" ... */
API int64_t burn_simulated_alive(const char *what) {
    for (int i = 0; i < KINDS; i++)
        if (strcmp(KIND_NAMES[i], what) == 0)
            return __atomic_load_n(&alive[i], __ATOMIC_RELAXED);
    return -1;
}
/* The first misuse since the last call, "" if there was none. */
API void burn_simulated_fault(char text[256]) {
    memcpy(text, fault, sizeof fault);
    *fault = 0;
}
/* Bytes from an address on a device to the end of its block; 0 where there is none. */
API int64_t burn_simulated_reach(uint64_t address) {
    const block *found = block_of(OF_DEVICE, (const char *)(uintptr_t)address, 1);
    return found ? found->begin + found->bytes - (const char *)(uintptr_t)address : 0;
}
/* Memory of this process that plays memory of a device which another library allocated, until it is given back. */
API void burn_simulated_adopt(uint64_t memory, size_t bytes, int device) {
    block *made = malloc(sizeof *made);
    *made = (block){NULL, (char *)(uintptr_t)memory, bytes, device};
    pthread_mutex_lock(&lock);
    made->next = blocks[OF_DEVICE];
    blocks[OF_DEVICE] = made;
    pthread_mutex_unlock(&lock);
}
API void burn_simulated_give_back(uint64_t memory) {
    pthread_mutex_lock(&lock);
    block **at = &blocks[OF_DEVICE];
    while (*at && (*at)->begin != (char *)(uintptr_t)memory)
        at = &(*at)->next;
    block *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    free(found);
}
/* A stream of another library's. */
API void *burn_simulated_stream(void) {
    stream *made = (stream *)new_object(STREAM, sizeof *made);
    pthread_mutex_lock(&lock);
    made->next = streams->next;
    streams->next = made;
    pthread_mutex_unlock(&lock);
    return made;
}
/* Runs what a stream has been given. */
API void burn_simulated_finish(void *stream) { flush(stream_of(stream), NULL); }
/* How many nodes of graphs that are ready got new parameters so far. */
API int64_t burn_simulated_changed_nodes(void) { return changed_nodes; }
/* Lets a call of the function fail with that code: the next one after `after` others. */
API void burn_simulated_fail(const char *name, int code, int after) {
    snprintf(failing, sizeof failing, "%s", name);
    fail_code = code;
    fail_after = after;
}

/* Lets each call fail with that code from now on, as those of a driver do whose device is gone; 0 brings the device back. */
API void burn_simulated_lose(int code) { lost = code; }

/* ---- the driver and its devices ---------------------------------------------------------------------------------- */

API int cuInit(unsigned flags) {
    if (flags)
        return INVALID_VALUE;
    if (number("BURN_SIMULATED_DEVICES", DEVICES) == 0)
        return NO_DEVICE;
    if (!initialised) {
        pthread_mutexattr_t recursive;
        pthread_mutexattr_init(&recursive);
        pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&work, &recursive);
        for (int i = 0; i < DEVICES; i++)
            contexts[i] = (context){{NULL, CONTEXT, 1}, i};
        initialised = 1;
    }
    return SUCCESS;
}

API int cuDriverGetVersion(int *version) {
    *version = (int)number("BURN_SIMULATED_VERSION", 13000);
    return SUCCESS;
}

static int error_of(int code) {
    int i = (int)(sizeof ERRORS / sizeof *ERRORS);
    while (i-- > 0 && ERRORS[i].code != code)
        ;
    return i;
}

API int cuGetErrorName(int code, const char **name) {
    int i = error_of(code);
    *name = i < 0 ? NULL : ERRORS[i].name;
    return i < 0 ? INVALID_VALUE : SUCCESS;
}

API int cuGetErrorString(int code, const char **text) {
    int i = error_of(code);
    *text = i < 0 ? NULL : ERRORS[i].text;
    return i < 0 ? INVALID_VALUE : SUCCESS;
}

API int cuDeviceGetCount(int *count) {
    BEGIN(0);
    *count = (int)number("BURN_SIMULATED_DEVICES", DEVICES);
    return SUCCESS;
}

API int cuDeviceGet(int *device, int index) {
    BEGIN(0);
    *device = index;
    return index >= 0 && index < DEVICES ? SUCCESS : INVALID_DEVICE;
}

API int cuDeviceGetName(char *name, int room, int device) {
    BEGIN(0);
    snprintf(name, (size_t)room, "Simulated GPU %d", device);
    return SUCCESS;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    BEGIN(0);
    int capability = (int)number("BURN_SIMULATED_CAPABILITY", 90);
    const int VALUES[][2] = {{10, 32}, {16, 4}, {75, capability / 10}, {76, capability % 10}, {97, MOST_SHARED}};
    (void)device;
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++)
        if (VALUES[i][0] == attribute) {
            *value = VALUES[i][1];
            return SUCCESS;
        }
    return INVALID_VALUE;
}

static size_t memory_of_device(void) { return number("BURN_SIMULATED_MEMORY", (size_t)1 << 30); }

API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    BEGIN(0);
    (void)device;
    *bytes = memory_of_device();
    return SUCCESS;
}

API int cuMemGetInfo_v2(size_t *left, size_t *total) {
    BEGIN(1);
    *total = memory_of_device();
    *left = *total - used[stack[depth - 1]->device];
    return SUCCESS;
}

API int cuDevicePrimaryCtxRetain(void **made, int device) {
    BEGIN(0);
    *made = &contexts[device];
    return SUCCESS;
}

API int cuCtxGetCurrent(void **current) {
    BEGIN(0);
    *current = depth ? stack[depth - 1] : NULL;
    return SUCCESS;
}

API int cuCtxPushCurrent_v2(void *handle) {
    BEGIN(0);
    if (!is(handle, CONTEXT) || depth == STACK)
        return INVALID_CONTEXT;
    stack[depth++] = handle;
    return SUCCESS;
}

API int cuCtxPopCurrent_v2(void **handle) {
    BEGIN(1);
    *handle = stack[--depth];
    return SUCCESS;
}

/* ---- memory and copies ------------------------------------------------------------------------------------------- */

API int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
    BEGIN(1);
    int device = stack[depth - 1]->device;
    if (bytes == 0)
        return found_fault(INVALID_VALUE, "no bytes were asked for");
    if (bytes > memory_of_device() - used[device])
        return OUT_OF_MEMORY;
    char *begin = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!begin)
        return OUT_OF_MEMORY;
    used[device] += bytes;
    add_block(OF_DEVICE, begin, bytes, device);
    *memory = (uint64_t)(uintptr_t)begin;
    return SUCCESS;
}

API int cuMemFree_v2(uint64_t memory) {
    BEGIN(1);
    char *begin = (char *)(uintptr_t)memory;
    flush_all();
    pthread_mutex_lock(&lock);
    block **at = &blocks[OF_DEVICE];
    while (*at && (*at)->begin != begin)
        at = &(*at)->next;
    block *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    if (!found)
        return found_fault(INVALID_VALUE, "%p is freed, but is no block", (void *)begin);
    used[found->device] -= found->bytes;
    __atomic_fetch_sub(&alive[MEMORY], 1, __ATOMIC_RELAXED);
    free(begin);
    free(found);
    return SUCCESS;
}

API int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    BEGIN(1);
    (void)flags;
    *memory = malloc(bytes);
    add_block(OF_HOST, *memory, bytes, -1);
    return SUCCESS;
}

API int cuPointerGetAttribute(void *value, int attribute, uint64_t memory) {
    const char *at = (const char *)(uintptr_t)memory;
    BEGIN(1);
    if (attribute != 2)
        return INVALID_VALUE;
    *(int *)value = block_of(OF_HOST, at, 1) ? 1 : block_of(OF_DEVICE, at, 1) ? 2 : 0;
    return *(int *)value ? SUCCESS : INVALID_VALUE;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *handle) {
    BEGIN(1);
    operation it = {.kind = COPY, .to = (char *)(uintptr_t)to, .from = from, .bytes = bytes};
    if (!is_device_memory(it.to, bytes) || !is_host_memory(from, bytes))
        return INVALID_VALUE;
    if (captures(stream_of(handle)))
        return CAPTURE_UNSUPPORTED;
    if (!block_of(OF_HOST, from, bytes)) {
        it.staged = malloc(bytes);
        memcpy(it.staged, from, bytes);
    }
    return submit(handle, it);
}

API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *handle) {
    BEGIN(1);
    operation it = {.kind = COPY, .to = to, .from = (const char *)(uintptr_t)from, .bytes = bytes};
    if (!is_device_memory(it.from, bytes) || !is_host_memory(to, bytes))
        return INVALID_VALUE;
    if (captures(stream_of(handle)))
        return CAPTURE_UNSUPPORTED;
    int code = submit(handle, it);
    if (!code && !block_of(OF_HOST, to, bytes))
        flush(stream_of(handle), NULL);
    return code;
}

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *handle) {
    BEGIN(1);
    operation it = {.kind = COPY, .to = (char *)(uintptr_t)to, .from = (const char *)(uintptr_t)from, .bytes = bytes};
    return is_device_memory(it.to, bytes) && is_device_memory(it.from, bytes) ? submit(handle, it) : INVALID_VALUE;
}

/* Each end must lie on its context's device. */
API int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes, void *handle) {
    BEGIN(1);
    operation it = {.kind = COPY, .to = (char *)(uintptr_t)to, .from = (const char *)(uintptr_t)from, .bytes = bytes};
    if (!is(to_context, CONTEXT) || !is(from_context, CONTEXT))
        return INVALID_CONTEXT;
    return is_memory_of(((context *)to_context)->device, it.to, bytes) &&
                   is_memory_of(((context *)from_context)->device, it.from, bytes)
               ? submit(handle, it)
               : INVALID_VALUE;
}

API int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *handle) {
    BEGIN(1);
    operation it = {.kind = FILL, .to = (char *)(uintptr_t)to, .byte = byte, .bytes = bytes};
    return is_device_memory(it.to, bytes) ? submit(handle, it) : INVALID_VALUE;
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */

API int cuStreamCreate(void **handle, unsigned flags) {
    BEGIN(1);
    (void)flags;
    stream *made = (stream *)new_object(STREAM, sizeof *made);
    pthread_mutex_lock(&lock);
    made->next = streams->next;
    streams->next = made;
    pthread_mutex_unlock(&lock);
    *handle = made;
    return SUCCESS;
}

API int cuStreamDestroy_v2(void *handle) {
    BEGIN(1);
    if (is(handle, STREAM))
        flush(handle, NULL);
    return end_object(handle, STREAM);
}

API int cuEventCreate(void **handle, unsigned flags) {
    BEGIN(1);
    event *made = (event *)new_object(EVENT, sizeof *made);
    made->timed = !(flags & 2);
    *handle = made;
    return SUCCESS;
}

API int cuEventDestroy_v2(void *handle) {
    BEGIN(1);
    if (is(handle, EVENT) && ((event *)handle)->stream)
        flush(((event *)handle)->stream, handle);
    return end_object(handle, EVENT);
}

API int cuEventRecord(void *handle, void *on) {
    BEGIN(1);
    if (!is(handle, EVENT))
        return INVALID_HANDLE;
    event *it = handle;
    it->stream = stream_of(on);
    it->in = it->stream->capturing ? it->stream->origin ? it->stream->origin : it->stream : NULL;
    it->after = it->stream->recorded;
    if (it->in)
        return SUCCESS;
    __atomic_fetch_add(&it->pending, 1, __ATOMIC_RELAXED);
    return submit(on, (operation){.kind = RECORD, .event = it});
}

API int cuEventSynchronize(void *handle) {
    BEGIN(1);
    if (!is(handle, EVENT))
        return INVALID_HANDLE;
    event *it = handle;
    if (it->stream)
        flush(it->stream, it);
    return SUCCESS;
}

API int cuEventElapsedTime(float *milliseconds, void *first, void *last) {
    BEGIN(1);
    if (!is(first, EVENT) || !is(last, EVENT))
        return INVALID_HANDLE;
    const event *begin = first, *end = last;
    if (!begin->timed || !end->timed)
        return INVALID_HANDLE;
    if (!begin->stream || !end->stream || begin->pending || end->pending)
        return NOT_READY;
    *milliseconds = (float)(end->at - begin->at) / 1e6f;
    return SUCCESS;
}

API int cuStreamWaitEvent(void *handle, void *what, unsigned flags) {
    BEGIN(1);
    (void)flags;
    if (!is(what, EVENT) || (handle && !is(handle, STREAM)))
        return INVALID_HANDLE;
    event *of = what;
    stream *waits = stream_of(handle);
    if (of->in && of->in->capturing) { /* the recording branches, or joins again */
        if (waits == of->in) {
            if (of->stream != waits && of->after > of->stream->joined)
                of->stream->joined = of->after;
        } else if (!waits->capturing) {
            waits->capturing = 1;
            waits->broken = 0;
            waits->origin = of->in;
            waits->recorded = waits->joined = 0;
        }
        return SUCCESS;
    }
    if (captures(waits))
        return CAPTURE_UNSUPPORTED;
    if (((event *)what)->stream)
        flush(((event *)what)->stream, what);
    return SUCCESS;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

API int cuModuleLoadData(void **handle, const void *image) {
    BEGIN(1);
    if (!*(const char *)image)
        return INVALID_IMAGE;
    module *made = (module *)new_object(MODULE, sizeof *made + strlen(image) + 1);
    strcpy(made->image, image);
    *handle = made;
    return SUCCESS;
}

API int cuModuleUnload(void *handle) {
    BEGIN(1);
    flush_all();
    return end_object(handle, MODULE);
}

API int cuModuleGetFunction(void **handle, void *of, const char *name) {
    BEGIN(1);
    if (!is(of, MODULE))
        return INVALID_HANDLE;
    if (!*name)
        return NOT_FOUND;
    function *made = ((module *)of)->functions;
    while (made && strcmp(made->name, name) != 0)
        made = made->next;
    if (!made) {
        made = (function *)new_object(FUNCTION, sizeof *made + strlen(name) + 1);
        made->next = ((module *)of)->functions;
        made->module = of;
        made->shared = USUAL_SHARED;
        strcpy(made->name, name);
        ((module *)of)->functions = made;
    }
    *handle = made;
    return SUCCESS;
}

API int cuFuncSetAttribute(void *handle, int attribute, int value) {
    BEGIN(1);
    if (!is(handle, FUNCTION) || attribute != 8 || value < 0 || value > MOST_SHARED)
        return INVALID_VALUE;
    ((function *)handle)->shared = (unsigned)value;
    return SUCCESS;
}

API int cuLaunchKernel(void *handle, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                       unsigned threads_z, unsigned shared, void *on, void **parameters, void **extra) {
    BEGIN(1);
    const function *it = handle;
    if (!is(handle, FUNCTION) || !is(it->module, MODULE))
        return INVALID_HANDLE;
    if (!x || x > INT32_MAX || y != 1 || z != 1 || !threads || threads > 1024 || threads_y != 1 || threads_z != 1 || extra ||
        shared > it->shared)
        return INVALID_VALUE;
    if (!on_launch)
        return NOT_SUPPORTED;
    operation made = {.kind = LAUNCH, .function = it, .blocks = x, .threads = threads, .shared = shared};
    while (parameters[made.count])
        made.count++;
    made.words = malloc((made.count + 1) * sizeof *made.words);
    for (unsigned i = 0; i < made.count; i++)
        memcpy(&made.words[i], parameters[i], sizeof *made.words);
    return submit(on, made);
}

/* A launch that starts early waits here for the one before it, as its kernel would. */
typedef struct launch_config {
    unsigned x, y, z, threads, threads_y, threads_z, shared;
    void *stream;
    const int *attributes;
    unsigned count;
} launch_config;

API int cuLaunchKernelEx(const launch_config *it, void *handle, void **parameters, void **extra) {
    if (it->count != 1 || it->attributes[0] != 6 || it->attributes[2] != 1)
        return INVALID_VALUE;
    early_launches++;
    return cuLaunchKernel(handle, it->x, it->y, it->z, it->threads, it->threads_y, it->threads_z, it->shared, it->stream,
                          parameters, extra);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

API int cuStreamBeginCapture_v2(void *handle, int mode) {
    BEGIN(1);
    if (!is(handle, STREAM) || mode != 2)
        return INVALID_VALUE;
    stream *it = handle;
    if (it->capturing)
        return ILLEGAL_STATE;
    it->capturing = 1;
    it->broken = 0;
    it->origin = NULL;
    it->recorded = 0;
    it->captured = (list){NULL, NULL};
    return SUCCESS;
}

API int cuStreamEndCapture(void *handle, void **made) {
    BEGIN(1);
    if (!is(handle, STREAM))
        return INVALID_HANDLE;
    stream *it = handle;
    if (!it->capturing)
        return ILLEGAL_STATE;
    it->capturing = 0;
    int apart = 0;
    for (stream *each = streams; each; each = each->next)
        if (each->origin == it) {
            apart |= each->recorded > each->joined;
            it->broken |= each->broken;
            each->capturing = 0;
            each->origin = NULL;
        }
    if (apart)
        return CAPTURE_UNJOINED;
    if (it->broken) {
        *made = NULL;
        return CAPTURE_UNSUPPORTED;
    }
    graph *result = (graph *)new_object(GRAPH, sizeof *result);
    result->work = it->captured;
    *made = result;
    return SUCCESS;
}

API int cuGraphInstantiateWithFlags(void **ready, void *handle, unsigned long long flags) {
    BEGIN(1);
    if (!is(handle, GRAPH) || flags)
        return INVALID_VALUE;
    graph *made = (graph *)new_object(GRAPH, sizeof *made);
    for (operation *each = ((graph *)handle)->work.first; each; each = each->next) {
        operation *own = each->ready = malloc(sizeof *own);
        *own = *each;
        append(&made->work, own);
    }
    *ready = made;
    return SUCCESS;
}

API int cuGraphLaunch(void *handle, void *on) {
    BEGIN(1);
    if (!is(handle, GRAPH))
        return INVALID_HANDLE;
    if (captures(stream_of(on)))
        return CAPTURE_UNSUPPORTED;
    for (const operation *each = ((graph *)handle)->work.first; each; each = each->next) {
        operation again = *each;
        if ((again.kind != LAUNCH && again.kind != CALL && !again.to_host && !is_device_memory(again.to, again.bytes)) ||
            (again.kind == COPY && !is_device_memory(again.from, again.bytes)))
            return ILLEGAL_ADDRESS;
        if (again.kind == LAUNCH) {
            again.words = malloc((again.count + 1) * sizeof *again.words);
            memcpy(again.words, each->words, again.count * sizeof *again.words);
        }
        int code = submit(on, again);
        if (code)
            return code;
    }
    return SUCCESS;
}

/* ---- graphs, node by node ---------------------------------------------------------------------------------------- */

typedef struct kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *function;
    unsigned x, y, z, threads, threads_y, threads_z, shared;
    void **parameters, **extra;
    void *kernel, *context;
} kernel_node;

typedef struct copy_end {
    size_t x, y, z, level;
    int type;
    void *host;
    uint64_t device;
    void *array, *reserved;
    size_t pitch, height;
} copy_end;

typedef struct copy_node { /* CUDA_MEMCPY3D */
    copy_end from, to;
    size_t bytes, height, depth;
} copy_node;

static int operation_of_kernel(operation *made, const kernel_node *node) {
    const function *it = node->function;
    if (!is(it, FUNCTION) || !is(it->module, MODULE))
        return INVALID_HANDLE;
    if (!node->x || node->y != 1 || node->z != 1 || !node->threads || node->threads > 1024 || node->threads_y != 1 ||
        node->threads_z != 1 || node->extra || node->kernel || node->shared > it->shared)
        return found_fault(INVALID_VALUE, "a kernel node with wrong parameters");
    *made = (operation){.kind = LAUNCH, .function = it, .blocks = node->x, .threads = node->threads, .shared = node->shared};
    while (node->parameters[made->count])
        made->count++;
    made->words = malloc((made->count + 1) * sizeof *made->words);
    for (unsigned i = 0; i < made->count; i++)
        memcpy(&made->words[i], node->parameters[i], sizeof *made->words);
    return SUCCESS;
}

static int operation_of_copy(operation *made, const copy_node *node, const void *context_) {
    int to_host = node->to.type == 1;
    *made = (operation){.kind = COPY, .bytes = node->bytes, .to_host = to_host,
                        .from = (const char *)(uintptr_t)node->from.device,
                        .to = to_host ? node->to.host : (char *)(uintptr_t)node->to.device};
    if (!is(context_, CONTEXT) || node->from.type != 2 || (!to_host && node->to.type != 2) || node->height != 1 ||
        node->depth != 1 || !is_device_memory(made->from, made->bytes))
        return found_fault(INVALID_VALUE, "a copy node with wrong parameters");
    return to_host ? (block_of(OF_HOST, made->to, made->bytes) ? SUCCESS : found_fault(INVALID_VALUE, "not pinned"))
           : is_device_memory(made->to, made->bytes) ? SUCCESS
                                                     : INVALID_VALUE;
}

static int add_node(void **node, void *handle, void *const *after, size_t count, operation made) {
    graph *to = handle;
    if (!is(handle, GRAPH))
        return INVALID_HANDLE;
    if (count > 1 || (count ? to->work.last != *after : to->work.first != NULL)) /* a chain is all that burn makes */
        return found_fault(INVALID_VALUE, "a node that does not follow the last");
    operation *own = malloc(sizeof *own);
    *own = made;
    append(&to->work, own);
    *node = own;
    return SUCCESS;
}

static int set_node(void *handle, void *node, operation made) {
    if (!is(handle, GRAPH))
        return INVALID_HANDLE;
    operation *old = ((operation *)node)->ready, *each = ((graph *)handle)->work.first;
    while (each && each != old)
        each = each->next;
    if (!each || old->kind != made.kind || old->function != made.function)
        return found_fault(INVALID_VALUE, "a node of another graph, or of another kind");
    made.next = old->next;
    *old = made;
    return SUCCESS;
}

API int cuGraphCreate(void **made, unsigned flags) {
    BEGIN(1);
    *made = new_object(GRAPH, sizeof(graph));
    return flags ? INVALID_VALUE : SUCCESS;
}

API int cuGraphAddKernelNode_v2(void **node, void *to, void *const *after, size_t count, const kernel_node *params) {
    operation made;
    BEGIN(1);
    int code = operation_of_kernel(&made, params);
    return code ? code : add_node(node, to, after, count, made);
}

API int cuGraphExecKernelNodeSetParams_v2(void *ready, void *node, const kernel_node *params) {
    operation made;
    BEGIN(1);
    int code = operation_of_kernel(&made, params);
    changed_nodes++;
    return code ? code : set_node(ready, node, made);
}

API int cuGraphAddMemcpyNode(void **node, void *to, void *const *after, size_t count, const copy_node *params, void *in) {
    operation made;
    BEGIN(1);
    int code = operation_of_copy(&made, params, in);
    return code ? code : add_node(node, to, after, count, made);
}

API int cuGraphExecMemcpyNodeSetParams(void *ready, void *node, const copy_node *params, void *in) {
    operation made;
    BEGIN(1);
    int code = operation_of_copy(&made, params, in);
    changed_nodes++;
    return code ? code : set_node(ready, node, made);
}

API int cuGraphDestroy(void *handle) {
    BEGIN(1);
    return end_object(handle, GRAPH);
}

API int cuGraphExecDestroy(void *handle) {
    BEGIN(1);
    return end_object(handle, GRAPH);
}
