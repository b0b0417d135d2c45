/* Work whose addresses are filled in at each submission.
 *
 * A caller with its own allocator passes inputs and outputs at other addresses in every call. So the launches of a call are kept
 * as a list, in which an address is an offset in a region. A submission gets the regions' addresses. Either it launches each step,
 * or it launches one CUDA graph. Before that, the nodes with addresses in regions that have moved are changed. The driver uses the
 * new parameters for later launches of the graph. Launches under way keep theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "device_inner.h"

enum { MOST_STREAMS = 8 };

typedef struct step {
    enum { LAUNCH, COPY, FETCH } kind;
    int stale;              /* its node has other words */
    const burn_device_function *function;
    unsigned blocks, threads;
    int64_t bytes;
    int32_t first, count;   /* its words; of a copy: to, from */
    void *node;
} step;

struct burn_device_list {
    burn_device *device;
    int32_t regions;
    step *steps;
    int64_t count, room;
    burn_word *words;
    int64_t *values;        /* the words for the present regions */
    int64_t word_count, word_room;
    int64_t *starts;        /* of the present regions */
    int64_t *users;         /* steps by region: those of region r from first_user[r] on */
    int64_t *first_user;
    int placed;             /* `values` are set */
    burn_report *report;
    void *graph, *ready;
    void *streams[MOST_STREAMS]; /* that it was submitted to */
    int32_t stream_count;
};

burn_device_list *burn_list_new(burn_device *device, int32_t regions) {
    burn_device_list *list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    list->device = device;
    list->regions = regions;
    list->starts = calloc((size_t)regions + 1, sizeof *list->starts);
    list->first_user = calloc((size_t)regions + 2, sizeof *list->first_user);
    if (list->starts && list->first_user)
        return list;
    burn_list_delete(list);
    return NULL;
}

/* ---- appending --------------------------------------------------------------------------------------------------- */

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

static step *append(burn_device_list *list, const burn_word *words, int32_t count) {
    if (!has_room((void **)&list->steps, &list->room, list->count + 1, sizeof *list->steps) ||
        !has_room((void **)&list->words, &list->word_room, list->word_count + count, sizeof *list->words))
        return NULL;
    step *made = &list->steps[list->count++];
    *made = (step){.first = (int32_t)list->word_count, .count = count};
    if (count)
        memcpy(&list->words[list->word_count], words, (size_t)count * sizeof *words);
    list->word_count += count;
    return made;
}

int burn_list_launch(burn_device_list *list, burn_device_function *function, int64_t blocks, int32_t threads,
                     const burn_word *words, int32_t count) {
    step *made = append(list, words, count);
    if (!made)
        return 0;
    made->kind = LAUNCH;
    made->function = function;
    made->blocks = (unsigned)blocks;
    made->threads = (unsigned)threads;
    return 1;
}

int burn_list_copy(burn_device_list *list, burn_word to, burn_word from, int64_t bytes) {
    const burn_word words[] = {to, from};
    step *made = append(list, words, 2);
    if (!made)
        return 0;
    made->kind = COPY;
    made->bytes = bytes;
    return 1;
}

/* Calls `found` with each region of a step's words, once. */
static void each_region(const burn_device_list *list, const step *it, int64_t *seen, int64_t number,
                        void (*found)(void *, int32_t, int64_t), void *context) {
    for (int32_t i = 0; i < it->count; i++) {
        int32_t region = list->words[it->first + i].region;
        if (region >= 0 && seen[region] != number) {
            seen[region] = number;
            found(context, region, number);
        }
    }
}

static void count_user(void *context, int32_t region, int64_t number) {
    burn_device_list *list = context;
    (void)number;
    list->first_user[region + 2]++;
}

static void add_user(void *context, int32_t region, int64_t number) {
    burn_device_list *list = context;
    list->users[list->first_user[region + 1]++] = number;
}

