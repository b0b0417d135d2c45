/* Submissions of WebGPU: launches and recordings.
 *
 * Commands collect in one encoder. They are submitted when the host waits, reads, or writes to the heap, so a call of a program is
 * one submission. A recording is a list of launches as data: pipeline, words, workgroups.
 */
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"

/* ---- commands ---------------------------------------------------------------------------------------------------- */

void burn_wgpu_end_pass(void) {
    if (wgpu.pass) {
        wgpu.api.end_pass(wgpu.pass);
        wgpu.api.pass_release(wgpu.pass);
    }
    wgpu.pass = NULL;
}

wgpu_handle burn_wgpu_encoder(void) {
    if (!wgpu.encoder)
        wgpu.encoder = wgpu.api.encoder(wgpu.device, NULL);
    return wgpu.encoder;
}

wgpu_handle burn_wgpu_pass(const wgpu_timestamps *timestamps) {
    if (timestamps)
        burn_wgpu_end_pass();
    if (!wgpu.pass) {
        const wgpu_pass_descriptor descriptor = {.timestamps = timestamps};
        wgpu.pass = wgpu.api.begin_pass(burn_wgpu_encoder(), &descriptor);
    }
    return wgpu.pass;
}

/* Nothing is submitted after an error: wgpu-native may end the process in a submission to a lost device. */
int burn_wgpu_submit(wgpu_handle encoder) {
    wgpu_handle commands = wgpu.api.finish(encoder, NULL);
    wgpu.api.encoder_release(encoder);
    int code = burn_wgpu_status();
    if (!code)
        wgpu.api.submit(wgpu.queue, 1, &commands);
    if (commands)
        wgpu.api.commands_release(commands);
    return code ? code : burn_wgpu_status();
}

int burn_wgpu_flush(void) {
    if (!wgpu.encoder)
        return burn_wgpu_status();
    burn_wgpu_end_pass();
    if (wgpu.words_used && !wgpu.lost)
        wgpu.api.write(wgpu.queue, wgpu.words, 0, wgpu.pending_words, wgpu.words_used);
    wgpu.words_used = 0;
    wgpu_handle encoder = wgpu.encoder;
    wgpu.encoder = NULL;
    return burn_wgpu_submit(encoder);
}

/* A dimension of a grid has a limit, so the grid has two. */
static int dispatch(const wgpu_work *work) {
    uint32_t align = wgpu.limits.uniform_alignment, bytes = (work->count * 4 + align - 1) / align * align;
    if (work->kernel->session != wgpu.session)
        return WGPU_LOST;
    wgpu_handle pipeline = burn_wgpu_pipeline(work->kernel, work->pages);
    wgpu_handle group;
    int code = burn_wgpu_status();
    if (!code)
        code = burn_wgpu_group(work->pages, &group);
    if (!code && wgpu.words_used + bytes > WORDS_ROOM)
        code = burn_wgpu_flush();
    if (code)
        return code;
    memcpy((char *)wgpu.pending_words + wgpu.words_used, work->words, work->count * sizeof *work->words);
    uint32_t offset = wgpu.words_used, most = wgpu.limits.workgroups, groups = work->words[0];
    wgpu.words_used += bytes;
    uint32_t down = (groups + most - 1) / most, across = groups < most ? groups : (groups + down - 1) / down;
    wgpu_handle open = burn_wgpu_pass(NULL);
    wgpu.api.set_pipeline(open, pipeline);
    wgpu.api.set_group(open, 0, group, 1, &offset);
    wgpu.api.dispatch(open, across, down, 1);
    return burn_wgpu_status();
}

wgpu_step *burn_wgpu_recorded(void) {
    wgpu_step *step = calloc(1, sizeof *step);
    if (step) {
        *wgpu.capture->last = step;
        wgpu.capture->last = &step->next;
    }
    return step;
}

/* Does it now, or records it. */
int burn_wgpu_run(const wgpu_work *work) {
    if (!work->words[0])
        return 0;
    if (!wgpu.capture)
        return dispatch(work);
    wgpu_step *step = burn_wgpu_recorded();
    if (!step)
        return BURN_DRIVER_OUT_OF_MEMORY;
    step->work = *work;
    return 0;
}

/* Addresses become those that the launch's bindings have. `shift`: the bits of an address in a page. */
void burn_wgpu_choose_pages(wgpu_work *work, const uint8_t *is_address, int shift) {
    work->pages = 0;
    for (uint32_t i = 1; i < work->count; i++)
        if (is_address[i])
            work->pages |= burn_wgpu_pages_of((uint64_t)work->words[i] << (wgpu.page_bits - shift));
    work->pages = work->pages ? work->pages : 1;
    for (uint32_t i = 1; i < work->count; i++)
        if (is_address[i]) {
            uint64_t page = (uint64_t)work->words[i] >> shift, before = (uint64_t)__builtin_popcount(work->pages & ((1 << page) - 1));
            work->words[i] -= (uint32_t)((page - before) << shift);
        }
}

