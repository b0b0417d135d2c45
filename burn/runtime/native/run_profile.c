/* Profiles of runs: calls, time and timeline of each kernel.
 *
 * CPU kernels are timed by the host's clock, one at a time; the time of a library call includes its launches. GPU kernels
 * are timed by the GPU's clock, between two events in the stream, without synchronisation; the events are
 * read at the end of the run.
 */
#include <stdlib.h>

#include "run.h"

struct burn_timed { /* of a GPU kernel */
    burn_timed *next;
    int64_t kernel;
    burn_device_moment *first, *last;
};

static void add_event(burn_run *run, int64_t kernel, int64_t began, int64_t took, int32_t on_device) {
    burn_profile *profile = run->options.profile;
    profile->rows[kernel].calls++;
    profile->rows[kernel].nanoseconds += took;
    if (profile->event_count < profile->event_room)
        profile->events[profile->event_count++] = (burn_profile_event){kernel, began, took, on_device};
}

static burn_device_moment *mark(burn_run *run) {
    burn_device_moment *moment = burn_device_mark(run->program->info.device);
    if (!moment)
        burn_rt_fail(run, burn_device_error_status(), -1, burn_device_error_code());
    return moment;
}

void burn_profile_begin(burn_run *run) {
    run->bracket_depth = 0;
    run->spans = NULL;
    run->last_span = &run->spans;
    run->began = run->options.profile && run->program->info.device ? mark(run) : NULL;
    run->began_at = run->options.profile ? burn_clock_ns() : 0;
}

void burn_profile_end(burn_run *run) {
    while (run->spans) {
        burn_timed *span = run->spans;
        run->spans = span->next;
        int64_t began = -1, took = -1;
        if (span->first && span->last && run->began) {
            began = burn_device_between(run->began, span->first);
            took = burn_device_between(span->first, span->last);
        }
        if (began >= 0 && took >= 0)
            add_event(run, span->kernel, began, took, 1);
        else
            burn_rt_fail(run, burn_device_error_status(), -1, burn_device_error_code());
        burn_device_moment_delete(span->first);
        burn_device_moment_delete(span->last);
        free(span);
    }
    burn_device_moment_delete(run->began);
    run->began = NULL;
}

burn_timed *burn_profile_open(burn_run *run, int64_t kernel_id) {
    if (!run->options.profile || run->bracket_depth || !burn_run_has(run, kernel_id, run->program->info.kernels))
        return NULL;
    burn_timed *span = calloc(1, sizeof *span);
    if (!span) {
        burn_run_fail(run, BURN_OUT_OF_MEMORY, sizeof *span);
        return NULL;
    }
    span->kernel = kernel_id;
    span->first = mark(run);
    *run->last_span = span;
    run->last_span = &span->next;
    return span;
}

void burn_profile_close(burn_run *run, burn_timed *span) {
    if (span)
        span->last = mark(run);
}

void burn_rt_enter(burn_run *run, int64_t kernel_id) {
    if (!run->options.profile || run->bracket_depth++ || !burn_run_has(run, kernel_id, run->program->info.kernels))
        return;
    burn_device *device = run->program->info.device;
    if (device && burn_device_wait(device) != BURN_OK) /* exclude earlier GPU work from this kernel's time */
        burn_rt_fail(run, burn_device_error_status(), -1, burn_device_error_code());
    run->entered_at = burn_clock_ns();
}

void burn_rt_leave(burn_run *run, int64_t kernel_id) {
    if (!run->options.profile || --run->bracket_depth || !burn_run_has(run, kernel_id, run->program->info.kernels))
        return;
    add_event(run, kernel_id, run->entered_at - run->began_at, burn_clock_ns() - run->entered_at, 0);
}
