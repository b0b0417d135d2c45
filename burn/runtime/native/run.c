/* A run of a program, from the caller's inputs to its outputs: errors, limits, launches.
 *
 * After a failure all launches and allocations of a run fail. Generated code exits at the first failure, so
 * it never uses sizes that a failed kernel did not write.
 */
#include <stdatomic.h>

#include "guarded.h"
#include "run.h"
#include "system.h"

/* ---- a run ------------------------------------------------------------------------------------------------------- */

burn_failure burn_program_run(burn_program *program, const burn_input *inputs, burn_output *outputs,
                              const burn_options *options) {
    burn_run *run = burn_run_begin(program);
    if (!run)
        return (burn_failure){BURN_OUT_OF_MEMORY, -1, (int64_t)sizeof *run};
    run->inputs = inputs;
    run->outputs = outputs;
    run->options = options ? *options : (burn_options){NULL, NULL, NULL, 0, NULL, 0, 0};
    run->polled_at = 0;
    run->unpolled = 0;
    run->planned = 0;
    run->taken = 0;
    run->join = NULL;
    burn_profile_begin(run);
    for (int64_t i = 0; i < program->info.outputs; i++) {
        outputs[i].data = NULL;
        outputs[i].taken_from = -1;
        outputs[i].on_device = 0;
        outputs[i].ready = NULL;
    }
    burn_run_check_inputs(run, inputs);
    if (!burn_run_failed(run))
        burn_run_take_inputs(run);
    if (!burn_run_failed(run)) {
        burn_pool_run_begins();
        int32_t returned = program->info.device ? burn_recorded_entry(run) : program->info.entry(run);
        burn_pool_run_ends();
        if (returned != BURN_OK)
            burn_rt_fail(run, returned, -1, 0); /* has no effect on a failure already recorded */
    }
    burn_run_join(run); /* collectives of a failed run still write its memory */
    for (int64_t i = 0; i < program->info.outputs; i++)
        if (!outputs[i].data)
            burn_rt_fail(run, BURN_OUT_OF_MEMORY, -1, 0);
    if (program->info.device)
        burn_device_give_outputs(run);
    burn_profile_end(run);
    while (run->allocations)
        burn_rt_free(run, run->allocations + 1);
    burn_device_release(run, -1);
    int64_t given = burn_run_give_outputs(run);
    burn_failure failure = {atomic_load(&run->status), run->site, run->value};
    for (int64_t i = 0; failure.code != BURN_OK && i < program->info.outputs; i++) {
        burn_device_moment_delete(outputs[i].ready);
        outputs[i].ready = NULL;
        if (outputs[i].on_device && outputs[i].taken_from < 0) {
            burn_device_free(program->info.device, outputs[i].data);
            outputs[i].data = NULL;
        } else
            burn_output_free(i < given ? program->info.output_specs[i].kind : (burn_kind){0, 0}, &outputs[i]);
    }
    burn_texts_clear(&run->texts);
    burn_guarded_run_end(run);
    burn_run_end(program, run);
    return failure;
}

void burn_run_join(burn_run *run) {
    if (run->join)
        run->join(run);
    run->join = NULL;
}

/* Polls the host for cancellation. Reading the clock costs as much as a small launch, so only every 64th
 * short launch does it. */
void burn_run_poll(burn_run *run, int is_long) {
    static const int64_t INTERVAL_NS = 50000000;
    if ((!run->options.poll && !run->options.deadline) || (!is_long && ++run->unpolled % 64))
        return;
    int64_t now = burn_clock_ns();
    if (run->options.deadline && now > run->options.deadline)
        burn_rt_fail(run, BURN_TOO_LONG, -1, now - run->options.deadline);
    if (!run->options.poll)
        return;
    if (run->polled_at == 0)
        run->polled_at = now;
    if (now - run->polled_at < INTERVAL_NS)
        return;
    run->polled_at = now;
    if (run->options.poll(run->options.context))
        burn_rt_fail(run, BURN_INTERRUPTED, -1, 0);
}

int burn_run_take(burn_run *run, int64_t bytes) {
    run->taken += bytes;
    if (!run->options.most_bytes || run->taken <= run->options.most_bytes)
        return 1;
    burn_rt_fail(run, BURN_TOO_LARGE, -1, run->taken);
    return 0;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

void burn_rt_fail(burn_run *run, int64_t code, int64_t site, int64_t value) {
    int32_t none = BURN_OK;
    /* Kernels of one launch may fail on several threads; the first to get here writes the rest. */
    if (atomic_compare_exchange_strong(&run->status, &none, code ? (int32_t)code : BURN_OUT_OF_MEMORY)) {
        run->site = site;
        run->value = value;
    }
}

/* An index that may not count from the end, and is negative, comes as index - 2^62 (burn.from_start). */
#define FROM_START ((int64_t)1 << 62)

void burn_rt_kernel_fail(burn_worker *worker, int64_t code, int64_t site, int64_t value) {
    if (code == BURN_INDEX_OUT_OF_RANGE && value < -(FROM_START >> 1))
        value += FROM_START;
    burn_rt_fail(worker->run, code, site, value);
}

int32_t burn_rt_status(burn_run *run) { return atomic_load_explicit(&run->status, memory_order_relaxed); }

int burn_run_failed(burn_run *run) { return burn_rt_status(run) != BURN_OK; }

void *burn_run_fail(burn_run *run, int64_t code, int64_t value) {
    burn_rt_fail(run, code, -1, value);
    return NULL;
}

int burn_run_has(burn_run *run, int64_t index, int64_t count) {
    if (index >= 0 && index < count)
        return 1;
    burn_run_fail(run, BURN_INDEX_OUT_OF_RANGE, index);
    return 0;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

int64_t burn_rt_threads(burn_run *run) {
    (void)run;
    return burn_pool_threads();
}

int32_t burn_rt_launch(burn_run *run, int64_t kernel_id, burn_kernel kernel, const int64_t *args, int64_t count,
                       int64_t grain) {
    run->touched = 1;
    burn_trace_end(run);
    burn_run_poll(run, count > grain || grain <= 1);
    if (burn_run_failed(run))
        return burn_rt_status(run);
    if (run->options.profile && !run->bracket_depth) {
        burn_rt_enter(run, kernel_id);
        burn_pool_launch(&run->worker, kernel, args, count, grain);
        burn_rt_leave(run, kernel_id);
    } else
        burn_pool_launch(&run->worker, kernel, args, count, grain);
    return burn_rt_status(run);
}
