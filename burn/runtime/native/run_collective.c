/* Collectives of programs on a GPU: the part of burn_rt.h that needs a communicator. */
#include "communicator.h"
#include "run.h"

static int32_t check(burn_run *run, int32_t status) {
    if (status != BURN_OK)
        burn_rt_fail(run, status, -1, 0);
    return burn_rt_status(run);
}

/* A run that has failed does it too: what its collectives write is freed, and later work may be given the same memory. */
static void join(burn_run *run) {
    burn_communicator *own = burn_communicator_of(run->program->info.device);
    if (own)
        check(run, own->await(own, NULL));
}

int32_t burn_rt_device_collective(burn_run *run, int64_t kernel_id, int64_t kind, int64_t number, int64_t size, int64_t ranks,
                                  const int64_t *groups, int64_t count, const int64_t *words) {
    burn_communicator *own = burn_communicator_of(run->program->info.device);
    const burn_collective what = {kind, number, size, ranks, groups, count, (const burn_collective_tensor *)words};
    burn_run_poll(run, 0);
    if (run->trace)
        burn_trace_end(run); /* the caller's stream has no communicator */
    if (burn_run_failed(run))
        return burn_rt_status(run);
    if (!own)
        return check(run, burn_communicator_refuse("this process has no communicator for its GPU"));
    burn_timed *span = burn_profile_open(run, kernel_id);
    int32_t status = own->run(own, run, &what);
    run->join = join;
    if (span && status == BURN_OK) /* to time it, the program waits */
        status = own->await(own, NULL);
    burn_profile_close(run, span);
    return check(run, status);
}

int32_t burn_rt_device_await(burn_run *run, const void *result) {
    burn_communicator *own = burn_communicator_of(run->program->info.device);
    return burn_run_failed(run) || !own ? burn_rt_status(run) : check(run, own->await(own, result));
}
