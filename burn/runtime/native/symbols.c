/* The functions that compiled programs may call, by name. A new library function needs a line here and a declaration in lib.h. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "lib.h"
#include "runtime.h"

#define FUNCTION(name) {#name, (burn_function)(name)}
#define MATH(name) {#name, (burn_function)(name)}, {#name "f", (burn_function)(name##f)}
#define NAMED(name, function) {name, (burn_function)(function)}

const burn_symbol burn_symbols[] = {
    /* burn_rt.h */
    FUNCTION(burn_rt_input),
    FUNCTION(burn_rt_input_dim),
    FUNCTION(burn_rt_constant),
    FUNCTION(burn_rt_output),
    FUNCTION(burn_rt_plan),
    FUNCTION(burn_rt_alloc),
    FUNCTION(burn_rt_free),
    FUNCTION(burn_rt_grow),
    FUNCTION(burn_rt_mark),
    FUNCTION(burn_rt_release),
    FUNCTION(burn_rt_scratch),
    FUNCTION(burn_rt_copy),
    FUNCTION(burn_rt_read),
    FUNCTION(burn_rt_write),
    FUNCTION(burn_rt_threads),
    FUNCTION(burn_rt_launch),
    FUNCTION(burn_rt_steps),
    FUNCTION(burn_rt_enter),
    FUNCTION(burn_rt_leave),
    FUNCTION(burn_rt_fail),
    FUNCTION(burn_rt_kernel_fail),
    FUNCTION(burn_rt_status),
    FUNCTION(burn_rt_device_alloc),
    FUNCTION(burn_rt_device_free),
    FUNCTION(burn_rt_device_grow),
    FUNCTION(burn_rt_device_copy),
    FUNCTION(burn_rt_device_read),
    FUNCTION(burn_rt_device_write),
    FUNCTION(burn_rt_fetch),
    FUNCTION(burn_rt_send),
    FUNCTION(burn_rt_device_failure),
    FUNCTION(burn_rt_device_ready),
    FUNCTION(burn_rt_device_launch),
    FUNCTION(burn_rt_device_collective),
    FUNCTION(burn_rt_device_await),
    /* lib.h: operators that are not loops */
    FUNCTION(burn_lib_sort),
    FUNCTION(burn_lib_partial_sort),
    FUNCTION(burn_lib_nonzero),
    FUNCTION(burn_lib_unique),
    FUNCTION(burn_lib_tree_leaves),
    FUNCTION(burn_lib_non_max_suppression),
    FUNCTION(burn_lib_image_decode),
    FUNCTION(burn_lib_list_insert),
    FUNCTION(burn_lib_list_erase),
    FUNCTION(burn_lib_list_length),
    FUNCTION(burn_lib_list_at),
    FUNCTION(burn_lib_list_concat),
    FUNCTION(burn_lib_list_split),
    FUNCTION(burn_lib_text_concat),
    FUNCTION(burn_lib_text_case),
    FUNCTION(burn_lib_text_split),
    FUNCTION(burn_lib_text_find),
    FUNCTION(burn_lib_text_rank),
    FUNCTION(burn_lib_text_match),
    FUNCTION(burn_lib_text_tokens),
    FUNCTION(burn_lib_text_write),
    FUNCTION(burn_lib_text_read),
    FUNCTION(burn_lib_debug_print),
    FUNCTION(burn_lib_debug_call),
    FUNCTION(burn_lib_check_finite),
    FUNCTION(burn_lib_custom),
    FUNCTION(burn_lib_collective),
    FUNCTION(burn_lib_custom_host),
    /* libc, which LLVM calls for copies and fills */
    FUNCTION(memcpy),
    FUNCTION(memmove),
    FUNCTION(memset),
    FUNCTION(memcmp),
    /* libm, which LLVM calls for what it does not expand */
    MATH(acos), MATH(acosh), MATH(asin), MATH(asinh), MATH(atan), MATH(atan2), MATH(atanh), MATH(cbrt), MATH(ceil),
    MATH(copysign), MATH(cos), MATH(cosh), MATH(erf), MATH(erfc), MATH(exp), MATH(exp2), MATH(expm1), MATH(fabs),
    MATH(floor), MATH(fma), MATH(fmax), MATH(fmin), MATH(fmod), MATH(frexp), MATH(hypot), MATH(ldexp), MATH(lgamma),
    MATH(log), MATH(log10), MATH(log1p), MATH(log2), MATH(modf), MATH(nearbyint), MATH(pow), MATH(remainder),
    MATH(rint), MATH(round), MATH(sin), MATH(sinh), MATH(sqrt), MATH(tan), MATH(tanh), MATH(tgamma), MATH(trunc),
#ifdef __GLIBC__
    MATH(roundeven), MATH(exp10), {"sincos", (burn_function)sincos}, {"sincosf", (burn_function)sincosf},
#endif
    /* half.c */
    NAMED("__truncdfhf2", burn_truncdfhf2),
    NAMED("__truncsfhf2", burn_truncsfhf2),
    NAMED("__truncdfbf2", burn_truncdfbf2),
    NAMED("__truncsfbf2", burn_truncsfbf2),
    NAMED("__extendhfsf2", burn_extendhfsf2),
    {NULL, NULL},
};

typedef struct added {
    struct added *next;
    burn_function function;
    char name[];
} added;

static _Atomic(added *) more;

int burn_symbol_add(const char *name, burn_function function) {
    size_t bytes = strlen(name) + 1;
    added *symbol = malloc(sizeof *symbol + bytes);
    if (!symbol)
        return 0;
    memcpy(symbol->name, name, bytes);
    symbol->function = function;
    symbol->next = atomic_load(&more);
    while (!atomic_compare_exchange_weak(&more, &symbol->next, symbol))
        ;
    return 1;
}

burn_function burn_symbol_find(const char *name) {
    for (const added *symbol = atomic_load(&more); symbol; symbol = symbol->next)
        if (strcmp(symbol->name, name) == 0)
            return symbol->function;
    for (const burn_symbol *symbol = burn_symbols; symbol->name; symbol++)
        if (strcmp(symbol->name, name) == 0)
            return symbol->function;
    return NULL;
}
