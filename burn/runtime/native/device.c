/* Devices: enumeration, facts, the context and lock of every call, and error messages.
 *
 * The context is the device's primary one, which all libraries of a process share, so that burn can use torch's memory. A
 * thread has one current context; each call makes burn's context current and restores the previous one.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_inner.h"

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static _Thread_local struct {
    char text[512];
    int32_t status;
    int code;
} last_error;

const char *burn_device_error(void) { return last_error.text; }
int32_t burn_device_error_status(void) { return last_error.status; }
int64_t burn_device_error_code(void) { return last_error.code; }

int32_t burn_device_failed(const burn_device *device, const char *doing, int code) {
    char text[256];
    burn_driver_explain(device->driver, code, text, sizeof text);
    snprintf(last_error.text, sizeof last_error.text, "%s: %s: %s", device->label, doing, text);
    last_error.code = code;
    last_error.status = code == BURN_DRIVER_OUT_OF_MEMORY ? BURN_OUT_OF_MEMORY : BURN_DEVICE_FAILED;
    return last_error.status;
}

int32_t burn_device_refuse(const burn_device *device, int32_t status, const char *format, ...) {
    va_list arguments;
    int start = snprintf(last_error.text, sizeof last_error.text, "%s: ", device->label);
    va_start(arguments, format);
    vsnprintf(last_error.text + start, sizeof last_error.text - (size_t)start, format, arguments);
    va_end(arguments);
    last_error.code = 0;
    last_error.status = status;
    return status;
}

/* ---- the context and the lock ------------------------------------------------------------------------------------ */

int burn_device_enter(burn_device *device) {
    void *current = NULL;
    if (burn_driver_forked()) {
        burn_device_refuse(device, BURN_DEVICE_FAILED, "%s", burn_driver_forked_text);
        return -1;
    }
    int code = device->driver->current(&current);
    if (!code && current == device->context)
        return 0;
    if (!code)
        code = device->driver->push(device->context);
    if (!code)
        return 1;
    burn_device_failed(device, "entering its context", code);
    return -1;
}

void burn_device_leave(burn_device *device, int entered) {
    void *context;
    if (entered > 0)
        device->driver->pop(&context);
}

/* In a forked child a thread that is no more may hold the lock. */
void burn_device_lock(burn_device *device) {
    if (burn_driver_forked())
        return;
    pthread_mutex_lock(&device->lock);
    if (device->held++ == 0)
        device->pushed = burn_device_enter(device); /* if this fails, all submissions fail */
}

void burn_device_unlock(burn_device *device) {
    if (burn_driver_forked())
        return;
    if (--device->held == 0)
        burn_device_leave(device, device->pushed);
    pthread_mutex_unlock(&device->lock);
}

int32_t burn_device_begin(burn_device *device, int *entered) {
    *entered = burn_device_enter(device);
    if (*entered < 0)
        return BURN_DEVICE_FAILED;
    pthread_mutex_lock(&device->lock);
    return BURN_OK;
}

int32_t burn_device_begin_now(burn_device *device, const char *doing, int *entered) {
    int32_t status = burn_device_begin(device, entered);
    if (status == BURN_OK && device->recording) {
        burn_device_end(device, doing, *entered, 0);
        return burn_device_refuse(device, BURN_DEVICE_FAILED, "%s: not while work is being recorded", doing);
    }
    return status;
}

int32_t burn_device_end(burn_device *device, const char *doing, int entered, int code) {
    pthread_mutex_unlock(&device->lock);
    int32_t status = code ? burn_device_failed(device, doing, code) : BURN_OK;
    burn_device_leave(device, entered);
    return status;
}

/* ---- which there are --------------------------------------------------------------------------------------------- */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static burn_device *devices;

int32_t burn_device_count(const char *kind, const char *library, char *error, size_t error_size) {
    const burn_driver *driver = burn_driver_find(kind, library, error, error_size);
    return driver ? driver->devices : -1;
}

