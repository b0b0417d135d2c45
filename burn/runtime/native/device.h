/* GPUs: devices with their own memory and code, used through a driver library (libcuda.so.1, opened at the
 * first use). The runtime runs programs on them; hosts also use this interface for tensors in GPU memory.
 *
 * A device is opened once in a process, and never closed. One stream runs its work in order. So freed memory can be reused
 * at once: its remaining readers were submitted before its next writers. Any number of threads may
 * call; a run holds the device's lock while it submits its launches.
 *
 * Functions that can fail return a burn_status: BURN_OUT_OF_MEMORY or BURN_DEVICE_FAILED; burn_device_error has the reason. After
 * a fork, the child cannot use its parent's devices: all functions fail with this reason, and freeing does nothing.
 */
#ifndef BURN_DEVICE_H
#define BURN_DEVICE_H

#include "burn_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct burn_device burn_device;
typedef struct burn_device_module burn_device_module;     /* machine code of one kernel, loaded */
typedef struct burn_device_function burn_device_function; /* what can be launched; lives as long as its module */
typedef struct burn_device_graph burn_device_graph;       /* launches and copies recorded, to be submitted at once */
typedef struct burn_device_list burn_device_list;         /* work whose addresses are filled in when it is submitted */
typedef struct burn_device_moment burn_device_moment;     /* of the device's work: when all before it is done */

enum { BURN_DEVICE_ALIGNMENT = 256 };

/* ---- which there are --------------------------------------------------------------------------------------------- */
/* How many devices of a kind ("cuda") there are, or -1: `error` says in one line what is missing (no driver, one that is too
 * old). `library`: the driver's file; NULL for the usual one. */
int32_t burn_device_count(const char *kind, const char *library, char *error, size_t error_size);
/* The device with that number; the same one at every call. NULL: see `error`. */
burn_device *burn_device_open(const char *kind, int32_t index, const char *library, char *error, size_t error_size);

typedef struct burn_report burn_report; /* see "failures that kernels report" */

typedef struct burn_device_facts {
    char name[128];         /* "NVIDIA H100 80GB HBM3" */
    char architecture[32];  /* what kernels are compiled for: "sm_90" */
    int32_t index, processors, warp; /* its number, streaming multiprocessors, threads that go in step */
    int64_t memory, free;   /* bytes in all, and those that no process holds now */
    int64_t used, kept;     /* bytes that burn has handed out, and those it keeps to hand out again */
    int64_t shared;         /* bytes of shared memory that one block may ask for */
    int32_t driver;         /* its version: 13000 for 13.0 */
} burn_device_facts;

/* The facts about a device that need no context, in a fraction of the time to open it: all but `free`, `used` and `kept`. */
int32_t burn_device_preview(const char *kind, int32_t index, const char *library, burn_device_facts *facts, char *error,
                            size_t error_size);

const char *burn_device_kind(const burn_device *device); /* "cuda" */
int32_t burn_device_index(const burn_device *device);
int32_t burn_device_describe(burn_device *device, burn_device_facts *facts);
/* This thread's last failure in one line, its burn_status, and the driver's number for it (0: burn refused by itself). */
const char *burn_device_error(void);
int32_t burn_device_error_status(void);
int64_t burn_device_error_code(void);

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* Aligned to BURN_DEVICE_ALIGNMENT. Reuses freed memory of a suitable size, else allocates from the driver. If that fails, gives
 * all kept memory back and tries again. NULL: see burn_device_error. Never NULL for 0 bytes. */
void *burn_device_alloc(burn_device *device, int64_t bytes);
void burn_device_free(burn_device *device, void *memory); /* accepts NULL */
void burn_device_trim(burn_device *device);               /* gives back what is kept */

/* ---- work, in order ---------------------------------------------------------------------------------------------- */
/* From this process's memory to the device's: when it returns, `from` may be written again. */
int32_t burn_device_send(burn_device *device, void *to, const void *from, int64_t bytes);
/* From the device's memory to this process's, when all work before is done: it waits for that. */
int32_t burn_device_fetch(burn_device *device, void *to, const void *from, int64_t bytes);
/* The same, when all work before a moment is done. It waits for that alone: burn_device_mark. */
int32_t burn_device_fetch_after(burn_device *device, burn_device_moment *moment, void *to, const void *from, int64_t bytes);
int32_t burn_device_copy(burn_device *device, void *to, const void *from, int64_t bytes); /* within the device */
/* From another device, without the host's memory. Both devices order it among their work. Fails if `device` does not reach the
 * other: the devices have different drivers, or the driver copies within a device alone. */
int burn_device_reaches(const burn_device *device, const burn_device *other);
int32_t burn_device_copy_from(burn_device *device, void *to, burn_device *other, const void *from, int64_t bytes);
int32_t burn_device_fill(burn_device *device, void *to, uint8_t byte, int64_t bytes);
/* Waits until all that was submitted is done. */
int32_t burn_device_wait(burn_device *device);
/* The driver's stream of all this work, for libraries that order their work after it. */
void *burn_device_stream(burn_device *device);
/* Orders streams of the driver (0: its default stream). wait_for: later work here waits for all present work of `stream`.
 * let_wait: later work of `stream` waits for all present work here. */