int burn_list_seal(burn_device_list *list, burn_report *report) {
    list->report = report;
    if (report) {
        step *made = append(list, NULL, 0);
        if (!made)
            return 0;
        made->kind = FETCH;
    }
    int64_t *seen = malloc(((size_t)list->regions + 1) * sizeof *seen), total = 0;
    list->values = malloc(((size_t)list->word_count + 1) * sizeof *list->values);
    if (!seen || !list->values) {
        free(seen);
        return 0;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t r = 0; r < list->regions; r++)
            seen[r] = -1;
        for (int64_t i = 0; i < list->count; i++)
            each_region(list, &list->steps[i], seen, i, pass ? add_user : count_user, list);
        if (pass)
            break;
        for (int32_t r = 0; r < list->regions; r++) /* first_user[r + 1]: where region r's begin, until they are added */
            list->first_user[r + 2] += list->first_user[r + 1];
        total = list->first_user[list->regions + 1];
        list->users = malloc(((size_t)total + 1) * sizeof *list->users);
        if (!list->users)
            break;
    }
    free(seen);
    return list->users != NULL;
}

int64_t burn_list_steps(const burn_device_list *list) { return list->count; }

/* ---- submitting -------------------------------------------------------------------------------------------------- */

static void fill_step(burn_device_list *list, step *it, const int64_t *regions) {
    for (int32_t i = it->first; i < it->first + it->count; i++) {
        const burn_word *word = &list->words[i];
        list->values[i] = word->value + (word->region >= 0 ? regions[word->region] : 0);
    }
    it->stale = 1;
}

/* Fills in the addresses of regions that have moved. */
static void fill(burn_device_list *list, const int64_t *regions) {
    for (int64_t i = 0; !list->placed && i < list->count; i++)
        fill_step(list, &list->steps[i], regions);
    for (int32_t r = 0; list->placed && r < list->regions; r++)
        if (regions[r] != list->starts[r])
            for (int64_t i = list->first_user[r]; i < list->first_user[r + 1]; i++)
                fill_step(list, &list->steps[list->users[i]], regions);
    memcpy(list->starts, regions, (size_t)list->regions * sizeof *regions);
    list->placed = 1;
}

enum { MOST_ARGUMENTS = 1024 };

static burn_driver_launch launch_of(burn_device_list *list, const step *it, void **parameters) {
    for (int32_t i = 0; i < it->count; i++)
        parameters[i] = &list->values[it->first + i];
    parameters[it->count] = NULL; /* see burn_device_launch */
    return (burn_driver_launch){it->function->handle, it->blocks, it->threads, (unsigned)it->function->shared, parameters};
}

static burn_driver_copy copy_of(const burn_device_list *list, const step *it) {
    if (it->kind == FETCH)
        return burn_report_fetch(list->report);
    const int64_t *words = &list->values[it->first];
    return (burn_driver_copy){(uint64_t)words[0], (uint64_t)words[1], (size_t)it->bytes, 0};
}

/* One step after the other. *at: the step that failed. */
static int submit_each(burn_device_list *list, void *stream, const step **at) {
    const burn_driver *driver = list->device->driver;
    void *parameters[MOST_ARGUMENTS + 1];
    int code = 0;
    for (int64_t i = 0; i < list->count && !code; i++) {
        const step *it = *at = &list->steps[i];
        if (it->kind == LAUNCH) {
            burn_driver_launch launch = launch_of(list, it, parameters);
            code = driver->launch(launch.function, launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared, stream,
                                  parameters, NULL);
            continue;
        }
        burn_driver_copy copy = copy_of(list, it);
        code = copy.to_host ? driver->fetch((void *)(uintptr_t)copy.to, copy.from, copy.bytes, stream)
                            : driver->copy(copy.to, copy.from, copy.bytes, stream);
    }
    return code;
}

