/* Shared declarations of driver_wgpu.c (wgpu-native), driver_wgpu_device.c (the device, for pages too), driver_wgpu_options.c (environment
 * variables), driver_wgpu_heap.c (memory), driver_wgpu_kernels.c, driver_wgpu_work.c (commands), driver_wgpu_staging.c (copies),
 * driver_wgpu_half.c (float16) and driver_wgpu_queries.c (clocks).
 *
 * WebGPU has no pointers. All device memory is the heap, and an address is an offset in it. A binding has a limited size, so the heap
 * consists of pages, each a storage buffer. A launch has the pages of its tensors as bindings, in the order of their addresses, and its
 * addresses count these pages alone. A single page is binding 0. With more, the kernel's text selects one at each access. A CPU executes
 * every case of that selection, so its cost grows with the number of pages. A kernel thus has a pipeline for one page, for two, for four
 * and for all. Binding 1 has the launch's words, at a dynamic offset. A launch is a pipeline, a few words, a number of workgroups, and a
 * set of pages.
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
    SETS = 1 << MOST_PAGES,    /* of pages; a bit for each page */
    WIDTHS = 4,                /* numbers of pages that pipelines are for */
    LEAST_BINDING = 1 << 16,   /* bytes, of BURN_WGPU_BINDING */
    SESSION_BITS = 40,         /* the bits of an address in the heap; those above are the number of the session */
};

typedef struct wgpu_free { /* a free part of the heap, in a list by address */
    struct wgpu_free *next;
    uint64_t at, bytes;
} wgpu_free;

typedef struct wgpu_used { /* an allocated part, in a list without order */
    struct wgpu_used *next;
    uint64_t at, bytes;
} wgpu_used;

/* A kernel. Its pipelines are by burn_wgpu_width: that for one page is made at once, the others when they are first needed. */
typedef struct wgpu_kernel {
    char entry[64];
    char *text; /* from its second line on */
    uint64_t session;
    wgpu_handle pipeline[WIDTHS];
} wgpu_kernel;

typedef struct wgpu_page {
    wgpu_handle buffer;
    uint64_t bytes;
} wgpu_page;

/* A launch; `words` begin with the number of workgroups. */
typedef struct wgpu_work {
    wgpu_kernel *kernel;
    int pages; /* a set */
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

enum { HALF_UNKNOWN, HALF_BY_BITS, HALF_BY_INSTRUCTIONS };

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
    uint64_t lowered_binding;  /* BURN_WGPU_BINDING, or 0 */
    int half_by_bits;          /* BURN_WGPU_HALF=bits */

    char error[512]; /* the first since it was last taken */
    int failed, lost;
    int half;                  /* how kernels convert float16; asked for when a text does */
    char *(*with_half)(const char *text); /* burn_wgpu_with_half; NULL: texts stay as they are */
    uint64_t asked, done;      /* callbacks of work's end: asked for, called */
    int is_reported;           /* a caller has received the error of the loss */
    uint64_t session;          /* devices that were opened so far, less one */

    wgpu_handle group_layout[WIDTHS], layout[WIDTHS];
    wgpu_handle group[SETS];                /* by pages; NULL if one has changed since */
    wgpu_page page[MOST_PAGES];
    int pages, most_pages;                  /* in use; at most */
    int page_bits;                          /* a page has up to 2^page_bits bytes */
    uint64_t used_bytes;
    int across;                             /* parts that lie in several pages */
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
/* Natively, under the lock: reads the environment; WGPU_REFUSED for a value that has no meaning. */
int burn_wgpu_read_options(void);
extern const char burn_wgpu_lost_text[]; /* the error of a lost device */

/* Under the lock: opens the device anew if it is lost and a caller has the error. Nothing of the lost one works in the new session:
 * addresses, kernels and events know theirs, and their use is WGPU_LOST. */
int burn_wgpu_renew(void);
/* An address without its session's number; WGPU_LOST for one of a session that is over. */
int burn_wgpu_local(uint64_t *address);

/* driver_wgpu_device.c; under the lock: notes a failure that burn itself finds. */
int burn_wgpu_refuse(int code, const char *format, ...);

/* driver_wgpu_heap.c */
int burn_wgpu_is_gone(uint64_t memory);
int burn_wgpu_pages_of(uint64_t address);    /* under the lock: the pages of the tensor that it is in */
void burn_wgpu_heap_forget(void);            /* under the lock: all pages and parts, of a lost device */
int burn_wgpu_heap_open(void);
int burn_wgpu_group(int pages, wgpu_handle *group); /* under the lock: the bindings of a set of pages */
int burn_wgpu_alloc(uint64_t *memory, size_t bytes);
int burn_wgpu_release(uint64_t memory);

/* driver_wgpu_kernels.c */
typedef struct wgpu_module {
    wgpu_kernel *kernel;
    int count;
    char words[MOST_WORDS];
} wgpu_module;
int burn_wgpu_kernels_open(void);
void burn_wgpu_forget(void);       /* under the lock: the objects of a lost device */
wgpu_kernel *burn_wgpu_kernel(const char *entry, const char *text);
void burn_wgpu_delete_kernel(wgpu_kernel *kernel);
/* The pages of a width's bindings: 1, 2, 4 and all. */
int burn_wgpu_pages_of_width(int width);
/* The least width whose bindings hold a set of pages. */
int burn_wgpu_width(int pages);
/* Under the lock: the pipeline for a set of pages, or NULL: burn_wgpu_status has the reason. */
wgpu_handle burn_wgpu_pipeline(wgpu_kernel *kernel, int pages);
/* Under the lock: a new buffer, or NULL and a code. */
int burn_wgpu_buffer(wgpu_handle *buffer, uint64_t usage, uint64_t bytes);

/* driver_wgpu_work.c; all under the lock */
wgpu_handle burn_wgpu_encoder(void);                       /* of commands that are not submitted */
wgpu_handle burn_wgpu_pass(const wgpu_timestamps *timestamps);
void burn_wgpu_end_pass(void);
int burn_wgpu_flush(void);
int burn_wgpu_submit(wgpu_handle encoder);                 /* releases the encoder */
int burn_wgpu_run(const wgpu_work *work);                  /* now, or records it */
wgpu_step *burn_wgpu_recorded(void);                       /* a new step of the recording; NULL: no memory */
void burn_wgpu_choose_pages(wgpu_work *work, const uint8_t *is_address, int shift);

/* driver_wgpu_staging.c; all under the lock */
wgpu_work burn_wgpu_by_words(wgpu_kernel *kernel, uint64_t to, uint64_t third, size_t bytes);
int burn_wgpu_fetch_now(void *to, uint64_t from, size_t bytes);
int burn_wgpu_has_staging(uint64_t bytes);
int burn_wgpu_read_staging(void *to, uint64_t skipped, size_t bytes, uint64_t room);

/* driver_wgpu_half.c; under the lock: a text whose conversions of float16 are instructions, for `free`; NULL: the text is to stay. */
char *burn_wgpu_with_half(const char *text);

/* The parts of the driver's table. */
void burn_wgpu_fill_device(burn_driver *driver);
void burn_wgpu_fill_kernels(burn_driver *driver);
void burn_wgpu_fill_work(burn_driver *driver);
void burn_wgpu_fill_staging(burn_driver *driver);
void burn_wgpu_fill_queries(burn_driver *driver);

#endif
