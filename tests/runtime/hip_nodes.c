/* A list of a launch and a copy, submitted three times as one graph on the simulated HIP library. The first submission builds the
 * graph, the second changes the addresses of its nodes. Each prints the memory that it leaves. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

typedef void (*launched)(const char *, const char *, uint32_t, uint32_t, uint32_t, void **);

/* Adds the second argument to the number at the first. */
static void add(const char *image, const char *function, uint32_t blocks, uint32_t threads, uint32_t shared, void **parameters) {
    (void)image, (void)function;
    int64_t *at;
    memcpy(&at, parameters[0], sizeof at);
    *at += *(int64_t *)parameters[1] + blocks + threads + shared;
}

int main(int count, char **arguments) {
    char error[512];
    void *library = dlopen(arguments[count - 1], RTLD_NOW);
    void (*on_launch)(launched);
    void *found = dlsym(library, "burn_simulated_on_launch");
    memcpy(&on_launch, &found, sizeof on_launch);
    on_launch(add);
    burn_device *device = burn_device_open("hip", 1, arguments[count - 1], error, sizeof error);
    burn_device_module *module = device ? burn_device_load(device, "add", 4, error, sizeof error) : NULL;
    if (!module)
        return fprintf(stderr, "%s\n", error), 1;
    burn_device_function *function = burn_device_find(module, "add", 0);
    int64_t *memory[2] = {burn_device_alloc(device, 64), burn_device_alloc(device, 64)};
    for (int i = 0; i < 2; i++)
        burn_device_fill(device, memory[i], 0, 64);
    burn_device_list *list = burn_list_new(device, 2);
    const burn_word words[] = {{8, 0}, {1000, -1}};
    burn_list_launch(list, function, 2, 64, words, 2);
    burn_list_copy(list, (burn_word){16, 1}, (burn_word){8, 0}, 8);
    burn_list_seal(list, NULL);
    for (int turn = 0; turn < 3; turn++) {
        int swapped = turn > 0;
        const int64_t regions[] = {(int64_t)(intptr_t)memory[swapped], (int64_t)(intptr_t)memory[!swapped]};
        if (burn_list_submit(list, regions, burn_device_stream(device), 1) != BURN_OK)
            return fprintf(stderr, "%s\n", burn_device_error()), 1;
        int64_t here[16];
        for (int i = 0; i < 2; i++)
            burn_device_fetch(device, here + 8 * i, memory[i], 64);
        printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", here[1], here[2], here[9], here[10]);
    }
    burn_list_delete(list);
    burn_device_unload(module);
    for (int i = 0; i < 2; i++)
        burn_device_free(device, memory[i]);
    return 0;
}
