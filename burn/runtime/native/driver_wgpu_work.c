/* Commands of WebGPU: launches, copies, recordings, clocks.
 *
 * Commands collect in one encoder. They are submitted when the host waits, reads, or writes to the heap, so a call of a program is
 * one submission. A recording is a list of launches as data: pipeline, words, workgroups.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver_wgpu.h"

/* A kernel's text begins with a line "// burn: ENTRY WORDS". WORDS has a letter for each argument: `a`, an address, which kernels
 * take in words of 4 bytes, or `n`, a number of 32 bits. */
static const char HEADER[] = "// burn: ";

enum { LEAST_STAGING = 65536 };

struct wgpu_module {
    wgpu_kernel *kernel;
    int count;
    char words[MOST_WORDS];
};

typedef struct wgpu_event {
    int timed;
    wgpu_queries *queries; /* the set of its timestamp; NULL: the host's clock, as the device has none */
    uint32_t query;
    double milliseconds;   /* of the host's clock */
} wgpu_event;

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static wgpu_text text_of(const char *text) { return (wgpu_text){text, text ? strlen(text) : 0}; }

/* A failed creation also gives a handle, of no use. */
int burn_wgpu_buffer(wgpu_handle *buffer, uint64_t usage, uint64_t bytes) {
    const wgpu_buffer_descriptor descriptor = {.usage = usage, .size = bytes};
    *buffer = wgpu.api.buffer(wgpu.device, &descriptor);
    int code = burn_wgpu_status();
    if (!code && !*buffer)
        code = BURN_DRIVER_OUT_OF_MEMORY;
    if (code && *buffer)
        wgpu.api.buffer_release(*buffer);
    if (code)
        *buffer = NULL;
    return code;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* A text that grows. */
typedef struct wgpu_string {
    char *data;
    size_t length, room;
} wgpu_string;

static void append(wgpu_string *string, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(string->data ? string->data + string->length : NULL, string->room - string->length, format, arguments);
    va_end(arguments);
    if (string->data)
        string->length += (size_t)length;
}

/* A function of the heap that selects the page. `access`: what it does with a word, as a format for the page's number. */
static void append_function(wgpu_string *string, const char *head, const char *access) {
    append(string, "fn %s {\n  let i = at & %uu;\n  switch (at >> %uu) {\n", head, (1u << (wgpu.page_bits - 2)) - 1,
           (unsigned)wgpu.page_bits - 2);
    for (int page = 1; page <= wgpu.most_pages; page++) {
        if (page < wgpu.most_pages)
            append(string, "    case %du: { ", page);
        else
            append(string, "    default: { ");
        for (const char *each = access; *each; each++)
            if (*each == '#')
                append(string, "heap%d[i]", page % wgpu.most_pages);
            else
                append(string, "%c", *each);
        append(string, " }\n");
    }
    append(string, "  }\n}\n");
}

/* The declarations of the heap and its functions for all pages, in place of those of a text (burn/codegen/wgsl/library.py). */
static void append_heap(wgpu_string *string, int atomic) {
    for (int page = 0; page < wgpu.most_pages; page++)
        append(string, "@group(0) @binding(%d) var<storage, read_write> heap%d: array<%s>;\n", page ? page + 1 : 0, page,
               atomic ? "atomic<u32>" : "u32");
    append_function(string, "read(at: u32) -> u32", atomic ? "return atomicLoad(&#);" : "return #;");
    append_function(string, "write(at: u32, word: u32)", atomic ? "atomicStore(&#, word);" : "# = word;");
    if (!atomic)
        return;
    append_function(string, "change(at: u32, kept: u32, added: u32)", "atomicAnd(&#, kept); atomicOr(&#, added);");
    append_function(string, "claim(at: u32, word: u32) -> bool",
                    "loop { let old = atomicCompareExchangeWeak(&#, 0u, word); if (old.exchanged) { return true; } "
                    "if (old.old_value != 0u) { return false; } } return false;");
}

/* A text's part of the heap ends with this line. */
static const char END_OF_HEAP[] = "// ----\n";

static wgpu_handle pipeline_of(const char *text, const char *entry, wgpu_handle layout) {
    const wgpu_wgsl source = {{NULL, WGPU_WGSL_SOURCE}, text_of(text)};
    const wgpu_labelled descriptor = {&source, text_of(entry)};
    wgpu_handle module = wgpu.api.module(wgpu.device, &descriptor, wgpu.checks);
    if (wgpu.failed || !module)
        return NULL;
    wgpu_pipeline_descriptor pipeline = {.label = text_of(entry), .layout = layout};
    pipeline.compute.module = module;
    pipeline.compute.entry = text_of(entry);
    wgpu_handle made = wgpu.api.pipeline(wgpu.device, &pipeline);
    wgpu.api.module_release(module);
    return wgpu.failed ? NULL : made;
}

static wgpu_handle for_all_pages(const wgpu_kernel *kernel) {
    const char *body = strstr(kernel->text, END_OF_HEAP);
    int atomic = strstr(kernel->text, "heap: array<atomic<u32>>") != NULL;
    wgpu_string string = {.room = strlen(kernel->text) + 16384};
    string.data = malloc(string.room);
    if (!string.data || !body) {
        free(string.data);
        wgpu.failed = BURN_DRIVER_OUT_OF_MEMORY;
        return NULL;
    }
    append_heap(&string, atomic);
    append(&string, "%s", body);
    wgpu_handle made = pipeline_of(string.data, kernel->entry, wgpu.layout[1]);
    free(string.data);
    return made;
}

/* The pipeline for a page, or NULL: burn_wgpu_status has the reason. */
static wgpu_handle pipeline_for(wgpu_kernel *kernel, int page) {
    if (page != ALL_PAGES)
        return kernel->one;
    if (!kernel->all)
        kernel->all = for_all_pages(kernel);
    return kernel->all;
}

static void delete_kernel(wgpu_kernel *kernel) {
    if (!kernel)
        return;
    if (kernel->one)
        wgpu.api.pipeline_release(kernel->one);
    if (kernel->all)
        wgpu.api.pipeline_release(kernel->all);
    free(kernel->text);
    free(kernel);
}

wgpu_kernel *burn_wgpu_kernel(const char *entry, const char *text) {
    wgpu_kernel *made = calloc(1, sizeof *made);
    char *copied = malloc(strlen(text) + 1);
    if (!made || !copied) {
        free(made);
        free(copied);
        wgpu.failed = BURN_DRIVER_OUT_OF_MEMORY;
        return NULL;
    }
    strcpy(copied, text);
    snprintf(made->entry, sizeof made->entry, "%s", entry);
    made->text = copied;
    made->one = pipeline_of(text, entry, wgpu.layout[0]);
    if (made->one)
        return made;
    delete_kernel(made);
    return NULL;
}

/* ---- the two kernels of the driver ------------------------------------------------------------------------------- */

#define HEAD "@group(0) @binding(0) var<storage, read_write> heap: array<u32>;\n"                                        \
             "fn read(at: u32) -> u32 { return heap[at]; }\n"                                                            \
             "fn write(at: u32, word: u32) { heap[at] = word; }\n"                                                       \
             "// ----\n"                                                                                                 \
             "@group(0) @binding(1) var<uniform> words: array<vec4<u32>, 2>;\n"                                           \
             "@compute @workgroup_size(256)\n"                                                                            \
             "fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>,\n"            \
             "        @builtin(num_workgroups) groups: vec3<u32>) {\n"                                                    \
             "  let to = words[0].y; let bytes = words[0].w;\n"                                                           \
             "  let index = (group.x + group.y * groups.x) * 256u + lane;\n"                                             \
             "  if (index >= (to % 4u + bytes + 3u) / 4u) { return; }\n"                                                 \
             "  let at = (to / 4u + index) * 4u;\n"                                                                      \
             "  var word = read(at / 4u);\n"

/* Words: workgroups, to, from, bytes. Each thread makes a word of the target, so addresses and sizes need no alignment. The sum to + bytes
 * may be 2^32, so positions behind `to` are compared: one before it wraps to a large number. */
static const char COPY[] = HEAD
    "  let first = words[0].z;\n"
    "  if (to % 4u == 0u && first % 4u == 0u && at - to + 4u <= bytes) { word = read((first + (at - to)) / 4u); }\n"
    "  else {\n"
    "    for (var i = 0u; i < 4u; i++) {\n"
    "      if (at + i - to < bytes) {\n"
    "        let source = first + (at + i - to);\n"
    "        let byte = (read(source / 4u) >> (source % 4u * 8u)) & 255u;\n"
    "        word = (word & ~(255u << (i * 8u))) | (byte << (i * 8u));\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  write(at / 4u, word);\n"
    "}\n";

/* Words: workgroups, to, the byte, bytes. */
static const char FILL[] = HEAD
    "  for (var i = 0u; i < 4u; i++) {\n"
    "    if (at + i - to < bytes) { word = (word & ~(255u << (i * 8u))) | (words[0].z << (i * 8u)); }\n"
    "  }\n"
    "  write(at / 4u, word);\n"
    "}\n";

/* Binding 0 is a page, binding 1 the words; the layout for all pages has the others behind. */
static void make_layout(int all) {
    wgpu_layout_entry entries[MOST_PAGES + 1] = {{0}};
    int count = all ? wgpu.most_pages + 1 : 2;
    for (int i = 0; i < count; i++) {
        entries[i].binding = (uint32_t)i;
        entries[i].visibility = WGPU_COMPUTE_STAGE;
        entries[i].buffer.type = i == 1 ? WGPU_UNIFORM : WGPU_STORAGE;
        entries[i].buffer.dynamic = i == 1;
    }
    const wgpu_layout_descriptor group = {.count = (size_t)count, .items = entries};
    wgpu.group_layout[all] = wgpu.api.group_layout(wgpu.device, &group);
    const wgpu_layout_descriptor layout = {.count = 1, .items = &wgpu.group_layout[all]};
    wgpu.layout[all] = wgpu.api.pipeline_layout(wgpu.device, &layout);
}

int burn_wgpu_work_open(void) {
    make_layout(0);
    make_layout(1);
    wgpu.pending_words = malloc(WORDS_ROOM);
    if (!wgpu.pending_words)
        return BURN_DRIVER_OUT_OF_MEMORY;
    int code = burn_wgpu_status();
    if (!code)
        code = burn_wgpu_buffer(&wgpu.words, WGPU_UNIFORM_USE | WGPU_COPY_TARGET, WORDS_ROOM + WORDS_BYTES);
    if (!code && wgpu.has_timestamps)
        code = burn_wgpu_buffer(&wgpu.resolved, WGPU_RESOLVE_USE | WGPU_COPY_SOURCE, 512);
    if (!code) {
        wgpu.copy = burn_wgpu_kernel("main", COPY);
        wgpu.fill = burn_wgpu_kernel("main", FILL);
        code = burn_wgpu_status();
    }
    return code;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static void end_pass(void) {
    if (wgpu.pass) {
        wgpu.api.end_pass(wgpu.pass);
        wgpu.api.pass_release(wgpu.pass);
    }
    wgpu.pass = NULL;
}

static wgpu_handle encoder(void) {
    if (!wgpu.encoder)
        wgpu.encoder = wgpu.api.encoder(wgpu.device, NULL);
    return wgpu.encoder;
}

static wgpu_handle pass(const wgpu_timestamps *timestamps) {
    if (timestamps)
        end_pass();
    if (!wgpu.pass) {
        const wgpu_pass_descriptor descriptor = {.timestamps = timestamps};
        wgpu.pass = wgpu.api.begin_pass(encoder(), &descriptor);
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
    end_pass();
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
    wgpu_handle pipeline = pipeline_for(work->kernel, work->page);
    wgpu_handle group;
    int code = burn_wgpu_status();
    if (!code)
        code = burn_wgpu_group(work->page, &group);
    if (!code && wgpu.words_used + bytes > WORDS_ROOM)
        code = burn_wgpu_flush();
    if (code)
        return code;
    memcpy((char *)wgpu.pending_words + wgpu.words_used, work->words, work->count * sizeof *work->words);
    uint32_t offset = wgpu.words_used, most = wgpu.limits.workgroups, groups = work->words[0];
    wgpu.words_used += bytes;
    uint32_t down = (groups + most - 1) / most, across = groups < most ? groups : (groups + down - 1) / down;
    wgpu_handle open = pass(NULL);
    wgpu.api.set_pipeline(open, pipeline);
    wgpu.api.set_group(open, 0, group, 1, &offset);
    wgpu.api.dispatch(open, across, down, 1);
    return burn_wgpu_status();
}

static wgpu_step *recorded(void) {
    wgpu_step *step = calloc(1, sizeof *step);
    if (step) {
        *wgpu.capture->last = step;
        wgpu.capture->last = &step->next;
    }
    return step;
}

/* Does it now, or records it. */
static int run(const wgpu_work *work) {
    if (!work->words[0])
        return 0;
    if (!wgpu.capture)
        return dispatch(work);
    wgpu_step *step = recorded();
    if (!step)
        return BURN_DRIVER_OUT_OF_MEMORY;
    step->work = *work;
    return 0;
}

/* Addresses in one page become addresses in it; `shift`: the bits of an address in that page. */
static void choose_page(wgpu_work *work, const uint8_t *is_address, int shift) {
    work->page = -1;
    for (uint32_t i = 1; i < work->count; i++)
        if (is_address[i]) {
            int page = (int)((uint64_t)work->words[i] >> shift);
            work->page = work->page < 0 || work->page == page ? page : ALL_PAGES;
        }
    work->page = work->page < 0 ? 0 : work->page;
    for (uint32_t i = 1; i < work->count && work->page != ALL_PAGES; i++)
        if (is_address[i])
            work->words[i] &= (uint32_t)(((uint64_t)1 << shift) - 1);
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
        if (address ? (value < 0 || value > UINT32_MAX || value % 4) : (value < INT32_MIN || value > INT32_MAX))
            return burn_wgpu_refuse(WGPU_REFUSED, "%s: argument %d is %lld; kernels of WebGPU have 32-bit indices",
                                    module->kernel->entry, i, (long long)value);
        work->words[i + 1] = address ? (uint32_t)(value / 4) : (uint32_t)(int32_t)value;
    }
    choose_page(work, is_address, wgpu.page_bits - 2);
    return 0;
}

static int launch(void *function, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads, unsigned threads_y,
                  unsigned threads_z, unsigned shared, void *stream, void **parameters, void **extra) {
    (void)blocks_y, (void)blocks_z, (void)threads, (void)threads_y, (void)threads_z, (void)shared, (void)stream, (void)extra;
    wgpu_work work;
    pthread_mutex_lock(&wgpu.lock);
    int code = work_of(&work, function, blocks, parameters);
    if (!code)
        code = run(&work);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* A kernel that makes the words of [to, to + bytes): a copy from the address `third`, or a fill with that byte. */
static wgpu_work by_words(wgpu_kernel *kernel, uint64_t to, uint64_t third, size_t bytes) {
    const uint8_t is_address[] = {0, 1, kernel == wgpu.copy, 0};
    uint64_t count = (to % 4 + bytes + 3) / 4;
    wgpu_work work = {.kernel = kernel, .count = 4};
    work.words[0] = (uint32_t)((count + 255) / 256);
    work.words[1] = (uint32_t)to;
    work.words[2] = (uint32_t)third;
    work.words[3] = (uint32_t)bytes;
    choose_page(&work, is_address, wgpu.page_bits);
    return work;
}

static int run_by_words(wgpu_kernel *kernel, uint64_t to, uint64_t third, size_t bytes) {
    wgpu_work work = by_words(kernel, to, third, bytes);
    return bytes ? run(&work) : 0;
}

static wgpu_handle page_of(uint64_t address) { return wgpu.page[address >> wgpu.page_bits].buffer; }
static uint64_t in_page(uint64_t address) { return address & (((uint64_t)1 << wgpu.page_bits) - 1); }

static int copy(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    pthread_mutex_lock(&wgpu.lock);
    int code = run_by_words(wgpu.copy, to, from, bytes);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int fill(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
    (void)stream;
    pthread_mutex_lock(&wgpu.lock);
    int code = run_by_words(wgpu.fill, to, byte, bytes);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

/* The first or last bytes of a transfer, which are less than a word: by the scratch memory, so that the word's other bytes stay. */
static int send_ragged(uint64_t to, const void *from, size_t bytes) {
    uint32_t word = 0;
    memcpy(&word, from, bytes);
    wgpu.api.write(wgpu.queue, wgpu.page[0].buffer, SCRATCH, &word, sizeof word);
    int code = run_by_words(wgpu.copy, to, SCRATCH, bytes);
    return code ? code : burn_wgpu_flush();
}

/* Writes of the queue come before what is not submitted yet, so that is submitted first. */
static int send(uint64_t to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    const char *data = from;
    pthread_mutex_lock(&wgpu.lock);
    size_t head = to % 4 ? 4 - to % 4 : 0;
    head = head < bytes ? head : bytes;
    size_t middle = (bytes - head) / 4 * 4, tail = bytes - head - middle;
    int code = wgpu.capture ? WGPU_REFUSED : burn_wgpu_flush();
    if (!code && head)
        code = send_ragged(to, data, head);
    if (!code && middle)
        wgpu.api.write(wgpu.queue, page_of(to), in_page(to) + head, data + head, middle);
    if (!code && tail)
        code = send_ragged(to + head + middle, data + head + middle, tail);
    if (!code)
        code = burn_wgpu_status();
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static void mapped(uint32_t status, wgpu_text message, void *first, void *second) {
    (void)message, (void)first, (void)second;
    wgpu.mapped = status;
}

/* Reads bytes of a buffer that commands have copied to the staging buffer, after all submitted work. */
static int read_staging(void *to, uint64_t skipped, size_t bytes, uint64_t room) {
    wgpu_callback callback = {.mode = WGPU_SPONTANEOUS, .call = (void (*)(void))mapped};
    wgpu.mapped = 0;
    wgpu.api.buffer_map(wgpu.staging, 1, 0, room, callback);
    int code = burn_wgpu_status();
    while (!code && !wgpu.mapped) {
        wgpu.api.poll(wgpu.device, 1, NULL);
        code = burn_wgpu_status();
    }
    if (!code && wgpu.mapped != WGPU_SUCCESS)
        code = burn_wgpu_refuse(WGPU_REFUSED, "memory of the device cannot be mapped");
    const char *data = code ? NULL : wgpu.api.buffer_mapped(wgpu.staging, 0, room);
    if (data)
        memcpy(to, data + skipped, bytes);
    if (!code && !data)
        code = burn_wgpu_refuse(WGPU_REFUSED, "memory of the device cannot be read");
    if (!wgpu.mapped || wgpu.mapped == WGPU_SUCCESS) /* or still asked for */
        wgpu.api.buffer_unmap(wgpu.staging);
    return code;
}

/* Makes the staging buffer at least so large: twice as large as before if the device has that, else as needed. */
static int has_staging(uint64_t bytes) {
    if (wgpu.staging_bytes >= bytes)
        return 0;
    uint64_t doubled = wgpu.staging_bytes ? wgpu.staging_bytes * 2 : LEAST_STAGING, size = doubled > bytes ? doubled : bytes;
    size = size > wgpu.limits.buffer && bytes <= wgpu.limits.buffer ? bytes : size;
    if (wgpu.staging)
        wgpu.api.buffer_release(wgpu.staging);
    wgpu.staging_bytes = 0;
    int code = burn_wgpu_buffer(&wgpu.staging, WGPU_MAP_READ | WGPU_COPY_TARGET, size);
    if (code == BURN_DRIVER_OUT_OF_MEMORY && bytes < size)
        code = burn_wgpu_buffer(&wgpu.staging, WGPU_MAP_READ | WGPU_COPY_TARGET, size = bytes);
    if (!code)
        wgpu.staging_bytes = size;
    return code;
}

static int fetch_now(void *to, uint64_t from, size_t bytes) {
    uint64_t start = from / 4 * 4, room = (from + bytes + 3) / 4 * 4 - start;
    int code = has_staging(room);
    if (code || !bytes)
        return code;
    end_pass();
    wgpu.api.copy(encoder(), page_of(start), in_page(start), wgpu.staging, 0, room);
    code = burn_wgpu_flush();
    return code ? code : read_staging(to, from - start, bytes, room);
}

static int fetch(void *to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    pthread_mutex_lock(&wgpu.lock);
    int code = 0;
    if (wgpu.capture) {
        wgpu_step *step = recorded();
        if (step)
            step->to = to, step->from = from, step->bytes = bytes;
        code = step ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
    } else
        code = fetch_now(to, from, bytes);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int finished(void) {
    int code = burn_wgpu_flush();
    if (!code) {
        wgpu.api.poll(wgpu.device, 1, NULL);
        code = burn_wgpu_status();
    }
    return code;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static int add_queries(void) {
    wgpu_queries *made = calloc(1, sizeof *made);
    if (!made)
        return BURN_DRIVER_OUT_OF_MEMORY;
    const wgpu_queries_descriptor descriptor = {.type = WGPU_TIMESTAMPS, .count = QUERIES};
    made->set = wgpu.api.queries(wgpu.device, &descriptor);
    int code = burn_wgpu_status();
    if (code) {
        free(made);
        return code;
    }
    made->next = wgpu.queries;
    wgpu.queries = made;
    return 0;
}

/* Both events of a pair have timestamps, so there is always one: sets are added. */
static int take_query(wgpu_event *event) {
    for (wgpu_queries *each = wgpu.queries; each; each = each->next)
        for (uint32_t i = 0; i < QUERIES; i++)
            if (!(each->taken[i / 64] >> (i % 64) & 1)) {
                each->taken[i / 64] |= (uint64_t)1 << (i % 64);
                event->queries = each;
                event->query = i;
                return 0;
            }
    int code = add_queries();
    return code ? code : take_query(event);
}

static int new_event(void **event, unsigned flags) {
    wgpu_event *made = calloc(1, sizeof *made);
    if (!made)
        return BURN_DRIVER_OUT_OF_MEMORY;
    made->timed = !(flags & BURN_DRIVER_UNTIMED);
    pthread_mutex_lock(&wgpu.lock);
    int code = made->timed && wgpu.has_timestamps ? take_query(made) : 0;
    pthread_mutex_unlock(&wgpu.lock);
    if (code)
        free(made);
    else
        *event = made;
    return code;
}

static int event_release(void *event) {
    wgpu_event *it = event;
    pthread_mutex_lock(&wgpu.lock);
    if (it->queries)
        it->queries->taken[it->query / 64] &= ~((uint64_t)1 << (it->query % 64));
    pthread_mutex_unlock(&wgpu.lock);
    free(it);
    return 0;
}

/* A timed event begins a pass, whose beginning writes a timestamp. Without such, the host waits and reads its own clock. */
static int record(void *event, void *stream) {
    (void)stream;
    wgpu_event *it = event;
    int code = 0;
    pthread_mutex_lock(&wgpu.lock);
    if (it->queries) {
        const wgpu_timestamps stamps = {.set = it->queries->set, .begin = it->query, .end = WGPU_NO_QUERY};
        pass(&stamps);
        code = burn_wgpu_status();
    } else if (it->timed) {
        code = finished();
        it->milliseconds = now();
    }
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int wait(void *event) {
    (void)event;
    pthread_mutex_lock(&wgpu.lock);
    int code = finished();
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int wait_for(void *stream, void *event, unsigned flags) {
    (void)stream, (void)event, (void)flags; /* there is one queue, in order */
    return 0;
}

static int elapsed(float *milliseconds, void *first, void *last) {
    const wgpu_event *a = first, *b = last;
    int code = 0;
    pthread_mutex_lock(&wgpu.lock);
    if (a->queries && b->queries) {
        uint64_t ticks[33];
        end_pass();
        wgpu.api.resolve(encoder(), a->queries->set, a->query, 1, wgpu.resolved, 0);
        wgpu.api.resolve(encoder(), b->queries->set, b->query, 1, wgpu.resolved, 256);
        code = has_staging(sizeof ticks);
        if (!code) {
            wgpu.api.copy(encoder(), wgpu.resolved, 0, wgpu.staging, 0, sizeof ticks);
            code = burn_wgpu_flush();
        }
        if (!code)
            code = read_staging(ticks, 0, sizeof ticks, sizeof ticks);
        if (!code)
            *milliseconds = (float)((double)(int64_t)(ticks[32] - ticks[0]) * wgpu.api.timestamp_period(wgpu.queue) * 1e-6);
    } else
        *milliseconds = (float)(b->milliseconds - a->milliseconds);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int stream(void **made, unsigned flags) {
    (void)flags;
    *made = &wgpu;
    return 0;
}

static int stream_release(void *it) {
    (void)it; /* there is one for all */
    return 0;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static int load(void **module, const void *image) {
    const char *text = image;
    wgpu_module *made = calloc(1, sizeof *made);
    if (!made)
        return BURN_DRIVER_OUT_OF_MEMORY;
    char entry[64];
    int fields = strncmp(text, HEADER, sizeof HEADER - 1) == 0
                     ? sscanf(text + sizeof HEADER - 1, "%63s %255[an]", entry, made->words)
                     : 0;
    const char *body = strchr(text, '\n');
    pthread_mutex_lock(&wgpu.lock);
    int code = fields >= 1 && body ? 0 : burn_wgpu_refuse(WGPU_REFUSED, "the text has no header of burn's");
    made->count = (int)strlen(made->words);
    if (!code) {
        made->kernel = burn_wgpu_kernel(entry, body + 1);
        code = burn_wgpu_status();
    }
    pthread_mutex_unlock(&wgpu.lock);
    if (code)
        free(made);
    else
        *module = made;
    return code;
}

static int unload(void *module) {
    wgpu_module *it = module;
    pthread_mutex_lock(&wgpu.lock);
    int code = burn_wgpu_flush();
    delete_kernel(it->kernel);
    pthread_mutex_unlock(&wgpu.lock);
    free(it);
    return code;
}

static int find(void **function, void *module, const char *name) {
    wgpu_module *it = module;
    *function = it;
    if (!strcmp(it->kernel->entry, name))
        return 0;
    pthread_mutex_lock(&wgpu.lock);
    int code = burn_wgpu_refuse(WGPU_REFUSED, "the kernel's function is %s, not %s", it->kernel->entry, name);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int set(void *function, int attribute, int value) {
    (void)function, (void)attribute, (void)value; /* a kernel's text declares its workgroup memory */
    return 0;
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
        code = step->to ? fetch_now(step->to, step->from, step->bytes) : dispatch(&step->work);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int set_launch_of(wgpu_step *step, const burn_driver_launch *launch) {
    pthread_mutex_lock(&wgpu.lock);
    int code = work_of(&step->work, launch->function, launch->blocks, launch->parameters);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static void set_copy_of(wgpu_step *step, const burn_driver_copy *copy) {
    if (copy->to_host)
        *step = (wgpu_step){.next = step->next, .to = (void *)(uintptr_t)copy->to, .from = copy->from, .bytes = copy->bytes};
    else
        step->work = by_words(wgpu.copy, copy->to, copy->from, copy->bytes);
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
    if (step)
        set_copy_of(step, copy);
    return step ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
}

static int set_copy(const burn_driver *driver, void *ready, void *node, const burn_driver_copy *copy, void *context) {
    (void)driver, (void)ready, (void)context;
    set_copy_of(node, copy);
    return 0;
}

void burn_wgpu_fill_table(burn_driver *driver) {
    driver->send = send;
    driver->fetch = fetch;
    driver->copy = copy;
    driver->fill = fill;
    driver->stream = stream;
    driver->stream_release = stream_release;
    driver->wait_for = wait_for;
    driver->event = new_event;
    driver->event_release = event_release;
    driver->record = record;
    driver->wait = wait;
    driver->elapsed = elapsed;
    driver->load = load;
    driver->unload = unload;
    driver->find = find;
    driver->set = set;
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
