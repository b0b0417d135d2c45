/* Traced calls: the GPU work of a program for inputs of certain sizes, as a list whose addresses are open (device_list.c).
 *
 * A caller with its own allocator and stream traces the program once for given sizes, and then submits the list with the addresses of
 * a call. The entry function runs while tracing only. It gets addresses that stand for regions: one for each input and output, one for
 * the arena, one for each further block. Launches and copies are noted, not submitted. An address in their arguments tells its region.
 *
 * A program that reads from the GPU during a run, or computes on the host, cannot be traced.
 */
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* An address that stands for a region: MARK, the region's number, and an offset around a middle. Sizes are never so large, and no
 * driver gives such addresses. */
enum { OFFSET_BITS = 40, REGION_BITS = 17 };
#define MARK ((int64_t)0x2d << (OFFSET_BITS + REGION_BITS))
#define MIDDLE ((int64_t)1 << (OFFSET_BITS - 1))

enum { LAUNCH, COPY };

typedef struct noted {
    int kind;
    int64_t kernel, blocks, bytes; /* blocks of a launch, bytes of a copy */
    int64_t first, count;          /* its words */
} noted;

typedef struct block {
    int64_t bytes;
    burn_live_range used; /* by steps, both included */
} block;

struct burn_trace {
    const burn_program_info *info;
    noted *steps;
    int64_t count, room;
    int64_t *words, word_count, word_room;
    block *blocks; /* regions behind those of the arena, the inputs and the outputs */
    int64_t block_count, block_room;
    int64_t arena;
    burn_report *report;
    int host; /* takes part */
};

struct burn_traced {
    burn_program *program;
    burn_device_list *list;
    burn_report *report;
    int64_t arena;
    int64_t *staged;   /* of each input: where in the arena the host's elements are copied to, or -1 */
    burn_input *inputs;
    burn_output *outputs;
    int64_t *regions;
};

/* ---- regions ----------------------------------------------------------------------------------------------------- */

static void *address_of(int64_t region) { return (void *)(intptr_t)(MARK | region << OFFSET_BITS | MIDDLE); }
static int is_address(int64_t word) { return (word & ((int64_t)0x7f << (OFFSET_BITS + REGION_BITS))) == MARK && word > 0; }
static int64_t region_of(int64_t word) { return (word >> OFFSET_BITS) & (((int64_t)1 << REGION_BITS) - 1); }
static int64_t offset_of(int64_t word) { return (word & (((int64_t)1 << OFFSET_BITS) - 1)) - MIDDLE; }

static int64_t of_input(int64_t index) { return 1 + index; }
static int64_t of_output(const burn_program_info *info, int64_t index) { return 1 + info->inputs + index; }
static int64_t of_block(const burn_program_info *info, int64_t index) { return 1 + info->inputs + info->outputs + index; }

/* ---- what the entry function calls ------------------------------------------------------------------------------- */

static int has_room(void **items, int64_t *room, int64_t count, size_t size) {
    if (count <= *room)
        return 1;
    int64_t more = count + *room + 32;
    void *larger = realloc(*items, (size_t)more * size);
    if (!larger)
        return 0;
    *items = larger;
    *room = more;
    return 1;
}

static void *no_memory(burn_run *run) { return burn_run_fail(run, BURN_OUT_OF_MEMORY, sizeof(noted)); }

void burn_trace_end(burn_run *run) {
    if (!run->trace)
        return;
    run->trace->host = 1;
    burn_run_fail(run, BURN_DEVICE_FAILED, 0);
}

void *burn_trace_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    if (run->planned)
        return burn_run_fail(run, BURN_SHAPE_MISMATCH, count);
    burn_plan_result plan = burn_plan(run->program->info.live_ranges, sizes, count, offsets);
    if (plan.status != BURN_OK)
        return burn_run_fail(run, plan.status, plan.value);
    run->planned = 1;
    run->trace->arena = plan.value;
    return address_of(0);
}

/* A block that is used from the step `first` on, until it is freed. -1: the run has failed. */
static int64_t new_block(burn_run *run, int64_t bytes, int64_t first) {
    burn_trace *trace = run->trace;
    if (!has_room((void **)&trace->blocks, &trace->block_room, trace->block_count + 1, sizeof *trace->blocks)) {
        no_memory(run);
        return -1;
    }
    trace->blocks[trace->block_count] = (block){bytes, {first, INT64_MAX}};
    return of_block(trace->info, trace->block_count++);
}

