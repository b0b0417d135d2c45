/* Calls of custom ops' functions in C (burn_custom.h) without an operating system: on one thread, and without checks of bounds.
 * Words are as in lib_custom.c. */
#include "bare.h"
#include "burn_custom.h"

static void run_all(const burn_custom_call *call, burn_custom_body body, void *context, int64_t count, int64_t grain) {
    (void)call, (void)grain;
    if (count > 0)
        body(context, 0, count);
}

int32_t burn_lib_custom(burn_run *run, int64_t site, const void *function, const void *attributes, int64_t inputs,
                        int64_t outputs, const int64_t *words) {
    burn_custom_tensor tensors[inputs + outputs + 1];
    int (*body)(const burn_custom_call *);
    int status;
    (void)site;
    if (run->status)
        return run->status;
    for (int64_t i = 0; i < inputs + outputs; i++) {
        burn_custom_tensor *x = &tensors[i];
        *x = (burn_custom_tensor){(void *)(uintptr_t)words[0], words[1], words[2], words + 3, 1};
        for (int64_t axis = 0; axis < x->rank; axis++)
            x->elements *= x->sizes[axis];
        words += 3 + x->rank;
    }
    burn_custom_call call = {inputs, outputs, tensors, tensors + inputs, attributes, run_all, run};
    __builtin_memcpy(&body, &function, sizeof body);
    if ((status = body(&call)) != 0)
        burn_bare_fail(run, BURN_CUSTOM_FAILED);
    return run->status;
}
