/* Kernels on a device: modules and their functions, launches, launches recorded and done again, and clocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_inner.h"

enum { MOST_ARGUMENTS = 1024, MOST_THREADS = 1024 };
static const int64_t MOST_BLOCKS = INT32_MAX;

struct burn_device_module {
    burn_device *device;
    burn_device_module *next; /* among the dead */
    void *handle;
    burn_device_function *functions;
};

struct burn_device_graph {
    void *ready;
};

struct burn_device_moment {
    burn_device *device;
    void *event;
};

/* ---- modules ----------------------------------------------------------------------------------------------------- */

burn_device_module *burn_device_load(burn_device *device, const void *image, size_t size, char *error, size_t error_size) {
    static const char doing[] = "loading a kernel";
    burn_device_module *module = calloc(1, sizeof *module);
    char *text = malloc(size + 1); /* the driver is not told the size: code in text ends with a zero */
    int entered;
    int32_t status = BURN_OUT_OF_MEMORY;
    if (!module || !text)
        burn_device_refuse(device, status, "%s: this process has no memory left", doing);
    else
        status = burn_device_begin(device, &entered);
    if (status == BURN_OK) {
        memcpy(text, image, size);
        text[size] = 0;
        module->device = device;
        status = burn_device_end(device, doing, entered, device->driver->load(&module->handle, text));
    }
    free(text);
    if (status == BURN_OK)
        return module;
    snprintf(error, error_size, "%s", burn_device_error());
    free(module);
    return NULL;
}

static void delete_module(burn_device_module *module) {
    module->device->driver->unload(module->handle);
    for (burn_device_function *next, *each = module->functions; each; each = next) {
        next = each->next;
        free(each);
    }
    free(module);
}

/* Waiting is impossible while work is recorded: modules unloaded then are queued. */
void burn_device_unload(burn_device_module *module) {
    if (!module || burn_driver_forked())
        return;
    burn_device *device = module->device;
    int entered;
    burn_device_wait(device);
    if (burn_device_begin(device, &entered) != BURN_OK)
        return;
    if (device->recording) {
        module->next = device->dead;
        device->dead = module;
    } else
        delete_module(module);
    burn_device_end(device, "", entered, 0);
}

/* One kernel may be looked up with several sizes of shared memory; the driver gets the largest. */
static int find(burn_device_module *module, burn_device_function *made) {
    const burn_driver *driver = module->device->driver;
    int64_t allowed = -1;
    for (const burn_device_function *each = module->functions; each; each = each->next)
        if (strcmp(each->name, made->name) == 0 && each->shared > allowed)
            allowed = each->shared;
    int code = driver->find(&made->handle, module->handle, made->name);
    if (!code && made->shared > 0 && made->shared > allowed)
        code = driver->set(made->handle, BURN_DRIVER_SHARED_MEMORY, (int)made->shared);
    return code;
}

burn_device_function *burn_device_find(burn_device_module *module, const char *name, int64_t shared) {
    burn_device *device = module->device;
    if (shared < 0 || shared > device->facts.shared) {
        burn_device_refuse(device, BURN_DEVICE_FAILED, "%s: a block gets at most %lld bytes of shared memory, it needs %lld",
                           name, (long long)device->facts.shared, (long long)shared);
        return NULL;
    }
    size_t length = strlen(name) + 1;
    burn_device_function *made = malloc(sizeof *made + length);
    int entered;
    if (!made) {
        burn_device_refuse(device, BURN_OUT_OF_MEMORY, "%s: this process has no memory left", name);
        return NULL;
    }
    memcpy(made->name, name, length);
    made->shared = shared;
    made->early = 0;
    if (burn_device_begin(device, &entered) != BURN_OK) {
        free(made);
        return NULL;
    }
    int code = find(module, made);
    if (!code) {
        made->next = module->functions;
        module->functions = made;
    }
    if (burn_device_end(device, name, entered, code) == BURN_OK)
        return made;
    free(made);
    return NULL;
}

