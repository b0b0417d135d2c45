/* The interface between compiled programs and the runtime, version 2: all functions that generated code may call.
 *
 * Portable C11. Generated code sees opaque pointers and 64-bit integers only, so that the same object links into a
 * process, a stand-alone program or a wasm module.
 *
 * Every call returns. On failure an allocating function returns NULL, a counting one -1, any other a burn_status;
 * the run records the failure. Generated code then exits: a kernel returns, the entry function jumps to its end. After a
 * failure, all later allocations and launches of the run fail.
 */
#ifndef BURN_RT_H
#define BURN_RT_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct burn_run burn_run;       /* one inference: its inputs, outputs, arena, error */
typedef struct burn_worker burn_worker; /* one thread's part of a launch: scratch memory, error channel */

/* A kernel computes iterations [begin, end) of its outermost (flattened) parallel loop. `args` are 64-bit words, including
 * addresses. */
typedef void (*burn_kernel)(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end);

/* The compiled program. Returns the run's status. */
typedef int32_t (*burn_entry_fn)(burn_run *run);

/* ---- inputs, constants, outputs ---------------------------------------------------------------------------------- */
/* The runtime has checked ranks, bytes, and the sizes in the program's table of inputs (burn_input_spec); the
 * entry function checks sizes that are expressions. */
void *burn_rt_input(burn_run *run, int64_t index);                  /* dense row-major, at least element-aligned */
int64_t burn_rt_input_dim(burn_run *run, int64_t index, int64_t axis);
void *burn_rt_constant(burn_run *run, int64_t index);               /* 64-byte aligned */
/* The memory of output `index`: new and 64-byte aligned, or the buffer of an input that the caller donated. dims: `rank`
 * sizes. bytes: the number that the program's kernels will write. Fails if these sizes have another number of bytes. */
void *burn_rt_output(burn_run *run, int64_t index, int64_t rank, const int64_t *dims, int64_t bytes);

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* The program's memory plan: sizes[i] bytes for buffer i; offsets[i] is filled in. Returns the arena's base, 64-byte
 * aligned. Live ranges are part of the artefact; the plan for the last sizes seen is kept, so equal sizes cost one
 * memcmp. */
void *burn_rt_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets);
/* A buffer whose size is known only in the middle of a run (data-dependent shapes, loops). Freed with the run at the
 * latest. */
void *burn_rt_alloc(burn_run *run, int64_t bytes);
void burn_rt_free(burn_run *run, void *memory);
/* Reallocates memory from burn_rt_alloc (or NULL) to `bytes` at least, with its contents. It grows
 * by half or more, and keeps its position in the order of allocation. */
void *burn_rt_grow(burn_run *run, void *memory, int64_t bytes);
/* An iteration of a loop: burn_rt_release(run, burn_rt_mark(run)) frees what was allocated in between. The mark is -1
 * once the run has failed or is to stop, so that every loop can be ended. */
int64_t burn_rt_mark(burn_run *run);
void burn_rt_release(burn_run *run, int64_t mark);
/* Thread-local scratch of a kernel, 64-byte aligned, valid until the kernel returns; a second call returns the same
 * memory, moved if it must grow. */
void *burn_rt_scratch(burn_worker *worker, int64_t bytes);

/* ---- data: the entry function touches tensors' elements through these alone, so that they may lie on a device ---- */
void burn_rt_copy(burn_run *run, void *to, const void *from, int64_t bytes);
int64_t burn_rt_read(burn_run *run, const void *from, int64_t bytes); /* an integer of 1, 4 or 8 bytes, sign-extended */
void burn_rt_write(burn_run *run, void *to, int64_t value, int64_t bytes);

/* How many threads a launch may use. */
int64_t burn_rt_threads(burn_run *run);

/* ---- launches ---------------------------------------------------------------------------------------------------- */
/* Runs kernel over [0, count), divided into ranges of at least |grain| iterations; on this thread alone if count <= |grain|.
 * A negative grain also limits the number of ranges to that of threads. Kernels that copy operands at the start of each
 * range use it. `kernel_id` indexes the artefact's kernel table (profiling). Returns the run's status. */
int32_t burn_rt_launch(burn_run *run, int64_t kernel_id, burn_kernel kernel, const int64_t *args, int64_t count,
                       int64_t grain);
/* Interprets a table of steps: memory plans, outputs and launches of a program that must be small. Returns the run's status.
 *
 * The table is a sequence of LEB128 numbers (seven bits a byte, lowest first, highest bit set if more follow).
 *
 *     the kernel_id of the first launch, then for each step: its kind, its number of words, its words
 *
 * Kinds: 0 end, 1 plan, 2 output, 3 + k a launch of kernel k.
 *
 * The two lowest bits of a word select the meaning of the remaining number n.
 *
 *     0: n itself   1: held[n]   2: the address of constant n   3: the address of input n
 *
 * Words by kind:
 *     plan    the sizes; the buffers' addresses are stored in held[0], held[1] ...
 *     output  its sizes, its bytes, its index, and the index in `held` that receives its address
 *     launch  the kernel's arguments; the kernel's address, if kernels(k) is NULL; count; grain
 * `words` has room for the words of any step. */
