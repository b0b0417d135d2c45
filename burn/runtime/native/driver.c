/* The drivers, each opened once in a process.
 *
 * A driver does not survive a fork: its threads and mappings stay with the parent, and it cannot be started a second time. In a
 * child of a process that used one, every call fails with this reason.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { MOST_NAMES = 3 };

/* libraries: names to try, in order. */
static const struct {
    const char *kind, *libraries[MOST_NAMES], *maker;
    const char *(*fill)(burn_driver *driver, void *library);
} KINDS[] = {{"cuda", {"libcuda.so.1"}, "NVIDIA", burn_driver_cuda},
             {"hip", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}, "AMD", burn_driver_hip},
             {"wgpu", {"libwgpu_native.so"}, "WebGPU", burn_driver_wgpu}};

enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

typedef struct opened {
    struct opened *next;
    burn_driver driver;
    char library[]; /* the file's name; "" for the usual one */
} opened;

const char burn_driver_forked_text[] =
    "this process was forked from one that had used the device, which cannot be used here: start it with the method \"spawn\"";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static opened *drivers;
static atomic_int in_use, forked;

/* The lock is not held over a fork: starting a driver may fork, to load the kernel's part. */
static void in_child(void) {
    pthread_mutex_init(&lock, NULL);
    if (atomic_load(&in_use))
        atomic_store(&forked, 1);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

int burn_driver_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

void burn_driver_explain(const burn_driver *driver, int code, char *text, size_t size) {
    const char *name = NULL, *words = NULL;
    if (driver->error_name(code, &name) || !name)
        name = "an error without a name";
    if (driver->error_text(code, &words) || !words)
        words = "unknown error";
    snprintf(text, size, "%s (%s, %d)", words, name, code);
}

/* A library that turns out to be of no use stays open: to close a driver is more than it promises to survive. */
static opened *start(int kind, const char *given, char *error, size_t error_size) {
    const char *maker = KINDS[kind].maker, *name = given ? given : KINDS[kind].libraries[0];
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (int i = 1; !library && !given && i < MOST_NAMES && KINDS[kind].libraries[i]; i++)
        library = dlopen(KINDS[kind].libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(error, error_size, "there is no %s driver: %s", maker, dlerror());
        return NULL;
    }
    opened *found = calloc(1, sizeof *found + (given ? strlen(given) : 0) + 1);
    if (!found) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    strcpy(found->library, given ? given : "");
    burn_driver *driver = &found->driver;
    const char *missing = KINDS[kind].fill(driver, library);
    int version = driver->oldest, code = driver->version ? driver->version(&version) : 0;
    if (version < driver->oldest)
        snprintf(error, error_size, "the %s driver is too old: it offers version %d.%d, burn needs %d.%d or a later one",
                 maker, version / 1000, version % 1000 / 10, driver->oldest / 1000, driver->oldest % 1000 / 10);
    else if (driver->newest && version / 1000 > driver->newest / 1000)
        snprintf(error, error_size, "the %s library has version %d.%d, which burn does not know: it needs version %d", maker,
                 version / 1000, version % 1000 / 10, driver->newest / 1000);
    else if (missing)
        snprintf(error, error_size, "%s is no %s driver that burn can use: it has no function %s", name, maker, missing);
    else {
        int used = atomic_exchange(&in_use, 1);
        if (!code)
            code = driver->init(0);
        if (!code)
            code = driver->count(&driver->devices);
        if (!code)
            return found;
        atomic_store(&in_use, used);
        driver->devices = 0;
        if (code == BURN_DRIVER_NO_DEVICE)
            return found;
        char text[256];
        burn_driver_explain(driver, code, text, sizeof text);
        snprintf(error, error_size, "the %s driver does not start: %s", maker, text);
    }
    free(found);
    return NULL;
}

const burn_driver *burn_driver_find(const char *kind, const char *library, char *error, size_t error_size) {
    int number = 0;
    while (number < KIND_COUNT && strcmp(kind, KINDS[number].kind) != 0)
        number++;
    if (number == KIND_COUNT) {
        snprintf(error, error_size, "there are no devices of the kind '%s'", kind);
        return NULL;
    }
    if (burn_driver_forked()) {
        snprintf(error, error_size, "%s", burn_driver_forked_text);
        return NULL;
    }
    const char *name = library ? library : "";
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    opened *found = drivers;
    while (found && (strcmp(found->driver.kind, kind) != 0 || strcmp(found->library, name) != 0))
        found = found->next;
    if (!found) {
        found = start(number, library, error, error_size);
        if (found) {
            found->next = drivers;
            drivers = found;
        }
    }
    pthread_mutex_unlock(&lock);
    return found ? &found->driver : NULL;
}