static int32_t init_locks(burn_device *device) {
    pthread_mutexattr_t recursive;
    if (pthread_mutexattr_init(&recursive))
        return BURN_OUT_OF_MEMORY;
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    int failed = pthread_mutex_init(&device->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    return failed ? BURN_OUT_OF_MEMORY : burn_store_init(&device->store);
}

/* The facts that need no context; `handle` is the driver's number of the device. */
static int describe(const burn_driver *driver, int32_t index, int *handle, burn_device_facts *facts) {
    size_t memory = 0;
    facts->index = index;
    int code = driver->device(handle, index);
    if (!code)
        code = driver->describe(driver, *handle, facts);
    if (!code)
        code = driver->total(&memory, *handle);
    if (!code)
        code = driver->version(&facts->driver);
    facts->memory = (int64_t)memory;
    return code;
}

/* A partial failure is not undone: a device that cannot be opened once is not opened a second time. */
static burn_device *start(const burn_driver *driver, int32_t index, char *error, size_t error_size) {
    burn_device *device = calloc(1, sizeof *device);
    if (!device || init_locks(device) != BURN_OK) {
        snprintf(error, error_size, "out of memory");
        free(device);
        return NULL;
    }
    device->driver = driver;
    device->index = index;
    snprintf(device->label, sizeof device->label, "%s:%d", driver->kind, (int)index);
    int code = describe(driver, index, &device->handle, &device->facts);
    if (!code)
        code = driver->context(&device->context, device->handle);
    int entered = code ? -1 : burn_device_enter(device);
    if (entered >= 0) {
        code = driver->stream(&device->stream, BURN_DRIVER_OWN_STREAM);
        if (!code)
            code = driver->stream(&device->beside, BURN_DRIVER_OWN_STREAM);
        if (!code)
            code = burn_device_open_transfers(device);
        burn_device_leave(device, entered);
        if (!code)
            return device;
    }
    if (code)
        burn_device_failed(device, "it cannot be opened", code);
    snprintf(error, error_size, "%s", burn_device_error());
    free(device);
    return NULL;
}

/* The driver of a kind, if it has a device of that number. */
static const burn_driver *driver_of(const char *kind, int32_t index, const char *library, char *error, size_t error_size) {
    const burn_driver *driver = burn_driver_find(kind, library, error, error_size);
    if (!driver || (index >= 0 && index < driver->devices))
        return driver;
    if (driver->devices)
        snprintf(error, error_size, "there is no device %s:%d: they are numbered from 0 to %d", kind, (int)index,
                 (int)driver->devices - 1);
    else
        snprintf(error, error_size, "there is no device %s:%d: the driver sees none", kind, (int)index);
    return NULL;
}

int32_t burn_device_preview(const char *kind, int32_t index, const char *library, burn_device_facts *facts, char *error,
                            size_t error_size) {
    const burn_driver *driver = driver_of(kind, index, library, error, error_size);
    if (!driver)
        return BURN_DEVICE_FAILED;
    int handle = 0;
    memset(facts, 0, sizeof *facts);
    int code = describe(driver, index, &handle, facts);
    if (!code)
        return BURN_OK;
    char text[256];
    burn_driver_explain(driver, code, text, sizeof text);
    snprintf(error, error_size, "%s:%d: it cannot be described: %s", kind, (int)index, text);
    return BURN_DEVICE_FAILED;
}

burn_device *burn_device_open(const char *kind, int32_t index, const char *library, char *error, size_t error_size) {
    const burn_driver *driver = driver_of(kind, index, library, error, error_size);
    if (!driver)
        return NULL;
    pthread_mutex_lock(&registry_lock);
    burn_device *found = devices;
    while (found && (found->driver != driver || found->index != index))
        found = found->next;
    if (!found) {
        found = start(driver, index, error, error_size);
        if (found) {
            found->next = devices;
            devices = found;
        }
    }
    pthread_mutex_unlock(&registry_lock);
    return found;
}

const char *burn_device_kind(const burn_device *device) { return device->driver->kind; }
int32_t burn_device_index(const burn_device *device) { return device->index; }

int32_t burn_device_describe(burn_device *device, burn_device_facts *facts) {
    size_t unused = 0, total = 0;
    int entered = burn_device_enter(device);
    if (entered < 0)
        return BURN_DEVICE_FAILED;
    int code = device->driver->free(&unused, &total);
    int32_t status = code ? burn_device_failed(device, "asking for its free memory", code) : BURN_OK;
    burn_device_leave(device, entered);
    pthread_mutex_lock(&device->store.lock);
    *facts = device->facts;
    facts->free = (int64_t)unused;
    facts->used = device->store.used_bytes;
    facts->kept = device->store.kept_bytes;
    pthread_mutex_unlock(&device->store.lock);
    return status;
}

void *burn_device_stream(burn_device *device) { return device->stream; }
