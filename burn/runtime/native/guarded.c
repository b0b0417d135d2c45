/* Blocks between pages without access: see guarded.h. */
#include <string.h>

#include "device_inner.h"
#include "guarded.h"
#include "run.h"
#include "system.h"

#ifdef BURN_GUARDS

static const int64_t UNIT = 64 << 10; /* a multiple of the pages of every system */
static const int64_t LIMIT = (int64_t)1 << 46;

typedef struct header {
    void *pages;
    int64_t bytes; /* of all pages */
    void *next;    /* payload of the next block of a run */
} header;

static burn_guard side = BURN_GUARD_OFF;

void burn_memory_guard(burn_guard guard) { side = guard; }

int burn_guards_are_on(void) { return side != BURN_GUARD_OFF; }

/* No payload of one byte or more begins at the second guard, and an empty one is there. */
static header *header_of(void *memory) { return (header *)((uintptr_t)memory / (uintptr_t)UNIT * (uintptr_t)UNIT - 2 * (uintptr_t)UNIT); }

void *burn_guarded_new(int64_t bytes) {
    if (bytes < 0 || bytes > LIMIT)
        return NULL;
    const int64_t payload = (bytes + UNIT - 1) / UNIT * UNIT, whole = payload + 4 * UNIT;
    char *pages = burn_pages_new(whole);
    if (!pages)
        return NULL;
    char *begin = (char *)(((uintptr_t)pages + (uintptr_t)UNIT - 1) / (uintptr_t)UNIT * (uintptr_t)UNIT), *first = begin + 2 * UNIT;
    if (!burn_pages_deny(begin + UNIT, UNIT) || !burn_pages_deny(first + payload, UNIT)) {
        burn_pages_free(pages, whole);
        return NULL;
    }
    *(header *)begin = (header){pages, whole, NULL};
    return side == BURN_GUARD_END ? first + payload - bytes : first;
}

void burn_guarded_free(void *memory) {
    const header block = *header_of(memory);
    burn_pages_free(block.pages, block.bytes);
}

void *burn_guarded_for_run(burn_run *run, int64_t bytes) {
    void *memory = burn_memory_new(bytes);
    if (!memory)
        return burn_run_fail(run, BURN_OUT_OF_MEMORY, bytes);
    header_of(memory)->next = run->guarded;
    run->guarded = memory;
    return memory;
}

void burn_guarded_run_end(burn_run *run) {
    while (run->guarded) {
        void *memory = run->guarded;
        run->guarded = header_of(memory)->next;
        burn_guarded_free(memory);
    }
    if (burn_guards_are_on() && !run->program->info.device)
        run->arena = NULL; /* a block of the run */
}

void *burn_guarded_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    const size_t table = (size_t)count * sizeof *sizes;
    if (run->planned && table && memcmp(sizes, run->sizes, table) != 0)
        return burn_run_fail(run, BURN_SHAPE_MISMATCH, count);
    void *base = run->planned ? run->arena : burn_guarded_for_run(run, 0);
    for (int64_t i = 0; base && !run->planned && i < count; i++) {
        if (sizes[i] < 0)
            return burn_run_fail(run, BURN_NEGATIVE_SIZE, sizes[i]);
        void *memory = burn_run_take(run, sizes[i]) ? burn_guarded_for_run(run, sizes[i]) : NULL;
        if (!memory)
            return NULL;
        run->sizes[i] = sizes[i];
        run->offsets[i] = (int64_t)((uintptr_t)memory - (uintptr_t)base);
    }
    if (table)
        memcpy(offsets, run->offsets, table);
    run->planned = base != NULL;
    return run->arena = base;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

enum { BEHIND = 4096, KNOWN = 0x7b }; /* bytes behind each buffer, and their value */

static int64_t aligned(int64_t bytes) { return (bytes + BURN_DEVICE_ALIGNMENT - 1) / BURN_DEVICE_ALIGNMENT * BURN_DEVICE_ALIGNMENT; }

burn_plan_result burn_guarded_device_plan(const int64_t *sizes, int64_t count, int64_t *offsets) {
    int64_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        if (sizes[i] < 0)
            return (burn_plan_result){BURN_NEGATIVE_SIZE, sizes[i]};
        if (sizes[i] > LIMIT || end > LIMIT)
            return (burn_plan_result){BURN_OUT_OF_MEMORY, sizes[i]};
        offsets[i] = end;
        end += aligned(sizes[i]) + BEHIND;
    }
    return (burn_plan_result){BURN_OK, end};
}

static void look_failed(burn_run *run, int32_t status) { burn_rt_fail(run, status, -1, burn_device_error_code()); }

void burn_guarded_device_begin(burn_run *run) {
    const burn_program_info *info = &run->program->info;
    for (int64_t i = 0; i < info->buffers && !burn_run_failed(run); i++) {
        char *end = (char *)run->arena + run->offsets[i] + run->sizes[i];
        int32_t status = burn_device_fill(info->device, end, KNOWN, aligned(run->sizes[i]) - run->sizes[i] + BEHIND);
        if (status != BURN_OK)
            look_failed(run, status);
    }
}

void burn_guarded_device_look(burn_run *run, const char *kernel) {
    const burn_program_info *info = &run->program->info;
    unsigned char seen[BEHIND];
    for (int64_t i = 0; run->planned && i < info->buffers && !burn_run_failed(run); i++) {
        int32_t status = burn_device_fetch(info->device, seen, (char *)run->arena + run->offsets[i] + run->sizes[i], BEHIND);
        int64_t changed = 0, last = 0;
        for (int64_t at = 0; status == BURN_OK && at < BEHIND; at++)
            if (seen[at] != KNOWN) {
                changed++;
                last = at;
            }
        if (changed)
            status = burn_device_refuse(info->device, BURN_DEVICE_FAILED,
                                        "%s wrote behind a buffer of %lld bytes, up to %lld bytes from its end", kernel,
                                        (long long)run->sizes[i], (long long)last + 1);
        if (status != BURN_OK)
            look_failed(run, status);
    }
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

void burn_guarded_inputs(burn_run *run) {
    const burn_program_info *info = &run->program->info;
    burn_input *inputs = burn_guarded_for_run(run, info->inputs * (int64_t)sizeof *inputs);
    for (int64_t i = 0; inputs && i < info->inputs; i++) {
        inputs[i] = run->inputs[i];
        if (inputs[i].donated || !burn_is_plain(info->input_specs[i].kind)) /* outputs may take donated memory */
            continue;
        inputs[i].data = burn_guarded_for_run(run, inputs[i].bytes);
        if (!inputs[i].data)
            return;
        if (inputs[i].bytes)
            memcpy(inputs[i].data, run->inputs[i].data, (size_t)inputs[i].bytes);
    }
    if (inputs)
        run->inputs = inputs;
}

#else
typedef int burn_no_guards; /* a translation unit is not empty */
#endif
