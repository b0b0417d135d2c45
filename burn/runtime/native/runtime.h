/* Shared declarations of the runtime. Compiled programs use burn_rt.h only. A host (the Python binding, a stand-alone
 * program) starts here: `burn_image_load` a program's object code, `burn_program_new`, `burn_program_run`.
 */
#ifndef BURN_RUNTIME_H
#define BURN_RUNTIME_H

#include "burn_rt.h"
#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef BURN_OWN
#define BURN_OWN /* linkage of the runtime's functions; `static` if the runtime is part of one file (deploy/native/small) */
#endif

enum { BURN_ALIGNMENT = 64, BURN_MAX_RANK = 64 };

/* Distance of the offsets in a page at which large buffers begin. Lines at one offset of all pages share a set of the first-level
 * cache, which has eight ways. A matmul's tile of six rows of whole pages would evict its own lines in two arrays of one offset. */
enum { BURN_SPREAD = 9 * BURN_ALIGNMENT };

/* ---- memory.c: blocks of 64-byte aligned memory ------------------------------------------------------------------ */
BURN_OWN void *burn_memory_new(int64_t bytes); /* NULL when there is none left; never NULL for 0 bytes */
BURN_OWN void burn_memory_free(void *memory);  /* accepts NULL */
BURN_OWN int32_t burn_memory_poisoned(void); /* the byte of burn_memory_poison, or -1 */
BURN_OWN void burn_memory_spoil(void *memory, int64_t bytes); /* fills it with the byte of burn_memory_poison, if there is one */
void burn_memory_poison(int32_t byte); /* fills new memory and arenas with a byte, to find reads of uninitialised memory; -1: off */
/* guarded.c: memory of programs on the CPU is next to pages without access, to find kernels that read or write outside of their
 * buffers. Before any memory is allocated. */
typedef enum burn_guard { BURN_GUARD_OFF, BURN_GUARD_END, BURN_GUARD_START } burn_guard;
void burn_memory_guard(burn_guard guard);
void burn_memory_trim(void);          /* returns freed memory, also malloc's, to the system */

/* ---- plan.c: where each buffer lies in the arena ----------------------------------------------------------------- */
typedef struct burn_live_range {
    int64_t first, last; /* the steps between which a buffer's contents matter, both included */
} burn_live_range;

typedef struct burn_plan_result {
    int32_t status;      /* burn_status */
    int64_t value;       /* the arena's bytes, or what is wrong */
} burn_plan_result;

BURN_OWN burn_plan_result burn_plan(const burn_live_range *ranges, const int64_t *sizes, int64_t count, int64_t *offsets);

/* ---- pool.c: threads --------------------------------------------------------------------------------------------- */
struct burn_worker {
    burn_run *run;
    void *scratch;
    int64_t scratch_bytes;
};

int32_t burn_pool_threads(void);            /* how many threads a launch may use, the caller included */
BURN_OWN void burn_pool_set_threads(int32_t threads);
int32_t burn_pool_threads_from(const char *text); /* BURN_NUM_THREADS as a number; 0 when unset or malformed */
void burn_pool_stop(void);                  /* joins the threads; a later launch starts them again */
void burn_pool_run_begins(void);            /* until it ends, threads that find nothing to do stay awake longer */
void burn_pool_run_ends(void);
/* Calls kernel over [0, count) on the caller and on whichever threads are free; returns when all of it is done. */
void burn_pool_launch(burn_worker *caller, burn_kernel kernel, const int64_t *args, int64_t count, int64_t grain);

/* ---- program.c, run.c: programs and their runs ------------------------------------------------------------------- */
typedef struct burn_program burn_program;

/* The caller's type of an input or output: a tensor of a burn_dtype (lib_keys.h), or `depth` containers (sequences,
 * optionals) around such tensors. In the program strings are words, and a container is a scalar word: see heap.h. */
typedef struct burn_kind {
    int32_t dtype, depth;
} burn_kind;

int burn_is_plain(burn_kind kind); /* a tensor of numbers */

/* The required type of an input, or of the tensors in it, whose symbols then match any size. A dim is a size, -1 - s for
 * symbol s, or BURN_ANY_DIM if the entry function checks it. */
typedef struct burn_input_spec {
    int64_t element_bytes, rank;
    const int64_t *dims;
    burn_kind kind;
} burn_input_spec;

#define BURN_ANY_DIM INT64_MIN
#define BURN_ANY_RANK (-1) /* in containers */
#define BURN_DESTINATION INT64_MAX

typedef struct burn_output_spec {
    int64_t element_bytes;
    int64_t alias; /* the input whose donated memory it may take, or -1 */
    burn_kind kind;
} burn_output_spec;

/* A GPU kernel: its machine code and launch parameters. */
typedef struct burn_device_kernel {
    const void *image;
    int64_t bytes;
    const char *name;
    int64_t shared;  /* bytes of dynamic shared memory */
    int32_t threads; /* of a block */
    int32_t early;   /* starts before the kernel before it ends, and waits for it itself */
} burn_device_kernel;

