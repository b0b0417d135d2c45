/* The GPU of a model. Linked, together with the runtime's GPU files, into models with GPU code. */
#include "model.h"

#include <stdio.h>
#include <string.h>

/* The architecture of a version that is this one, as that version's table has it, or NULL. */
static const char *known(const burn_model_facts *facts, const char *architecture) {
    for (int64_t i = 0; i < facts->version_count; i++)
        if (strcmp(facts->versions[i].architecture, architecture) == 0)
            return facts->versions[i].architecture;
    return NULL;
}

/* "sm_80, sm_90": each once, though there may be versions of it for several CPUs, which follow one another. */
static const char *listed(const burn_model_facts *facts, char *text, size_t size) {
    size_t used = 0;
    const char *last = "";
    for (int64_t i = 0; i < facts->version_count && used < size; i++) {
        const char *next = facts->versions[i].architecture;
        if (strcmp(next, last) != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", *last ? ", " : "", next);
        last = next;
    }
    return text;
}

int32_t burn_gpu_open(const burn_model_facts *facts, burn_device **gpu, const char **architecture) {
    const char *kind = facts->versions[0].gpu;
    char error[400] = "", first[400] = "", all[200] = "";
    int32_t count = burn_device_count(kind, NULL, error, sizeof error);
    if (count < 0)
        return burn_model_fail(BURN_E_GPU, "%s runs on a GPU: %s", facts->name, error);
    if (!count)
        return burn_model_fail(BURN_E_GPU, "%s runs on a GPU, and the driver sees none", facts->name);
    for (int32_t index = 0; index < count; index++) {
        burn_device_facts about;
        burn_device *device = burn_device_open(kind, index, NULL, error, sizeof error);
        int is_open = device && burn_device_describe(device, &about) == BURN_OK;
        *architecture = is_open ? known(facts, about.architecture) : NULL;
        if (*architecture) {
            *gpu = device;
            return BURN_DONE;
        }
        if (*first)
            continue;
        if (is_open)
            snprintf(first, sizeof first, "%s:%d is %s, %s", kind, (int)index, about.name, about.architecture);
        else
            snprintf(first, sizeof first, "%s", device ? burn_device_error() : error);
    }
    return burn_model_fail(BURN_E_GPU, "%s was compiled for GPUs of %s: %s", facts->name,
                           listed(facts, all, sizeof all), first);
}
