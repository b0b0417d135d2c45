/* Eight threads running one program at once while others change the number of threads: built with the thread
 * sanitizer by test_native.py. Exits with 0 when every result is right. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { CALLERS = 8, TURNS = 150, MOST = 3000 };

static void add_one(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    int64_t *data = (int64_t *)(intptr_t)args[0];
    int64_t *scratch = burn_rt_scratch(worker, 64 + begin);
    scratch[0] = 1;
    for (int64_t i = begin; i < end; i++)
        data[i] += scratch[0];
}

static void fail_at_the_end(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    (void)begin;
    if (end == args[1])
        burn_rt_kernel_fail(worker, BURN_INDEX_OUT_OF_RANGE, 3, end);
}

static void ask_for_too_much(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    (void)args, (void)begin, (void)end;
    if (burn_rt_scratch(worker, INT64_MAX))
        abort();
}

/* y = x + 4, in a planned buffer; fails when the size is a multiple of 7 or 11. */
static int32_t entry(burn_run *run) {
    int64_t count = burn_rt_input_dim(run, 0, 0), bytes = count * 8, offset;
    char *arena = burn_rt_plan(run, &bytes, 1, &offset);
    void *block = burn_rt_alloc(run, bytes);
    void *y = burn_rt_output(run, 0, 1, &count, bytes);
    memcpy(arena + offset, burn_rt_input(run, 0), (size_t)bytes);
    int64_t args[2] = {(int64_t)(intptr_t)(arena + offset), count};
    for (int i = 0; i < 4; i++)
        burn_rt_launch(run, 0, add_one, args, count, 50);
    if (count % 7 == 0)
        burn_rt_launch(run, 0, fail_at_the_end, args, count, 50);
    if (count % 11 == 0)
        burn_rt_launch(run, 0, ask_for_too_much, args, count, 50);
    if (burn_rt_status(run) != BURN_OK) {
        if (burn_rt_alloc(run, 8) || burn_rt_mark(run) >= 0 || burn_rt_launch(run, 0, add_one, args, 1, 1) == BURN_OK)
            abort();
        return burn_rt_status(run);
    }
    burn_rt_free(run, block);
    memcpy(y, arena + offset, (size_t)bytes);
    return burn_rt_status(run);
}

static burn_program *program;

static void *call(void *seed) {
    int64_t x[MOST];
    for (int64_t turn = 0; turn < TURNS; turn++) {
        int64_t count = 1 + ((intptr_t)seed * 997 + turn * 131) % MOST;
        for (int64_t i = 0; i < count; i++)
            x[i] = i * turn;
        burn_input input = {x, count * 8, 1, &count, 0};
        burn_output output;
        burn_failure failure = burn_program_run(program, &input, &output, NULL);
        if (count % 7 == 0) {
            if (failure.code != BURN_INDEX_OUT_OF_RANGE || failure.site != 3 || failure.value != count)
                return "a failure was lost";
            continue;
        }
        if (count % 11 == 0) {
            if (failure.code != BURN_OUT_OF_MEMORY || failure.value != INT64_MAX)
                return "exhausted memory was lost";
            continue;
        }
        if (failure.code)
            return "a run failed";
        for (int64_t i = 0; i < count; i++)
            if (((int64_t *)output.data)[i] != i * turn + 4)
                return "a result is wrong";
        burn_memory_free(output.data);
    }
    return NULL;
}

int main(void) {
    static const burn_live_range range = {0, 1};
    static const int64_t dim = -1;
    static const burn_input_spec input = {.element_bytes = 8, .rank = 1, .dims = &dim};
    static const burn_output_spec output = {.element_bytes = 8, .alias = -1};
    burn_program_info info = {.entry = entry, .inputs = 1, .outputs = 1, .buffers = 1, .kernels = 1,
                              .input_specs = &input, .output_specs = &output, .live_ranges = &range};
    char error[256];
    program = burn_program_new(&info, error, sizeof error);
    burn_pool_set_threads(8);
    pthread_t callers[CALLERS];
    for (intptr_t i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], NULL, call, (void *)i);
    for (int i = 0; i < 50; i++)
        burn_pool_set_threads(1 + i % 8);
    int status = 0;
    for (int i = 0; i < CALLERS; i++) {
        void *problem;
        pthread_join(callers[i], &problem);
        if (problem) {
            puts(problem);
            status = 1;
        }
    }
    burn_program_delete(program);
    burn_pool_stop();
    return status;
}
