/* Replaces memory.c in a program for the compiling machine. It runs a model once and prints the bytes of each
 * buffer, in order, and last the maximum scratch of a kernel. All sizes are fixed and there are no branches, so every
 * run allocates the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bare.h"

extern const burn_bare_program burn_measured;

static int64_t most;

static int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static void *zeros(int64_t bytes) {
    void *memory = aligned_alloc(64, (size_t)rounded(bytes + !bytes));
    if (!memory)
        abort();
    return __builtin_memset(memory, 0, (size_t)rounded(bytes + !bytes));
}

void *burn_rt_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    int64_t total = 0;
    (void)run;
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = total;
        total += rounded(sizes[i]);
        printf("%" PRId64 "\n", sizes[i]);
    }
    return zeros(total);
}

void *burn_rt_scratch(burn_worker *worker, int64_t bytes) {
    (void)worker;
    most = bytes > most ? bytes : most;
    return zeros(bytes);
}

int main(void) {
    const burn_bare_program *program = &burn_measured;
    const void **inputs = zeros((int64_t)sizeof *inputs * (program->input_count + 1));
    void **outputs = zeros((int64_t)sizeof *outputs * (program->output_count + 1));
    for (int32_t i = 0; i < program->input_count; i++)
        inputs[i] = zeros(program->inputs[i].bytes);
    for (int32_t i = 0; i < program->output_count; i++)
        outputs[i] = zeros(program->outputs[i].bytes);
    int32_t status = burn_bare_run(program, zeros(1), 1, inputs, outputs);
    printf("%" PRId64 "\n", most);
    return status;
}
