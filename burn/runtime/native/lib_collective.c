/* Collectives of programs on the CPU. The host sets a function that does them, because a program without processes around it has no
 * communicator. */
#include "lib.h"
#include "runtime.h"

static burn_collective_host host;

void burn_set_collective_host(burn_collective_host function) { host = function; }

int32_t burn_lib_collective(burn_run *run, int64_t site, int64_t kind, int64_t number, int64_t size, int64_t ranks,
                            const int64_t *groups, int64_t count, const int64_t *words) {
    int32_t status = burn_rt_status(run);
    if (status != BURN_OK)
        return status;
    status = host ? host(run, kind, number, size, ranks, groups, count, words) : BURN_COLLECTIVE_FAILED;
    if (status != BURN_OK)
        burn_rt_fail(run, status, site, 0);
    return burn_rt_status(run);
}