static int work_of(wgpu_work *work, const wgpu_module *module, unsigned blocks, void **parameters) {
    uint8_t is_address[MOST_WORDS] = {0};
    work->kernel = module->kernel;
    work->count = (uint32_t)module->count + 1;
    work->words[0] = blocks;
    for (int i = 0; i < module->count; i++) {
        int64_t value;
        memcpy(&value, parameters[i], sizeof value);
        int address = is_address[i + 1] = module->words[i] == 'a';
        if (address && value && burn_wgpu_local((uint64_t *)&value))
            return WGPU_LOST;
        if (address ? (value < 0 || value > UINT32_MAX || value % 4) : (value < INT32_MIN || value > INT32_MAX))
            return burn_wgpu_refuse(WGPU_REFUSED, "argument %d is %lld; kernels of WebGPU have 32-bit indices", i, (long long)value);
        work->words[i + 1] = address ? (uint32_t)(value / 4) : (uint32_t)(int32_t)value;
    }
    burn_wgpu_choose_pages(work, is_address, wgpu.page_bits - 2);
    return 0;
}

static int launch(void *function, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads, unsigned threads_y,
                  unsigned threads_z, unsigned shared, void *stream, void **parameters, void **extra) {
    (void)blocks_y, (void)blocks_z, (void)threads, (void)threads_y, (void)threads_z, (void)shared, (void)stream, (void)extra;
    wgpu_work work;
    pthread_mutex_lock(&wgpu.lock);
    int code = work_of(&work, function, blocks, parameters);
    if (!code)
        code = burn_wgpu_run(&work);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

static wgpu_graph *new_graph(void) {
    wgpu_graph *made = calloc(1, sizeof *made);
    if (made) {
        made->references = 1;
        made->last = &made->first;
    }
    return made;
}

static int release_graph(void *graph) {
    wgpu_graph *it = graph;
    pthread_mutex_lock(&wgpu.lock);
    int left = --it->references;
    pthread_mutex_unlock(&wgpu.lock);
    for (wgpu_step *next, *step = left ? NULL : it->first; step; step = next) {
        next = step->next;
        free(step);
    }
    if (!left)
        free(it);
    return 0;
}

static int begin_capture(void *stream, int mode) {
    (void)stream, (void)mode;
    pthread_mutex_lock(&wgpu.lock);
    wgpu.capture = new_graph();
    int code = wgpu.capture ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int end_capture(void *stream, void **graph) {
    (void)stream;
    pthread_mutex_lock(&wgpu.lock);
    *graph = wgpu.capture;
    wgpu.capture = NULL;
    pthread_mutex_unlock(&wgpu.lock);
    return 0;
}

static int graph_new(void **graph, unsigned flags) {
    (void)flags;
    *graph = new_graph();
    return *graph ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
}

static int graph_ready(void **ready, void *graph, unsigned long long flags) {
    (void)flags;
    wgpu_graph *it = graph;
    pthread_mutex_lock(&wgpu.lock);
    it->references++;
    pthread_mutex_unlock(&wgpu.lock);
    *ready = it;
    return 0;
}

static int graph_launch(void *ready, void *stream) {
    (void)stream;
    int code = 0;
    pthread_mutex_lock(&wgpu.lock);
    for (wgpu_step *step = ((wgpu_graph *)ready)->first; step && !code; step = step->next)
        code = step->to ? burn_wgpu_fetch_now(step->to, step->from, step->bytes) : dispatch(&step->work);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int set_launch_of(wgpu_step *step, const burn_driver_launch *launch) {
    pthread_mutex_lock(&wgpu.lock);
    int code = work_of(&step->work, launch->function, launch->blocks, launch->parameters);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int set_copy_of(wgpu_step *step, const burn_driver_copy *copy) {
    if (copy->to_host) {
        *step = (wgpu_step){.next = step->next, .to = (void *)(uintptr_t)copy->to, .from = copy->from, .bytes = copy->bytes};
        return 0;
    }
    uint64_t to = copy->to, from = copy->from;
    pthread_mutex_lock(&wgpu.lock);
    int code = burn_wgpu_local(&to) || burn_wgpu_local(&from) ? WGPU_LOST : 0;
    if (!code)
        step->work = burn_wgpu_by_words(wgpu.copy, to, from, copy->bytes);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static wgpu_step *add(void **node, void *graph) {
    wgpu_graph *it = graph;
    wgpu_step *step = calloc(1, sizeof *step);
    if (step) {
        *it->last = step;
        it->last = &step->next;
    }
    *node = step;
    return step;
}

static int add_launch(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_launch *launch) {
    (void)driver, (void)after; /* steps run in the order in which they are added */
    wgpu_step *step = add(node, graph);
    return step ? set_launch_of(step, launch) : BURN_DRIVER_OUT_OF_MEMORY;
}

static int set_launch(const burn_driver *driver, void *ready, void *node, const burn_driver_launch *launch) {
    (void)driver, (void)ready;
    return set_launch_of(node, launch);
}

static int add_copy(const burn_driver *driver, void **node, void *graph, void *after, const burn_driver_copy *copy, void *context) {
    (void)driver, (void)after, (void)context;
    wgpu_step *step = add(node, graph);
    return step ? set_copy_of(step, copy) : BURN_DRIVER_OUT_OF_MEMORY;
}

static int set_copy(const burn_driver *driver, void *ready, void *node, const burn_driver_copy *copy, void *context) {
    (void)driver, (void)ready, (void)context;
    return set_copy_of(node, copy);
}

void burn_wgpu_fill_work(burn_driver *driver) {
    driver->launch = launch;
    driver->begin_capture = begin_capture;
    driver->end_capture = end_capture;
    driver->graph = graph_ready;
    driver->graph_launch = graph_launch;
    driver->graph_release = release_graph;
    driver->ready_release = release_graph;
    driver->graph_new = graph_new;
    driver->add_launch = add_launch;
    driver->set_launch = set_launch;
    driver->add_copy = add_copy;
    driver->set_copy = set_copy;
}
