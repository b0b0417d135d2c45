/* Threads with one device between them: copies, launches, recordings, memory that goes back and forth. Built with a sanitizer by
 * test_device.py; the argument is the simulated driver. Exits with 0 when every result is right. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { CALLERS = 6, TURNS = 30, MOST = 40000 };

static burn_device *device;
static burn_device_function *add_one;

/* int64[n] at the first argument, n the second. */
static void launched(const char *image, const char *function, uint32_t blocks, uint32_t threads, uint32_t shared,
                     void **parameters) {
    int64_t *data = *(int64_t **)parameters[0], count = *(int64_t *)parameters[1];
    (void)image, (void)function, (void)blocks, (void)threads, (void)shared;
    for (int64_t i = 0; i < count; i++)
        data[i] += 1;
}

/* y = x + 3, by copies and launches, some of them recorded. */
static int compute(int64_t seed, int64_t turn, int64_t *x) {
    int64_t count = 1 + (seed * 997 + turn * 1311) % MOST, bytes = count * 8;
    for (int64_t i = 0; i < count; i++)
        x[i] = i * turn;
    void *block = burn_device_alloc(device, bytes), *copy = burn_device_alloc(device, bytes);
    if (!block || !copy || burn_device_send(device, block, x, bytes))
        return 1;
    memset(x, 0, (size_t)bytes);
    int64_t arguments[2] = {(int64_t)(intptr_t)block, count};
    burn_device_graph *graph = NULL;
    if (turn % 3 == seed % 3) {
        if (burn_device_record(device) || burn_device_launch(device, add_one, 1, 32, arguments, 2) ||
            !(graph = burn_device_recorded(device)))
            return 2;
        for (int i = 0; i < 3; i++)
            if (burn_device_replay(device, graph))
                return 3;
    } else {
        burn_device_lock(device);
        for (int i = 0; i < 3; i++)
            if (burn_device_launch(device, add_one, 1, 32, arguments, 2))
                return 4;
        burn_device_unlock(device);
    }
    if (burn_device_copy(device, copy, block, bytes))
        return 5;
    burn_device_free(device, block);
    if (turn % 7 == 0)
        burn_device_trim(device);
    if (turn % 5 == 0 && burn_device_wait(device))
        return 6;
    if (burn_device_fetch(device, x, copy, bytes))
        return 7;
    burn_device_free(device, copy);
    burn_device_graph_delete(device, graph);
    for (int64_t i = 0; i < count; i++)
        if (x[i] != i * turn + 3)
            return 8;
    return 0;
}

static void *call(void *seed) {
    int64_t *x = malloc(MOST * sizeof *x);
    int problem = 0;
    for (int64_t turn = 0; turn < TURNS && !problem; turn++)
        problem = compute((intptr_t)seed, turn, x);
    free(x);
    return (void *)(intptr_t)problem;
}

int main(int count, char **arguments) {
    char error[512];
    void *driver = dlopen(arguments[count - 1], RTLD_NOW);
    if (!driver)
        return puts(dlerror()), 1;
    ((void (*)(void *))dlsym(driver, "burn_simulated_on_launch"))((void *)launched);
    ((void (*)(int))dlsym(driver, "burn_simulated_be_lazy"))(1);
    device = burn_device_open("cuda", 0, arguments[count - 1], error, sizeof error);
    burn_device_module *module = device ? burn_device_load(device, "add", 3, error, sizeof error) : NULL;
    if (!module)
        return puts(error), 1;
    add_one = burn_device_find(module, "add", 0);
    pthread_t callers[CALLERS];
    int status = 0;
    for (intptr_t i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], NULL, call, (void *)i);
    for (int i = 0; i < CALLERS; i++) {
        void *problem;
        pthread_join(callers[i], &problem);
        if (problem) {
            printf("problem %d: %s\n", (int)(intptr_t)problem, burn_device_error());
            status = 1;
        }
    }
    burn_device_unload(module);
    burn_device_trim(device);
    char fault[256];
    ((void (*)(char *))dlsym(driver, "burn_simulated_fault"))(fault);
    return *fault ? (puts(fault), 1) : status;
}
