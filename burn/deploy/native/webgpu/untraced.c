/* Traced calls (run_traced.c) are for callers with their own allocator and stream, which a page does not have: no run has a trace. */
#include "run.h"

void *burn_trace_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    (void)run, (void)sizes, (void)count, (void)offsets;
    return NULL;
}

void *burn_trace_alloc(burn_run *run, int64_t bytes) {
    (void)run, (void)bytes;
    return NULL;
}

void burn_trace_free(burn_run *run, void *memory) { (void)run, (void)memory; }

void *burn_trace_output(burn_run *run, int64_t index) {
    (void)run, (void)index;
    return NULL;
}

void *burn_trace_failure(burn_run *run) {
    (void)run;
    return NULL;
}

void burn_trace_copy(burn_run *run, void *to, const void *from, int64_t bytes) { (void)run, (void)to, (void)from, (void)bytes; }

void burn_trace_launch(burn_run *run, int64_t kernel, const int64_t *args, int64_t count, int64_t blocks) {
    (void)run, (void)kernel, (void)args, (void)count, (void)blocks;
}

void burn_trace_end(burn_run *run) { (void)run; }