static int add_node(burn_device_list *list, step *it, void *after) {
    const burn_driver *driver = list->device->driver;
    void *parameters[MOST_ARGUMENTS + 1];
    if (it->kind == LAUNCH) {
        burn_driver_launch launch = launch_of(list, it, parameters);
        return driver->add_launch(driver, &it->node, list->graph, after, &launch);
    }
    burn_driver_copy copy = copy_of(list, it);
    return driver->add_copy(driver, &it->node, list->graph, after, &copy, list->device->context);
}

static int set_node(burn_device_list *list, step *it) {
    const burn_driver *driver = list->device->driver;
    void *parameters[MOST_ARGUMENTS + 1];
    if (it->kind == LAUNCH) {
        burn_driver_launch launch = launch_of(list, it, parameters);
        return driver->set_launch(driver, list->ready, it->node, &launch);
    }
    burn_driver_copy copy = copy_of(list, it);
    return driver->set_copy(driver, list->ready, it->node, &copy, list->device->context);
}

static void drop_graph(burn_device_list *list) {
    const burn_driver *driver = list->device->driver;
    if (list->ready)
        driver->ready_release(list->ready);
    if (list->graph)
        driver->graph_release(list->graph);
    list->graph = list->ready = NULL;
}

static int build(burn_device_list *list, const step **at) {
    const burn_driver *driver = list->device->driver;
    void *last = NULL;
    int code = driver->graph_new(&list->graph, 0);
    for (int64_t i = 0; i < list->count && !code; i++) {
        step *it = &list->steps[i];
        *at = it;
        code = add_node(list, it, last);
        last = it->node;
        it->stale = 0;
    }
    if (!code)
        code = driver->graph(&list->ready, list->graph, 0);
    if (code)
        drop_graph(list);
    return code;
}

static int submit_graph(burn_device_list *list, void *stream, const step **at) {
    const burn_driver *driver = list->device->driver;
    int code = list->ready ? 0 : build(list, at);
    for (int64_t i = 0; i < list->count && !code; i++) {
        step *it = &list->steps[i];
        if (!it->stale)
            continue;
        *at = it;
        code = set_node(list, it);
        it->stale = code != 0;
    }
    return code ? code : driver->graph_launch(list->ready, stream);
}

/* Remembers where work is under way, for the end of the list. A stream too many is waited for at once. */
static int note_stream(burn_device_list *list, void *stream) {
    for (int32_t i = 0; i < list->stream_count; i++)
        if (list->streams[i] == stream)
            return 0;
    if (list->stream_count == MOST_STREAMS) {
        int code = burn_device_follow(list->device, list->streams[0]);
        list->streams[0] = stream;
        return code;
    }
    list->streams[list->stream_count++] = stream;
    return 0;
}

int32_t burn_list_submit(burn_device_list *list, const int64_t *regions, void *stream, int as_graph) {
    burn_device *device = list->device;
    const step *at = NULL;
    int entered;
    int32_t status = burn_device_begin(device, &entered);
    if (status != BURN_OK)
        return status;
    int code = note_stream(list, stream);
    fill(list, regions);
    if (!code && list->count)
        code = as_graph ? submit_graph(list, stream, &at) : submit_each(list, stream, &at);
    if (list->report)
        burn_report_queued(list->report, stream);
    return burn_device_end(device, at && at->kind == LAUNCH ? at->function->name : "submitting", entered, code);
}

void burn_list_delete(burn_device_list *list) {
    if (!list)
        return;
    int entered;
    if (!burn_driver_forked() && burn_device_begin(list->device, &entered) == BURN_OK) {
        for (int32_t i = 0; i < list->stream_count; i++)
            burn_device_follow(list->device, list->streams[i]);
        drop_graph(list);
        burn_device_end(list->device, "", entered, 0);
    }
    free(list->steps);
    free(list->words);
    free(list->values);
    free(list->starts);
    free(list->users);
    free(list->first_user);
    free(list);
}