void burn_device_set_early(burn_device_function *function, int early) {
    function->early = early;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

int32_t burn_device_launch(burn_device *device, burn_device_function *function, int64_t blocks, int32_t threads,
                           const int64_t *arguments, int32_t count) {
    if (blocks < 0 || blocks > MOST_BLOCKS)
        return burn_device_refuse(device, BURN_DEVICE_FAILED, "%s: %lld blocks are asked for, a launch has at most %lld",
                                  function->name, (long long)blocks, (long long)MOST_BLOCKS);
    if (threads < 1 || threads > MOST_THREADS || count < 0 || count > MOST_ARGUMENTS)
        return burn_device_refuse(device, BURN_DEVICE_FAILED, "%s: a launch of %d threads a block with %d arguments",
                                  function->name, (int)threads, (int)count);
    void *parameters[MOST_ARGUMENTS + 1];
    int entered;
    if (blocks == 0)
        return BURN_OK;
    for (int32_t i = 0; i < count; i++)
        parameters[i] = (void *)&arguments[i];
    parameters[count] = NULL; /* the driver has the count; the tests' drivers need the terminator */
    int32_t status = burn_device_begin(device, &entered);
    if (status != BURN_OK)
        return status;
    const burn_driver *driver = device->driver;
    const burn_driver_launch launch = {function->handle, (unsigned)blocks, (unsigned)threads, (unsigned)function->shared, parameters};
    int code = function->early && driver->launch_early
                   ? driver->launch_early(driver, &launch, device->stream)
                   : driver->launch(launch.function, launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared, device->stream,
                                    parameters, NULL);
    return burn_device_end(device, function->name, entered, code);
}

/* ---- launches recorded ------------------------------------------------------------------------------------------- */

int32_t burn_device_record(burn_device *device) {
    static const char doing[] = "recording";
    int entered;
    burn_device_lock(device); /* until it is recorded */
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status == BURN_OK) {
        int code = device->driver->begin_capture(device->stream, BURN_DRIVER_RELAXED);
        device->recording = !code;
        status = burn_device_end(device, doing, entered, code);
    }
    if (status != BURN_OK)
        burn_device_unlock(device);
    return status;
}

burn_device_graph *burn_device_recorded(burn_device *device) {
    static const char doing[] = "recording";
    const burn_driver *driver = device->driver;
    burn_device_graph *made = calloc(1, sizeof *made);
    int entered;
    if (burn_device_begin(device, &entered) != BURN_OK) {
        free(made);
        return NULL;
    }
    if (!device->recording) {
        burn_device_end(device, doing, entered, 0);
        burn_device_refuse(device, BURN_DEVICE_FAILED, "nothing is being recorded");
        free(made);
        return NULL;
    }
    void *graph = NULL;
    int code = driver->end_capture(device->stream, &graph);
    device->recording = 0;
    if (!code && !made)
        code = BURN_DRIVER_OUT_OF_MEMORY;
    if (!code)
        code = driver->graph(&made->ready, graph, 0);
    if (graph)
        driver->graph_release(graph);
    burn_device_module *dead = device->dead;
    device->dead = NULL;
    int32_t status = burn_device_end(device, doing, entered, code);
    burn_device_unlock(device);
    for (burn_device_module *next; dead; dead = next) {
        next = dead->next;
        burn_device_unload(dead);
    }
    if (status == BURN_OK)
        return made;
    free(made);
    return NULL;
}

int32_t burn_device_replay(burn_device *device, burn_device_graph *graph) {
    static const char doing[] = "replaying";
    int entered;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    return burn_device_end(device, doing, entered, device->driver->graph_launch(graph->ready, device->stream));
}

/* The driver lets a replay that is under way come to its end. */
void burn_device_graph_delete(burn_device *device, burn_device_graph *graph) {
    if (!graph || burn_driver_forked())
        return;
    int entered = burn_device_enter(device);
    if (entered >= 0)
        device->driver->ready_release(graph->ready);
    burn_device_leave(device, entered);
    free(graph);
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

burn_device_moment *burn_device_mark(burn_device *device) {
    static const char doing[] = "marking a moment";
    burn_device_moment *moment = calloc(1, sizeof *moment);
    int entered;
    if (!moment) {
        burn_device_refuse(device, BURN_OUT_OF_MEMORY, "%s: this process has no memory left", doing);
        return NULL;
    }
    moment->device = device;
    if (burn_device_begin_now(device, doing, &entered) != BURN_OK) {
        free(moment);
        return NULL;
    }
    int code = device->driver->event(&moment->event, 0);
    if (!code) {
        code = device->driver->record(moment->event, device->stream);
        if (code)
            device->driver->event_release(moment->event);
    }
    if (burn_device_end(device, doing, entered, code) == BURN_OK)
        return moment;
    free(moment);
    return NULL;
}

void *burn_device_event(const burn_device_moment *moment) { return moment->event; }

int64_t burn_device_between(burn_device_moment *first, burn_device_moment *last) {
    burn_device *device = last->device;
    const burn_driver *driver = device->driver;
    float milliseconds = 0;
    int entered = burn_device_enter(device);
    if (entered < 0)
        return -1;
    int code = driver->wait(first->event);
    if (!code)
        code = driver->wait(last->event);
    if (!code)
        code = driver->elapsed(&milliseconds, first->event, last->event);
    if (code)
        burn_device_failed(device, "reading a clock", code);
    burn_device_leave(device, entered);
    return code ? -1 : (int64_t)fabs((double)milliseconds * 1e6);
}

void burn_device_moment_delete(burn_device_moment *moment) {
    if (!moment || burn_driver_forked())
        return;
    int entered = burn_device_enter(moment->device);
    if (entered >= 0)
        moment->device->driver->event_release(moment->event);
    burn_device_leave(moment->device, entered);
    free(moment);
}