int32_t burn_device_wait_for(burn_device *device, void *stream);
int32_t burn_device_let_wait(burn_device *device, void *stream);

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
/* Machine code (a cubin, an hsaco) in memory. NULL: see `error`. */
burn_device_module *burn_device_load(burn_device *device, const void *image, size_t size, char *error, size_t error_size);
void burn_device_unload(burn_device_module *module); /* accepts NULL; waits for the device */
/* A function by its name, and the bytes of dynamic shared memory that a launch of it gets. NULL: see burn_device_error. */
burn_device_function *burn_device_find(burn_device_module *module, const char *name, int64_t shared);
/* Launches of an early function may start before the kernel before them ends: it waits for that kernel itself. */
void burn_device_set_early(burn_device_function *function, int early);
/* `blocks` blocks of `threads` threads. The arguments are words of 64 bits; a shorter one is a word's low end. */
int32_t burn_device_launch(burn_device *device, burn_device_function *function, int64_t blocks, int32_t threads,
                           const int64_t *arguments, int32_t count);

/* ---- a run as one submission ------------------------------------------------------------------------------------- */
/* Held by a thread for all that it submits in one run, so that no other's work gets in between. Not for burn_device_alloc and
 * its kin, which have a lock of their own. */
void burn_device_lock(burn_device *device);
void burn_device_unlock(burn_device *device);
/* Records what this thread submits until it calls burn_device_recorded, and does none of it; other threads wait meanwhile. Copies
 * within the device, fills and launches are recorded, all else fails. Addresses are recorded as they are: memory that a graph
 * touches stays allocated as long as it is replayed. */
int32_t burn_device_record(burn_device *device);
burn_device_graph *burn_device_recorded(burn_device *device); /* NULL: see burn_device_error */
int32_t burn_device_replay(burn_device *device, burn_device_graph *graph);
void burn_device_graph_delete(burn_device *device, burn_device_graph *graph); /* accepts NULL */

/* ---- work with open addresses ------------------------------------------------------------------------------------ */
/* A word of a launch: a number, or an address: so many bytes behind the start of a region. Each submission says where the regions
 * start. */
typedef struct burn_word {
    int64_t value;
    int32_t region; /* -1: the value is a number */
} burn_word;

/* Work is appended in order, then sealed, then submitted any number of times. Submissions go to a stream of the caller's. The first
 * three return 0 if this process is out of memory. */
burn_device_list *burn_list_new(burn_device *device, int32_t regions); /* NULL: out of memory */
int burn_list_launch(burn_device_list *list, burn_device_function *function, int64_t blocks, int32_t threads,
                     const burn_word *words, int32_t count);
int burn_list_copy(burn_device_list *list, burn_word to, burn_word from, int64_t bytes);
/* At the end of each submission, the report's word is copied to the host: burn_device_reported. */
int burn_list_seal(burn_device_list *list, burn_report *report);
int64_t burn_list_steps(const burn_device_list *list);
/* regions: where each starts. as_graph: as one CUDA graph. Its nodes are changed if an address is another than in the submission
 * before. Otherwise one step after the other, which is cheaper for work that is submitted once. A burn_status. */
int32_t burn_list_submit(burn_device_list *list, const int64_t *regions, void *stream, int as_graph);
/* Orders later work of the device's own stream behind the submissions. */
void burn_list_delete(burn_device_list *list); /* accepts NULL */
/* Copies to the device by a stream's work; when it returns, `from` may be written again. */
int32_t burn_device_send_by(burn_device *device, void *stream, void *to, const void *from, int64_t bytes);

/* ---- failures that kernels report -------------------------------------------------------------------------------- */
/* A report is a word on the device, 0 until a kernel writes it. */
typedef struct burn_reported {
    int32_t code;        /* a burn_status */
    int64_t site, value; /* as burn_failure has them */
    char name[256];      /* of the site */
} burn_reported;

/* The names of sites must live as long as the report. NULL: see burn_device_error. */
burn_report *burn_report_new(burn_device *device, const char *const *sites, int64_t site_count);
void *burn_report_word(const burn_report *report);
/* Copies the word to the host after all work so far, for burn_device_reported; does not block. */
int32_t burn_report_copy(burn_report *report);
/* Waits for all work, reads the word (code BURN_OK if it is empty), and clears it. */
int32_t burn_report_read(burn_report *report, burn_reported *found);
/* Takes a failure that was copied to the host and not reported yet. 0: there is none. */
int burn_device_reported(burn_device *device, burn_reported *found);
void burn_report_delete(burn_report *report); /* accepts NULL */

/* ---- clocks ------------------------------------------------------------------------------------------------------ */
/* Marks a moment of the device's work; the nanoseconds between two, whichever is first, which waits for both. -1: failed. */
burn_device_moment *burn_device_mark(burn_device *device);
int64_t burn_device_between(burn_device_moment *first, burn_device_moment *last);
void burn_device_moment_delete(burn_device_moment *moment); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
