/* Shared declarations of driver_wgpu.c (the device), driver_wgpu_heap.c (memory) and driver_wgpu_work.c (commands).
 *
 * WebGPU has no pointers. All device memory is the heap, and an address is an offset in it. A binding has a limited size, so the heap
 * consists of pages, each a storage buffer. A launch whose addresses are in one page has that page as binding 0, and addresses in it.
 * Other launches have all pages as bindings, and their kernel's text selects one at each access. Binding 1 has the launch's words, at a
 * dynamic offset. So a launch is a pipeline, a few words, a number of workgroups, and a page or all.
 *
 * The driver's table has no context argument, so the state is global. `lock` guards it.
 */
#ifndef BURN_DRIVER_WGPU_H
#define BURN_DRIVER_WGPU_H

#include <pthread.h>
#include <stdint.h>

#include "driver.h"
#include "webgpu_api.h"

enum {
    WGPU_FAILED = 1000,   /* wgpu.error has the text */
    WGPU_LOST = 1001,
    WGPU_REFUSED = 1002,
};

enum {
    WORDS_BYTES = 1024,        /* the binding of a launch's words */
    MOST_WORDS = WORDS_BYTES / 4,
    WORDS_ROOM = 1 << 20,      /* bytes of words that wait for a submission */
    HEAP_RESERVED = 4096,      /* address 0 is the null pointer; the bytes behind it are for ragged copies */
    SCRATCH = 256,             /* their address */
    QUERIES = 4096,            /* of a set, the most that WebGPU allows */
    MOST_PAGES = 8,            /* WebGPU's default limit of storage buffers */
    ALL_PAGES = MOST_PAGES,    /* as the number of a page */
};

typedef struct wgpu_free { /* a free part of the heap, in a list by address */
    struct wgpu_free *next;
    uint64_t at, bytes;
} wgpu_free;

typedef struct wgpu_used { /* an allocated part, in a list without order */
    struct wgpu_used *next;
    uint64_t at, bytes;
} wgpu_used;

/* The two pipelines of a kernel: for addresses in one page, and for all pages, which is made when it is first needed. */
typedef struct wgpu_kernel {
    char entry[64];
    char *text; /* from its second line on */
    wgpu_handle one, all;
} wgpu_kernel;

typedef struct wgpu_page {
    wgpu_handle buffer;
    uint64_t bytes;
} wgpu_page;

/* A launch; `words` begin with the number of workgroups. */
typedef struct wgpu_work {
    wgpu_kernel *kernel;
    int page;
    uint32_t count;
    uint32_t words[MOST_WORDS];
} wgpu_work;

/* One step of a recording. */
typedef struct wgpu_step {
    struct wgpu_step *next;
    wgpu_work work;
    void *to; /* a fetch of `from`, if not NULL */
    uint64_t from;
    size_t bytes;
} wgpu_step;

typedef struct wgpu_graph {
    int references;
    wgpu_step *first, **last;
} wgpu_graph;

typedef struct wgpu_queries { /* a set of timestamps */
    struct wgpu_queries *next;
    wgpu_handle set;
    uint64_t taken[QUERIES / 64]; /* a bit each */
} wgpu_queries;

typedef struct wgpu_state {
    pthread_mutex_t lock;
    void *library;             /* that `api` is of */
    int opened, opening;       /* `init` has been called; its result */
    wgpu_api api;
    wgpu_handle instance, adapter, device, queue;
    wgpu_limits limits;
    wgpu_info info;
    int has_timestamps;
    uint64_t checks;           /* of shaders as they run: WGPU_NO_CHECKS, or all under BURN_WGPU_CHECKS */

    char error[512]; /* the first since it was last taken */
    int failed, lost;

    wgpu_handle group_layout[2], layout[2]; /* for one page, for all */
    wgpu_handle group[MOST_PAGES + 1];      /* by page, and for all; NULL if a page has changed since */
    wgpu_page page[MOST_PAGES];
    int pages, most_pages;                  /* in use; at most */
    int page_bits;                          /* a page has up to 2^page_bits bytes */
    uint64_t used_bytes;
    wgpu_free *free;
    wgpu_used *used;

    wgpu_handle encoder, pass; /* of commands that are not submitted */
    wgpu_handle words;         /* the buffer of WORDS_ROOM + WORDS_BYTES bytes */
    uint32_t words_used;
    uint32_t *pending_words;   /* its content at the next submission */
    wgpu_handle staging;
    uint64_t staging_bytes;
    uint32_t mapped;           /* the status of the staging buffer's mapping; 0: none yet */
    wgpu_kernel *copy, *fill;
    wgpu_queries *queries;     /* the sets, made when they are needed */
    wgpu_handle resolved;
    wgpu_graph *capture;
} wgpu_state;

extern wgpu_state wgpu;

/* Under the lock: 0, or a code if an operation has failed since the last call. */
int burn_wgpu_status(void);
/* Under the lock: notes a failure that burn itself finds. */
int burn_wgpu_refuse(int code, const char *format, ...);

/* driver_wgpu_heap.c */
int burn_wgpu_heap_open(void);
int burn_wgpu_group(int number, wgpu_handle *group); /* under the lock: the bindings of a page, or of all */
int burn_wgpu_alloc(uint64_t *memory, size_t bytes);
int burn_wgpu_release(uint64_t memory);

/* driver_wgpu_work.c */
typedef struct wgpu_module wgpu_module;
int burn_wgpu_work_open(void);
int burn_wgpu_flush(void);                      /* under the lock */
int burn_wgpu_submit(wgpu_handle encoder);      /* under the lock; releases the encoder */
/* Under the lock: a new buffer, or NULL and a code. */
int burn_wgpu_buffer(wgpu_handle *buffer, uint64_t usage, uint64_t bytes);
wgpu_kernel *burn_wgpu_kernel(const char *entry, const char *text);
void burn_wgpu_fill_table(burn_driver *driver);

#endif