typedef struct burn_program_info {
    burn_entry_fn entry;
    int64_t inputs, outputs, constants, buffers, kernels; /* how many of each */
    const burn_input_spec *input_specs;
    const burn_output_spec *output_specs;
    void *const *constant_data;                           /* 64-byte aligned; outlives the program */
    const int64_t *constant_bytes;                        /* on a GPU: of each, or -1 for one in host memory */
    const burn_live_range *live_ranges;                   /* one a buffer */
    burn_device *device;                                  /* the program's GPU, or NULL */
    const burn_device_kernel *device_kernels;
    int64_t device_kernel_count;
    const char *const *sites; /* their names, which outlive the program: for failures that come after a run's end */
    int64_t site_count;
} burn_program_info;

typedef struct burn_input {
    void *data; /* of strings: packed as heap.h says; of a container: an array of burn_input, rank 1 */
    int64_t bytes, rank;
    const int64_t *dims;
    int32_t donated; /* the caller gives up the contents */
    int32_t on_device; /* data is an address in the memory of the program's device */
} burn_input;

typedef struct burn_output {
    void *data; /* the caller's from now on: burn_output_free. Strings packed, a container an array of burn_output */
    int64_t bytes, rank;
    int64_t dims[BURN_MAX_RANK];
    int64_t taken_from; /* the input whose memory this is, BURN_DESTINATION if it is the caller's (burn_destination), or -1 */
    int32_t on_device;    /* data is an address in the memory of the program's device: burn_device_free */
    burn_device_moment *ready; /* of an output on a GPU: when it is complete; NULL: when all work is done. The caller owns it */
} burn_output;

typedef struct burn_failure {
    int32_t code; /* burn_status */
    int64_t site, value;
} burn_failure;

typedef struct burn_profile_row {
    int64_t calls, nanoseconds;
} burn_profile_row;

typedef struct burn_profile_event {
    int64_t kernel, began, took; /* nanoseconds since the run began, and those that it took */
    int32_t on_device;
} burn_profile_event;

/* The profile of a run. The caller owns the memory. */
typedef struct burn_profile {
    burn_profile_row *rows;     /* one a kernel */
    burn_profile_event *events; /* in order for the host and for the GPU; events beyond event_room are dropped */
    int64_t event_count, event_room;
} burn_profile;

/* The caller's memory for an output. It is written without an intermediate copy if the address is a multiple of BURN_ALIGNMENT, or
 * if the output comes from a GPU. data: NULL to allocate it. */
typedef struct burn_destination {
    void *data;
    int64_t bytes; /* too few: the run fails with BURN_SMALL_OUTPUT, and the output's bytes and dims say what it needs */
} burn_destination;

/* Options of a call. */
typedef struct burn_options {
    burn_profile *profile;        /* or NULL */
    int (*poll)(void *context);   /* asked now and then, between launches, whether the run shall stop; or NULL */
    void *context;
    int32_t stay; /* outputs stay on the program's device */
    const burn_destination *destinations; /* one an output, or NULL; for tensors of numbers in the host's memory */
    int64_t deadline;         /* of burn_clock_ns, after which the run fails with BURN_TOO_LONG; 0: none */
    int64_t most_bytes;       /* that the run may take, its outputs among them, or it fails with BURN_TOO_LARGE; 0: any */
} burn_options;

/* Copies info's tables. NULL: out of memory, an unknown symbol, or a GPU error in `error`. */
burn_program *burn_program_new(const burn_program_info *info, char *error, size_t error_size);
void burn_program_delete(burn_program *program);
int64_t burn_program_arena(const burn_program *program); /* bytes of the largest arena among runs that are done */
void burn_program_release(burn_program *program); /* frees the arenas and scratch memory of runs that are done */
/* Says that a constant is a tensor of `count` strings, packed in `bytes` bytes. Before the first run; a burn_status. */
int32_t burn_program_texts(burn_program *program, int64_t constant, int64_t bytes, int64_t count);
/* One inference; thread-safe. The run fails before it starts if an input does not fit its spec, or if a donated input
 * shares memory with another input. On failure no output is left allocated.
 * `options` may be NULL. */
burn_failure burn_program_run(burn_program *program, const burn_input *inputs, burn_output *outputs,
                              const burn_options *options);

/* ---- run_traced.c: runs on a GPU with the caller's memory and stream ---------------------------------------------- */
/* A program's GPU work for inputs of certain sizes. Belongs to the program, and is deleted before it. */
typedef struct burn_traced burn_traced;

/* inputs: their sizes; `data` is not read. from_host: of each input, true if the host sends its elements at each submission. into: of each
 * output, the input that it is written to, or -1. NULL with the code BURN_OK: the host takes part in the program's runs. Not
 * thread-safe for one burn_traced. */