void *burn_trace_alloc(burn_run *run, int64_t bytes) {
    int64_t region = new_block(run, bytes, run->trace->count);
    if (region < 0)
        return NULL;
    if (region >> REGION_BITS) { /* too many for their numbers */
        burn_trace_end(run);
        return NULL;
    }
    return address_of(region);
}

void burn_trace_free(burn_run *run, void *memory) {
    burn_trace *trace = run->trace;
    int64_t index = region_of((int64_t)(intptr_t)memory) - of_block(trace->info, 0);
    if (index >= 0 && index < trace->block_count)
        trace->blocks[index].used.last = trace->count;
}

void *burn_trace_output(burn_run *run, int64_t index) { return address_of(of_output(&run->program->info, index)); }

void *burn_trace_failure(burn_run *run) {
    burn_trace *trace = run->trace;
    const burn_program_info *info = trace->info;
    if (!trace->report && !burn_run_failed(run)) {
        trace->report = burn_report_new(info->device, info->sites, info->site_count);
        if (!trace->report)
            burn_rt_fail(run, burn_device_error_status(), -1, sizeof(int64_t));
    }
    return burn_run_failed(run) ? NULL : burn_report_word(trace->report);
}

static void note(burn_run *run, noted step, const int64_t *words) {
    burn_trace *trace = run->trace;
    if (!has_room((void **)&trace->steps, &trace->room, trace->count + 1, sizeof *trace->steps) ||
        !has_room((void **)&trace->words, &trace->word_room, trace->word_count + step.count, sizeof *trace->words)) {
        no_memory(run);
        return;
    }
    step.first = trace->word_count;
    if (step.count)
        memcpy(&trace->words[step.first], words, (size_t)step.count * sizeof *words);
    trace->word_count += step.count;
    trace->steps[trace->count++] = step;
}

void burn_trace_copy(burn_run *run, void *to, const void *from, int64_t bytes) {
    const int64_t words[] = {(int64_t)(intptr_t)to, (int64_t)(intptr_t)from};
    if (bytes > 0 && to != from && !burn_run_failed(run))
        note(run, (noted){COPY, 0, 0, bytes, 0, 2}, words);
}

