/* Custom ops (burn.custom_op): calls of a user's function in C, and of a Python function through the host.
 *
 * A tensor is `rank + 3` words, as in lib_debug.c: its address, burn_dtype, rank and sizes. Operands come first, then results.
 */
#include <stdlib.h>
#include <string.h>

#include "burn_custom.h"
#include "lib.h"
#include "lib_keys.h"
#include "run.h"

enum { MOST = 64, ZONE = 4096, FILL = 0xA5, UNWRITTEN = 0xFF };

static burn_custom_host host;
static int32_t checking = -1; /* see burn_custom_check; -1: the environment says */

void burn_set_custom_host(burn_custom_host function) { host = function; }

void burn_custom_check(int32_t is_on) { checking = is_on; }

static int is_checking(void) {
#ifdef __wasm__ /* a module has no environment */
    return checking > 0;
#else
    if (checking >= 0)
        return checking;
    const char *text = getenv("BURN_DEBUG_BOUNDS");
    return text && *text && strcmp(text, "0") != 0;
#endif
}

static const int64_t *describe(const int64_t *words, burn_custom_tensor *x) {
    *x = (burn_custom_tensor){(void *)(uintptr_t)words[0], words[1], words[2], words + 3, 1};
    for (int64_t i = 0; i < x->rank; i++)
        x->elements *= x->sizes[i];
    return words + 3 + x->rank;
}

/* ---- threads --------------------------------------------------------------------------------------------------------- */

static void run_range(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    burn_custom_body body;
    (void)worker;
    memcpy(&body, &args[0], sizeof body);
    body((void *)(uintptr_t)args[1], begin, end);
}

static void in_parallel(const burn_custom_call *call, burn_custom_body body, void *context, int64_t count, int64_t grain) {
    burn_run *run = call->run;
    int64_t args[2] = {0, (int64_t)(uintptr_t)context};
    memcpy(&args[0], &body, sizeof body);
    burn_pool_launch(&run->worker, run_range, args, count, grain > 0 ? grain : 1);
}

/* ---- debugging: a zone of known bytes on both ends of each tensor ----------------------------------------------------- */

static int64_t bytes_of(const burn_custom_tensor *x) { return x->elements * burn_lib_element_bytes(x->type); }

static int is_filled(const unsigned char *zone) {
    for (int64_t i = 0; i < ZONE; i++)
        if (zone[i] != FILL)
            return 0;
    return 1;
}

/* The index of the first tensor with a changed zone, or of the first changed input; -1 if there is none. */
static int64_t first_damaged(const burn_custom_tensor *own, const burn_custom_tensor *fenced, int64_t inputs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *data = fenced[i].data;
        int64_t bytes = bytes_of(&own[i]);
        if (!is_filled(data - ZONE) || !is_filled(data + bytes))
            return i;
        if (i < inputs && bytes && memcmp(data, own[i].data, (size_t)bytes) != 0)
            return i;
    }
    return -1;
}

/* Copies of the tensors with zones. Returns 0 if there is no memory. */
static int fence(burn_run *run, const burn_custom_tensor *own, burn_custom_tensor *fenced, int64_t inputs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t bytes = bytes_of(&own[i]);
        unsigned char *memory = burn_rt_alloc(run, bytes + 2 * ZONE);
        if (!memory)
            return 0;
        memset(memory, FILL, (size_t)(bytes + 2 * ZONE));
        fenced[i] = own[i];
        fenced[i].data = memory + ZONE;
        if (i < inputs && bytes)
            memcpy(fenced[i].data, own[i].data, (size_t)bytes);
        else
            memset(fenced[i].data, UNWRITTEN, (size_t)bytes);
    }
    return 1;
}

static void unfence(burn_run *run, const burn_custom_tensor *own, burn_custom_tensor *fenced, int64_t inputs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (i >= inputs && bytes_of(&own[i]))
            memcpy(own[i].data, fenced[i].data, (size_t)bytes_of(&own[i]));
        burn_rt_free(run, (char *)fenced[i].data - ZONE);
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------------- */

int32_t burn_lib_custom(burn_run *run, int64_t site, const void *function, const void *attributes, int64_t inputs,
                        int64_t outputs, const int64_t *words) {
    burn_custom_tensor tensors[MOST], fenced[MOST];
    int64_t count = inputs + outputs, status;
    int (*body)(const burn_custom_call *);
    if (count > MOST) {
        burn_rt_fail(run, BURN_CUSTOM_FAILED, site, -1);
        return burn_rt_status(run);
    }
    for (int64_t i = 0; i < count; i++)
        words = describe(words, &tensors[i]);
    const burn_custom_tensor *given = tensors;
    if (is_checking()) {
        if (!fence(run, tensors, fenced, inputs, count))
            return burn_rt_status(run);
        given = fenced;
    }
    burn_custom_call call = {inputs, outputs, given, given + inputs, attributes, in_parallel, run};
    memcpy(&body, &function, sizeof body);
    if ((status = body(&call)) != 0)
        burn_rt_fail(run, BURN_CUSTOM_FAILED, site, status);
    if (given == fenced) {
        int64_t damaged = first_damaged(tensors, fenced, inputs, count);
        if (damaged >= 0)
            burn_rt_fail(run, BURN_OUT_OF_BOUNDS, site, damaged);
        unfence(run, tensors, fenced, inputs, count);
    }
    return burn_rt_status(run);
}

int32_t burn_lib_custom_host(burn_run *run, int64_t site, int64_t function, int64_t inputs, int64_t outputs,
                             const int64_t *words) {
    if (!host || host(run, function, inputs, outputs, words))
        burn_rt_fail(run, BURN_HOST_FAILED, site, function);
    return burn_rt_status(run);
}