burn_traced *burn_program_trace(burn_program *program, const burn_input *inputs, const int32_t *from_host,
                                const int64_t *into, burn_failure *failure);
int64_t burn_traced_arena(const burn_traced *traced); /* bytes of GPU memory that a submission needs besides inputs and outputs */
int64_t burn_traced_steps(const burn_traced *traced); /* launches and copies */
/* Its sizes, and in taken_from the input that it is written to, or -1. */
const burn_output *burn_traced_output(const burn_traced *traced, int64_t index);
/* The address of an input, which the caller sets before a submission: a multiple of 16. */
int64_t *burn_traced_input(burn_traced *traced, int64_t index);
/* Submits the work to a stream. from_host: elements of the inputs that the host sends. outputs: GPU memory for each output that is not
 * written to an input. arena: GPU memory, which the stream's later work may overwrite, as soon as this returns. as_graph: see
 * burn_list_submit. A burn_status. */
int32_t burn_traced_submit(burn_traced *traced, void *arena, const void *const *from_host, void *const *outputs, void *stream,
                           int as_graph);
void burn_traced_delete(burn_traced *traced); /* accepts NULL */

/* Ends the runs of a program that are under way, from any thread: they fail with BURN_CANCELLED, at the next range of iterations
 * of a kernel at the latest. Later runs are not touched. */
void burn_program_cancel(burn_program *program);
void burn_output_free(burn_kind kind, burn_output *output); /* memory that was donated stays */
/* True when the run has failed; what is left of a launch is then skipped. */
int burn_run_failed(burn_run *run);
int64_t burn_clock_ns(void); /* system.c */

/* ---- lib_image.c: what a host may offer -------------------------------------------------------------------------- */
/* Decodes an image file; returns the pixels [height, width, channels] in memory of burn_rt_alloc, or NULL. `form`: see lib.h. */
typedef void *(*burn_image_decoder)(burn_run *run, int64_t form, const void *data, int64_t bytes, int64_t sizes[2]);
void burn_set_image_decoder(burn_image_decoder decoder);
/* Prints a text with tensors (function -1), or calls the host's function of that number with them: see lib_debug.c. Returns 0 if
 * that worked. */
typedef int (*burn_debug_host)(burn_run *run, int64_t function, const char *text, int64_t bytes, int64_t count,
                               const int64_t *words);
void burn_set_debug_host(burn_debug_host function);

/* ---- lib_custom.c --------------------------------------------------------------------------------------------------- */
/* Calls the host's function of a number with tensors (lib_custom.c), and writes its results. Returns 0 if that worked. */
typedef int (*burn_custom_host)(burn_run *run, int64_t function, int64_t inputs, int64_t outputs, const int64_t *words);
void burn_set_custom_host(burn_custom_host function);
/* 1: custom ops in C get copies of their tensors with zones around them, which are checked after each call. 0: they do not.
 * By default the environment's BURN_DEBUG_BOUNDS decides. */
void burn_custom_check(int32_t is_on);

/* ---- lib_collective.c ----------------------------------------------------------------------------------------------- */
/* Does a collective: see lib.h. A burn_status. */
typedef int32_t (*burn_collective_host)(burn_run *run, int64_t kind, int64_t number, int64_t size, int64_t ranks,
                                        const int64_t *groups, int64_t count, const int64_t *words);
void burn_set_collective_host(burn_collective_host function);

/* ---- elf.c: a program's object code in memory -------------------------------------------------------------------- */
typedef struct burn_image burn_image;

burn_image *burn_image_load(const void *object, size_t size, char *error, size_t error_size); /* NULL: see error */
void *burn_image_symbol(const burn_image *image, const char *name); /* NULL: no such function */
void burn_image_unload(burn_image *image);

/* ---- symbols.c: what a program may call -------------------------------------------------------------------------- */
typedef void (*burn_function)(void);
typedef struct burn_symbol {
    const char *name;
    burn_function function;
} burn_symbol;

extern const burn_symbol burn_symbols[]; /* ends with a NULL name */
burn_function burn_symbol_find(const char *name);
/* A function of a library that the host has opened, such as a custom op's, which stays open. Returns 0 if there is no memory.
 * Thread-safe. */
int burn_symbol_add(const char *name, burn_function function);

/* ---- cpu.c ------------------------------------------------------------------------------------------------------- */
/* Calls `found` with the LLVM name of each instruction-set extension that this CPU and its operating system offer. */
void burn_cpu_features(void (*found)(void *context, const char *feature), void *context);
int64_t burn_cpu_cache_bytes(int level); /* data cache of level 1, 2 or 3; 0 when unknown */
void burn_cpu_name(char name[64]);       /* "" when unknown */
int32_t burn_cpu_cores(void);            /* cores this process may use, hyper-threads counted once */

#ifdef __cplusplus
}
#endif
#endif
