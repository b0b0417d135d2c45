/* Kernels of WebGPU: texts become pipelines, for one page of the heap or for several.
 *
 * A text begins with a line "// burn: ENTRY WORDS". WORDS has a letter for each argument: `a`, an address, which kernels take in words of 4
 * bytes, or `n`, a number of 32 bits.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"

static const char HEADER[] = "// burn: ";

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

/* A function of the heap that selects one of several pages. `access`: what it does with a word, `#`. */
static void append_function(wgpu_string *string, int pages, const char *head, const char *access) {
    append(string, "fn %s {\n  let i = at & %uu;\n  switch (at >> %uu) {\n", head, (1u << (wgpu.page_bits - 2)) - 1,
           (unsigned)wgpu.page_bits - 2);
    for (int page = 1; page <= pages; page++) {
        if (page < pages)
            append(string, "    case %du: { ", page);
        else
            append(string, "    default: { ");
        for (const char *each = access; *each; each++)
            if (*each == '#')
                append(string, "heap%d[i]", page % pages);
            else
                append(string, "%c", *each);
        append(string, " }\n");
    }
    append(string, "  }\n}\n");
}

/* The declarations of the heap and its functions for several pages, in place of those of a text (burn/codegen/wgsl/library.py). */
static void append_heap(wgpu_string *string, int pages, int atomic) {
    for (int page = 0; page < pages; page++)
        append(string, "@group(0) @binding(%d) var<storage, read_write> heap%d: array<%s>;\n", page ? page + 1 : 0, page,
               atomic ? "atomic<u32>" : "u32");
    append_function(string, pages, "read(at: u32) -> u32", atomic ? "return atomicLoad(&#);" : "return #;");
    append_function(string, pages, "write(at: u32, word: u32)", atomic ? "atomicStore(&#, word);" : "# = word;");
    if (!atomic)
        return;
    append_function(string, pages, "change(at: u32, kept: u32, added: u32)", "atomicAnd(&#, kept); atomicOr(&#, added);");
    append_function(string, pages, "claim(at: u32, word: u32) -> bool",
                    "loop { let old = atomicCompareExchangeWeak(&#, 0u, word); if (old.exchanged) { return true; } "
                    "if (old.old_value != 0u) { return false; } } return false;");
}

/* A text's part of the heap ends with this line. */
static const char END_OF_HEAP[] = "// ----\n";

static wgpu_handle pipeline_of(const char *text, const char *entry, wgpu_handle layout) {
    const wgpu_wgsl source = {{NULL, WGPU_WGSL_SOURCE}, text_of(text)};
    const wgpu_labelled descriptor = {&source, text_of(entry)};
    wgpu_handle module = wgpu.api.module(wgpu.device, &descriptor, wgpu.checks);
    if (!module)
        return NULL;
    if (wgpu.failed) {
        wgpu.api.module_release(module);
        return NULL;
    }
    wgpu_pipeline_descriptor pipeline = {.label = text_of(entry), .layout = layout};
    pipeline.compute.module = module;
    pipeline.compute.entry = text_of(entry);
    wgpu_handle made = wgpu.api.pipeline(wgpu.device, &pipeline);
    wgpu.api.module_release(module);
    if (wgpu.failed && made) { /* a failed creation also gives a handle */
        wgpu.api.pipeline_release(made);
        made = NULL;
    }
    return made;
}

int burn_wgpu_pages_of_width(int width) {
    int pages = width < WIDTHS - 1 ? 1 << width : wgpu.most_pages;
    return pages < wgpu.most_pages ? pages : wgpu.most_pages;
}

int burn_wgpu_width(int pages) {
    int width = 0;
    while (burn_wgpu_pages_of_width(width) < __builtin_popcount(pages))
        width++;
    return width;
}

static wgpu_handle for_pages(const wgpu_kernel *kernel, int width) {
    const char *body = strstr(kernel->text, END_OF_HEAP);
    int atomic = strstr(kernel->text, "heap: array<atomic<u32>>") != NULL;
    wgpu_string string = {.room = strlen(kernel->text) + 16384};
    string.data = malloc(string.room);
    if (!string.data || !body) {
        free(string.data);
        wgpu.failed = BURN_DRIVER_OUT_OF_MEMORY;
        return NULL;
    }
    append_heap(&string, burn_wgpu_pages_of_width(width), atomic);
    append(&string, "%s", body);
    wgpu_handle made = pipeline_of(string.data, kernel->entry, wgpu.layout[width]);
    free(string.data);
    return made;
}

wgpu_handle burn_wgpu_pipeline(wgpu_kernel *kernel, int pages) {
    int width = burn_wgpu_width(pages);
    if (!kernel->pipeline[width])
        kernel->pipeline[width] = for_pages(kernel, width);
    return kernel->pipeline[width];
}

void burn_wgpu_delete_kernel(wgpu_kernel *kernel) {
    if (!kernel)
        return;
    for (int width = 0; width < WIDTHS && kernel->session == wgpu.session; width++)
        if (kernel->pipeline[width])
            wgpu.api.pipeline_release(kernel->pipeline[width]);
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
    made->session = wgpu.session;
    made->pipeline[0] = pipeline_of(text, entry, wgpu.layout[0]);
    if (made->pipeline[0])
        return made;
    burn_wgpu_delete_kernel(made);
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

/* Binding 0 is a page, binding 1 the words; others follow. */
static void make_layout(int width) {
    wgpu_layout_entry entries[MOST_PAGES + 1] = {{0}};
    int count = burn_wgpu_pages_of_width(width) + 1;
    for (int i = 0; i < count; i++) {
        entries[i].binding = (uint32_t)i;
        entries[i].visibility = WGPU_COMPUTE_STAGE;
        entries[i].buffer.type = i == 1 ? WGPU_UNIFORM : WGPU_STORAGE;
        entries[i].buffer.dynamic = i == 1;
    }
    const wgpu_layout_descriptor group = {.count = (size_t)count, .items = entries};
    wgpu.group_layout[width] = wgpu.api.group_layout(wgpu.device, &group);
    const wgpu_layout_descriptor layout = {.count = 1, .items = &wgpu.group_layout[width]};
    wgpu.layout[width] = wgpu.api.pipeline_layout(wgpu.device, &layout);
}

int burn_wgpu_kernels_open(void) {
    for (int width = 0; width < WIDTHS; width++)
        make_layout(width);
    if (!wgpu.pending_words)
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

/* The kernels of the driver stay in memory, as recordings may have them. */
void burn_wgpu_forget(void) {
    wgpu.encoder = wgpu.pass = wgpu.words = wgpu.staging = wgpu.resolved = NULL;
    wgpu.staging_bytes = wgpu.words_used = 0;
    wgpu.queries = NULL;
    wgpu.asked = wgpu.done = 0;
    wgpu.half = HALF_UNKNOWN;
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
    if (!code)
        code = burn_wgpu_renew();
    if (!code) {
        char *other = wgpu.with_half ? wgpu.with_half(body + 1) : NULL;
        made->kernel = burn_wgpu_kernel(entry, other ? other : body + 1);
        free(other);
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
    int code = it->kernel->session == wgpu.session ? burn_wgpu_flush() : 0;
    burn_wgpu_delete_kernel(it->kernel);
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

void burn_wgpu_fill_kernels(burn_driver *driver) {
    driver->load = load;
    driver->unload = unload;
    driver->find = find;
    driver->set = set;
}
