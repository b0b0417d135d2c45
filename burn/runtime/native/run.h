/* A program and a run of it, as program.c, run.c and run_*.c share them. */
#ifndef BURN_RUN_H
#define BURN_RUN_H

#include <stdatomic.h>

#include "device.h"
#include "heap.h"
#include "runtime.h"

/* A block from burn_rt_alloc: its neighbours in the run's list are in front of the 64-byte aligned payload. */
typedef struct allocation {
    struct allocation *previous, *next;
    int64_t bytes, order; /* of the payload; when it was allocated */
    char padding[BURN_ALIGNMENT - 2 * sizeof(void *) - 2 * sizeof(int64_t)];
} allocation;

typedef struct burn_recording burn_recording;
typedef struct burn_timed burn_timed;
typedef struct burn_trace burn_trace;

/* Memory from burn_rt_device_alloc. */
typedef struct burn_device_block {
    struct burn_device_block *next;
    void *memory;
    int64_t bytes, order;
} burn_device_block;

struct burn_run {
    burn_program *program;
    burn_run *next_free;
    burn_run *next_active, **active_link; /* in the program's list of runs that are under way; under the stock's lock */
    burn_worker worker; /* of the thread that called the program */
    /* this inference */
    const burn_input *inputs;
    burn_output *outputs;
    burn_options options;
    int64_t polled_at; /* when the host was last asked; 0: not yet */
    int64_t unpolled;  /* short launches since the clock was looked at */
    allocation *allocations; /* the latest first */
    int64_t next_order;
    int planned;
    int64_t taken, plan_bytes; /* bytes that this inference has; those of the plan for the last sizes */
    _Atomic int32_t status;
    int64_t site, value;
    burn_texts texts; /* strings, and on their heap lists */
    /* of this inference's profile: run_profile.c */
    int64_t bracket_depth; /* launches inside a bracketed library call are part of its time */
    int64_t began_at, entered_at;
    burn_device_moment *began;
    burn_timed *spans, **last_span;
    /* kept between inferences */
    void *arena;
    int64_t arena_bytes;
    int have_plan;
    int64_t *sizes, *offsets;
    int64_t *symbols;     /* the sizes of this call's inputs, one a symbol */
    const burn_input **regions; /* room to sort the inputs by address */
    /* on a GPU: see run_device.c */
    burn_device_block *blocks; /* the latest first */
    burn_report *report;       /* status word of kernels, or NULL; kept between inferences */
    int failure_given;         /* to a kernel of this inference */
    int touched;               /* the host took part in this inference */
    burn_recording *recordings; /* the latest first: see run_recorded.c */
    burn_recording *recording; /* what the entry function submits goes there */
    void (*join)(burn_run *run); /* lets later work follow the collectives so far; NULL: there are none */
    void *guarded;             /* blocks of this inference: see guarded.c */
    burn_trace *trace;         /* what the entry function would submit is noted there: see run_traced.c */
};

struct burn_program {
    burn_program_info info;
    int64_t *dims; /* of all inputs, one after another */
    int64_t symbols;
    int made_in, made_out; /* an input, an output has another form for the caller than for the program */
    burn_run *free_runs, *active_runs;
    burn_texts texts; /* of the constants */
    /* on a GPU */
    void **device_constants;
    burn_device_module **modules;
    burn_device_function **functions;
    _Atomic int unrecordable; /* its runs need the host; set once, by any thread */
};

/* ---- program.c ----------------------------------------------------------------------------------------------------- */
/* A context, which can be cancelled from here on; NULL where there is no memory. */
burn_run *burn_run_begin(burn_program *program);
void burn_run_end(burn_program *program, burn_run *run);

/* ---- run_arguments.c ----------------------------------------------------------------------------------------------- */
/* Fails the run if an input is not what the program takes. */
void burn_run_check_inputs(burn_run *run, const burn_input *inputs);
/* Puts what the caller gave into the form that compiled code works with. */
void burn_run_take_inputs(burn_run *run);
/* Puts the outputs into their caller's form; returns how many it changed. */
int64_t burn_run_give_outputs(burn_run *run);

/* ---- run_memory.c -------------------------------------------------------------------------------------------------- */
/* Memory for what the program plans or gives: on its device, if it has one. */
void *burn_program_memory_new(const burn_program *program, int64_t bytes);
void burn_program_memory_free(const burn_program *program, void *memory);

/* ---- run.c --------------------------------------------------------------------------------------------------------- */
void *burn_run_fail(burn_run *run, int64_t code, int64_t value); /* records a failure; NULL */
/* An index that generated code gave the runtime. Only a faulty compiler gives a wrong one. */
int burn_run_has(burn_run *run, int64_t index, int64_t count);
void burn_run_poll(burn_run *run, int is_long);
/* Later work of the device follows all collectives of the run, also of one that has failed. */
void burn_run_join(burn_run *run);
/* Counts bytes that the run takes. 0, and the run has failed: they are more than its limit. */
int burn_run_take(burn_run *run, int64_t bytes);

/* ---- run_device.c ---------------------------------------------------------------------------------------------------- */
/* Loads a program's kernels and constants; 0: `error` says why not. */
int burn_device_program(burn_program *program, char *error, size_t error_size);
void burn_device_program_end(burn_program *program);
/* Replaces a caller's inputs by GPU inputs. The run owns the memory. */
void burn_device_take_inputs(burn_run *run, burn_input *inputs);
/* Looks whether a kernel has failed, and waits for that. */
void burn_device_look(burn_run *run);
/* Brings the outputs to the host, if they belong there. */
void burn_device_give_outputs(burn_run *run);
void burn_device_release(burn_run *run, int64_t mark);
void burn_device_spoil(burn_run *run, void *memory, int64_t bytes); /* as burn_memory_spoil, on the device */
/* An output depends on the work submitted so far: failures up to this point are reported with it. */
void burn_device_ready(burn_run *run, int64_t output);
void burn_device_run_end(burn_run *run);

/* ---- run_profile.c --------------------------------------------------------------------------------------------------- */
void burn_profile_begin(burn_run *run);
void burn_profile_end(burn_run *run);
/* Brackets a kernel launch on a GPU. NULL: it is not timed. */
burn_timed *burn_profile_open(burn_run *run, int64_t kernel_id);
void burn_profile_close(burn_run *run, burn_timed *span);

/* ---- run_recorded.c -------------------------------------------------------------------------------------------------- */
int32_t burn_recorded_entry(burn_run *run);    /* the entry function, or what it submitted when it was called so before */
void burn_recordings_clear(burn_run *run);   /* as what they refer to is no more */
/* While the run is recorded: an output will be there when what was recorded so far is done. */
void burn_recording_ready(burn_run *run, int64_t output);
/* Memory that the run gives up while it is being recorded. */
void burn_recording_hold(burn_recording *recording, burn_device_block *block);


/* ---- run_traced.c ---------------------------------------------------------------------------------------------------- */
/* Counterparts of burn_rt_* for a run that is traced. They return addresses that stand for regions. */
void *burn_trace_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets);
void *burn_trace_alloc(burn_run *run, int64_t bytes);
void burn_trace_free(burn_run *run, void *memory);
void *burn_trace_output(burn_run *run, int64_t index);
void *burn_trace_failure(burn_run *run);
void burn_trace_copy(burn_run *run, void *to, const void *from, int64_t bytes);
void burn_trace_launch(burn_run *run, int64_t kernel, const int64_t *args, int64_t count, int64_t blocks);
/* The host takes part in the run, which therefore cannot be traced: it fails. */
void burn_trace_end(burn_run *run);

#endif
