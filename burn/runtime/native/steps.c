/* Goes through a program's table of steps (burn_rt.h). */
#include "burn_rt.h"

enum { END, PLAN, OUTPUT, LAUNCH };            /* and a kernel's number */
enum { NUMBER, HELD, CONSTANT, INPUT, KIND_BITS = 2 }; /* a word's two lowest bits */

static __attribute__((noinline)) int64_t next(const unsigned char **at) {
    uint64_t number = 0;
    int shift = 0, byte;
    do {
        byte = *(*at)++;
        number |= (uint64_t)(byte & 127) << shift;
        shift += 7;
    } while (byte > 127);
    return (int64_t)number;
}

/* The value of a word. */
static inline int64_t meant(burn_run *run, int64_t word, const int64_t *held) {
    int64_t number = word >> KIND_BITS;
    switch (word & ((1 << KIND_BITS) - 1)) {
    case NUMBER: return number;
    case HELD: return held[number];
    case CONSTANT: return (int64_t)(intptr_t)burn_rt_constant(run, number);
    default: return (int64_t)(intptr_t)burn_rt_input(run, number);
    }
}

int32_t burn_rt_steps(burn_run *run, const unsigned char *steps, int64_t *words, int64_t *held, burn_kernels kernels) {
    int64_t kernel_id = next(&steps), step;
    while (!burn_rt_status(run) && (step = next(&steps)) != END) {
        int64_t *end = words;
        for (int64_t count = next(&steps); count; count--)
            *end++ = meant(run, next(&steps), held);
        if (step == PLAN) {
            char *base = burn_rt_plan(run, words, end - words, held);
            for (int64_t *offset = held; base && offset < held + (end - words); offset++)
                *offset = (int64_t)(intptr_t)(base + *offset);
        } else if (step == OUTPUT) /* behind its sizes: bytes, the output's number, where its address is held */
            held[end[-1]] = (int64_t)(intptr_t)burn_rt_output(run, end[-2], end - words - 3, words, end[-3]);
        else { /* behind the kernel's words: its address where `kernels` has none, iterations, grain */
            burn_kernel kernel = kernels(step - LAUNCH);
            burn_rt_launch(run, kernel_id++, kernel ? kernel : (burn_kernel)(intptr_t)end[-3], words, end[-2], end[-1]);
        }
    }
    return burn_rt_status(run);
}