void burn_trace_launch(burn_run *run, int64_t kernel, const int64_t *args, int64_t count, int64_t blocks) {
    if (blocks > INT32_MAX || blocks < 0)
        burn_run_fail(run, BURN_SIZE_OVERFLOW, blocks);
    else if (blocks)
        note(run, (noted){LAUNCH, kernel, blocks, 0, 0, count}, args);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Plans the blocks, also those of elements that the host sends, behind the planned arena. at: the offset of each block. 0: out of memory. */
static int plan_blocks(burn_trace *trace, int64_t *at) {
    int64_t count = trace->block_count;
    int64_t *sizes = malloc(((size_t)count + 1) * sizeof *sizes);
    burn_live_range *ranges = malloc(((size_t)count + 1) * sizeof *ranges);
    burn_plan_result plan = {BURN_OUT_OF_MEMORY, 0};
    for (int64_t i = 0; sizes && ranges && i < count; i++) {
        sizes[i] = (trace->blocks[i].bytes + BURN_DEVICE_ALIGNMENT - 1) / BURN_DEVICE_ALIGNMENT * BURN_DEVICE_ALIGNMENT;
        ranges[i] = trace->blocks[i].used;
    }
    if (sizes && ranges)
        plan = burn_plan(ranges, sizes, count, at);
    free(sizes);
    free(ranges);
    int64_t begin = (trace->arena + BURN_DEVICE_ALIGNMENT - 1) / BURN_DEVICE_ALIGNMENT * BURN_DEVICE_ALIGNMENT;
    for (int64_t i = 0; i < count; i++)
        at[i] += begin;
    trace->arena = count ? begin + plan.value : trace->arena;
    return plan.status == BURN_OK;
}

/* blocks_of: the block that stands for each input or output, by region, or -1. */
static burn_word word_of(const burn_trace *trace, int64_t word, const int64_t *at, const int64_t *blocks_of) {
    if (!is_address(word))
        return (burn_word){word, -1};
    int64_t region = region_of(word), offset = offset_of(word), first = of_block(trace->info, 0);
    int64_t number = region >= first ? region - first : region ? blocks_of[region] : -1;
    return number < 0 ? (burn_word){offset, (int32_t)region} : (burn_word){offset + at[number], 0};
}

static burn_device_list *list_of(burn_program *program, const burn_trace *trace, const int64_t *at, const int64_t *blocks_of) {
    const burn_program_info *info = trace->info;
    burn_device_list *list = burn_list_new(info->device, (int32_t)of_block(info, 0));
    burn_word *words = malloc(((size_t)trace->word_count + 1) * sizeof *words);
    int made = list && words;
    for (int64_t i = 0; made && i < trace->word_count; i++)
        words[i] = word_of(trace, trace->words[i], at, blocks_of);
    for (int64_t i = 0; made && i < trace->count; i++) {
        const noted *it = &trace->steps[i];
        made = it->kind == COPY ? burn_list_copy(list, words[it->first], words[it->first + 1], it->bytes)
                                : burn_list_launch(list, program->functions[it->kernel], it->blocks,
                                                   info->device_kernels[it->kernel].threads, &words[it->first],
                                                   (int32_t)it->count);
    }
    free(words);
    if (made && burn_list_seal(list, trace->report))
        return list;
    burn_list_delete(list);
    return NULL;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* Inputs as the entry function gets them. */
static void set_inputs(burn_run *run, const burn_traced *traced, const int64_t *into) {
    const burn_program_info *info = &run->program->info;
    for (int64_t i = 0; i < info->inputs; i++) {
        traced->inputs[i].data = address_of(of_input(i));
        traced->inputs[i].on_device = 1;
        traced->inputs[i].donated = 0;
    }
    for (int64_t o = 0; o < info->outputs; o++)
        if (into[o] >= 0)
            traced->inputs[into[o]].donated = 1;
    run->inputs = traced->inputs;
    run->outputs = traced->outputs;
}

/* Outputs that must come to lie in an input, and are computed elsewhere, are computed in a block and copied at the end. */
static void copy_updates(burn_run *run, const int64_t *into, int64_t *blocks_of) {
    burn_trace *trace = run->trace;
    const burn_program_info *info = trace->info;
    for (int64_t o = 0; o < info->outputs && !burn_run_failed(run); o++) {
        burn_output *output = &run->outputs[o];
        if (into[o] < 0 || output->taken_from == into[o])
            continue;
        int64_t region = output->taken_from < 0 ? new_block(run, output->bytes, 0) : of_input(output->taken_from);
        if (region < 0)
            return;
        if (output->taken_from < 0)
            blocks_of[of_output(info, o)] = region - of_block(info, 0);
        burn_trace_copy(run, address_of(of_input(into[o])), output->data, output->bytes);
        output->taken_from = into[o];
    }
}

static int stage_inputs(burn_run *run, const int32_t *from_host, int64_t *blocks_of) {
    for (int64_t i = 0; i < run->program->info.inputs; i++)
        if (from_host[i]) {
            int64_t region = new_block(run, run->inputs[i].bytes, 0);
            if (region < 0)
                return 0;
            blocks_of[of_input(i)] = region - of_block(run->trace->info, 0);
        }
    return 1;
}

static void trace_run(burn_run *run, burn_traced *traced, const burn_input *inputs, const int32_t *from_host,
                      const int64_t *into) {
    const burn_program_info *info = &run->program->info;
    memcpy(traced->inputs, inputs, (size_t)info->inputs * sizeof *inputs);
    for (int64_t i = 0; i < info->outputs; i++)
        traced->outputs[i] = (burn_output){.taken_from = -1};
    set_inputs(run, traced, into);
    run->options = (burn_options){NULL, NULL, NULL, 1, NULL, 0, 0};
    run->planned = 0;
    run->taken = 0;
    burn_run_check_inputs(run, run->inputs);
    int64_t regions = of_block(info, 0);
    int64_t *blocks_of = malloc((size_t)regions * sizeof *blocks_of), *at = NULL;
    for (int64_t r = 0; blocks_of && r < regions; r++)
        blocks_of[r] = -1;
    if (!blocks_of || regions >> REGION_BITS || !stage_inputs(run, from_host, blocks_of))
        no_memory(run);
    if (!burn_run_failed(run)) {
        int32_t returned = info->entry(run);
        if (returned != BURN_OK)
            burn_rt_fail(run, returned, -1, 0);
    }
    while (run->allocations)
        burn_rt_free(run, run->allocations + 1);
    burn_device_release(run, -1);
    if (!burn_run_failed(run)) {
        copy_updates(run, into, blocks_of);
        at = malloc(((size_t)run->trace->block_count + 1) * sizeof *at);
        if (!at || !plan_blocks(run->trace, at))
            no_memory(run);
    }
    if (!burn_run_failed(run)) {
        for (int64_t i = 0; i < info->inputs; i++)
            traced->staged[i] = from_host[i] ? at[blocks_of[of_input(i)]] : -1;
        traced->arena = run->trace->arena;
        traced->list = list_of(run->program, run->trace, at, blocks_of);
        if (!traced->list)
            no_memory(run);
    }
    free(blocks_of);
    free(at);
}

burn_traced *burn_program_trace(burn_program *program, const burn_input *inputs, const int32_t *from_host,
                                const int64_t *into, burn_failure *failure) {
    const burn_program_info *info = &program->info;
    burn_traced *traced = NULL;
    *failure = (burn_failure){BURN_OK, -1, 0};
    if (!info->device || program->unrecordable || program->made_in || program->made_out)
        return NULL;
    burn_run *run = burn_run_begin(program);
    burn_trace trace = {.info = info};
    size_t n = (size_t)info->inputs + 1, m = (size_t)info->outputs + 1;
    traced = calloc(1, sizeof *traced);
    if (traced) {
        *traced = (burn_traced){program, NULL, NULL, 0, malloc(n * sizeof(int64_t)), malloc(n * sizeof(burn_input)),
                                malloc(m * sizeof(burn_output)), calloc(n + m, sizeof(int64_t))};
    }
    if (!run || !traced || !traced->staged || !traced->inputs || !traced->outputs || !traced->regions) {
        if (run)
            burn_run_end(program, run);
        burn_traced_delete(traced);
        *failure = (burn_failure){BURN_OUT_OF_MEMORY, -1, sizeof *run};
        return NULL;
    }
    run->trace = &trace;
    trace_run(run, traced, inputs, from_host, into);
    run->trace = NULL;
    *failure = (burn_failure){atomic_load(&run->status), run->site, run->value};
    burn_texts_clear(&run->texts);
    burn_run_end(program, run);
    traced->report = trace.report;
    free(trace.steps);
    free(trace.words);
    free(trace.blocks);
    if (failure->code == BURN_OK) /* the constants, sent by the device's stream, are there */
        if (burn_device_wait(info->device) == BURN_OK)
            return traced;
    if (trace.host) {
        *failure = (burn_failure){BURN_OK, -1, 0};
        program->unrecordable = 1;
    } else if (failure->code == BURN_OK)
        *failure = (burn_failure){burn_device_error_status(), -1, burn_device_error_code()};
    burn_traced_delete(traced);
    return NULL;
}

int64_t burn_traced_arena(const burn_traced *traced) { return traced->arena; }
int64_t burn_traced_steps(const burn_traced *traced) { return burn_list_steps(traced->list); }
const burn_output *burn_traced_output(const burn_traced *traced, int64_t index) { return &traced->outputs[index]; }
int64_t *burn_traced_input(burn_traced *traced, int64_t index) { return &traced->regions[of_input(index)]; }

int32_t burn_traced_submit(burn_traced *traced, void *arena, const void *const *from_host, void *const *outputs, void *stream,
                           int as_graph) {
    const burn_program_info *info = &traced->program->info;
    int32_t status = BURN_OK;
    traced->regions[0] = (int64_t)(intptr_t)arena;
    for (int64_t i = 0; i < info->inputs && status == BURN_OK; i++)
        if (traced->staged[i] >= 0)
            status = burn_device_send_by(info->device, stream, (char *)arena + traced->staged[i], *from_host++,
                                         traced->inputs[i].bytes);
    for (int64_t o = 0; o < info->outputs; o++)
        if (traced->outputs[o].taken_from < 0)
            traced->regions[of_output(info, o)] = (int64_t)(intptr_t)*outputs++;
    return status == BURN_OK ? burn_list_submit(traced->list, traced->regions, stream, as_graph) : status;
}

void burn_traced_delete(burn_traced *traced) {
    if (!traced)
        return;
    burn_list_delete(traced->list);
    burn_report_delete(traced->report);
    free(traced->staged);
    free(traced->inputs);
    free(traced->outputs);
    free(traced->regions);
    free(traced);
}
