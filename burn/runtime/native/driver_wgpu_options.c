/* The environment variables of WebGPU: BURN_WGPU_BINDING, BURN_WGPU_CHECKS and BURN_WGPU_HALF. Another value than those described is an
 * error, so that a misspelt one is noticed. */
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"

/* The value, or NULL if it is not set or empty. */
static const char *value_of(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int refuse(const char *name, const char *value, const char *allowed) {
    return burn_wgpu_refuse(WGPU_REFUSED, "%s is \"%.100s\", and can only be %s", name, value, allowed);
}

int burn_wgpu_read_options(void) {
    const char *half = value_of("BURN_WGPU_HALF"), *checks = value_of("BURN_WGPU_CHECKS"), *binding = value_of("BURN_WGPU_BINDING");
    if (half && strcmp(half, "bits"))
        return refuse("BURN_WGPU_HALF", half, "bits");
    if (checks && strcmp(checks, "0") && strcmp(checks, "1"))
        return refuse("BURN_WGPU_CHECKS", checks, "0 or 1");
    wgpu.half_by_bits = half != NULL;
    wgpu.checks = checks && *checks == '1' ? WGPU_ALL_CHECKS : WGPU_NO_CHECKS;
    if (!binding)
        return 0;
    char *end;
    wgpu.lowered_binding = strtoull(binding, &end, 10);
    int is_number = *binding >= '0' && *binding <= '9' && !*end;
    return is_number && wgpu.lowered_binding >= LEAST_BINDING
               ? 0
               : burn_wgpu_refuse(WGPU_REFUSED, "BURN_WGPU_BINDING is \"%.100s\", and can only be a number of at least %d bytes", binding,
                                  LEAST_BINDING);
}