typedef burn_kernel (*burn_kernels)(int64_t number);
int32_t burn_rt_steps(burn_run *run, const unsigned char *steps, int64_t *words, int64_t *held, burn_kernels kernels);
/* A call of library code (sort, unique ...) is bracketed so that it shows in a profile. */
void burn_rt_enter(burn_run *run, int64_t kernel_id);
void burn_rt_leave(burn_run *run, int64_t kernel_id);

/* ---- GPUs: called only by programs with tensors in GPU memory --------------------------------------------------------- */
/* Inputs, outputs, constants, the arena and all addresses below are then GPU addresses, except the
 * host addresses of fetch and send. All work runs in order, and only reads wait. */
void *burn_rt_device_alloc(burn_run *run, int64_t bytes); /* as burn_rt_alloc, with the same marks */
void burn_rt_device_free(burn_run *run, void *memory);
void *burn_rt_device_grow(burn_run *run, void *memory, int64_t bytes);
void burn_rt_device_copy(burn_run *run, void *to, const void *from, int64_t bytes);
int64_t burn_rt_device_read(burn_run *run, const void *from, int64_t bytes);
void burn_rt_device_write(burn_run *run, void *to, int64_t value, int64_t bytes);
/* Copies to memory of burn_rt_alloc; and from host memory to GPU memory. */
void *burn_rt_fetch(burn_run *run, const void *from, int64_t bytes);
void burn_rt_send(burn_run *run, void *to, const void *from, int64_t bytes);
/* A word that is 0 until a kernel fails: then the number of its site plus one in the upper 16 bits, the index below. */
void *burn_rt_device_failure(burn_run *run);
/* All work that an output depends on is submitted, and much more follows: reading the output waits only for the former. */
void burn_rt_device_ready(burn_run *run, int64_t output);
/* Launches a kernel of the artefact's table of GPU kernels with `blocks` blocks. `args` are `count` words. */
int32_t burn_rt_device_launch(burn_run *run, int64_t kernel_id, int64_t kernel, const int64_t *args, int64_t count,
                              int64_t blocks);
/* As burn_lib_collective (lib.h), with GPU addresses: submitted behind all earlier work, beside later work. */
int32_t burn_rt_device_collective(burn_run *run, int64_t kernel_id, int64_t kind, int64_t number, int64_t size, int64_t ranks,
                                  const int64_t *groups, int64_t count, const int64_t *words);
/* Later work follows the collective that writes this result. */
int32_t burn_rt_device_await(burn_run *run, const void *result);

/* ---- errors ------------------------------------------------------------------------------------------------------ */
/* The first failure of a run wins. `code` is burn_status, `site` an index into the artefact's table of sites (source
 * nodes), `value` the offending number. */
void burn_rt_fail(burn_run *run, int64_t code, int64_t site, int64_t value);
void burn_rt_kernel_fail(burn_worker *worker, int64_t code, int64_t site, int64_t value);
int32_t burn_rt_status(burn_run *run);

enum burn_status {
    BURN_OK = 0,
    BURN_OUT_OF_MEMORY = 1,      /* value: the bytes asked for */
    BURN_INDEX_OUT_OF_RANGE = 2, /* value: the index */
    BURN_SHAPE_MISMATCH = 3,     /* value: the size found */
    BURN_NEGATIVE_SIZE = 4,      /* value: the size */
    BURN_DIVIDE_BY_ZERO = 5,
    BURN_EMPTY_REDUCTION = 6,
    BURN_LOOP_LIMIT = 7,         /* value: the limit */
    BURN_CHECK_FAILED = 8,       /* value: the lhs of the condition; the site has its text */
    BURN_SIZE_OVERFLOW = 9,      /* a number of elements or bytes does not fit 64 bits */
    BURN_INPUT_MISMATCH = 10,    /* value: the input that does not fit the program */
    BURN_SHARED_MEMORY = 11,     /* value: the donated input that shares memory with another one */
    BURN_INTERRUPTED = 12,       /* the host asked for it */
    BURN_BAD_TEXT = 13,          /* a string is no number, or a string tensor's offsets are wrong; value: which one */
    BURN_EMPTY_LIST = 14,        /* an optional has no element to give, or a sequence none to join */
    BURN_WRONG_ITEM = 15,        /* a sequence's element is not of the type that was expected; value: its position */
    BURN_HOST_FAILED = 16,       /* the host could not do what the program asked it for */
    BURN_DEVICE_FAILED = 17,     /* the GPU or its driver failed: see burn_device_error; value: the driver's code */
    BURN_SMALL_OUTPUT = 18,      /* the caller's memory for an output is too small; value: the output */
    BURN_CANCELLED = 19,         /* burn_program_cancel */
    BURN_TOO_LONG = 20,          /* the run's deadline passed; value: nanoseconds beyond it */
    BURN_TOO_LARGE = 21,         /* the run would take more bytes than its limit; value: those that it would */
    BURN_NOT_FINITE = 22,        /* an op made a NaN, or an infinity; value: the index of the element */
    BURN_CUSTOM_FAILED = 23,     /* a custom op's function failed; value: the number that it returned */
    BURN_OUT_OF_BOUNDS = 24,     /* a custom op wrote where it must not; value: the tensor, its operands first */
    BURN_COLLECTIVE_FAILED = 25  /* a collective did not end: see burn_communicator_error */
};

#ifdef __cplusplus
}
#endif
#endif
