/* The runtime functions (burn_rt.h) besides memory, on the thread that called the model. */

void burn_rt_fail(burn_run *run, int64_t code, int64_t site, int64_t value) {
    (void)site;
    fail_run(run, code, value);
}

void burn_rt_kernel_fail(burn_worker *worker, int64_t code, int64_t site, int64_t value) {
    burn_rt_fail(worker->run, code, site, value);
}

int32_t burn_rt_status(burn_run *run) { return run->status; }

/* ---- values -------------------------------------------------------------------------------------------------------- */

void *burn_rt_input(burn_run *run, int64_t index) {
    return facts.random_state && index == facts.input_count ? run->state : run->inputs[index].data;
}

int64_t burn_rt_input_dim(burn_run *run, int64_t index, int64_t axis) { return run->inputs[index].dims[axis]; }

void *burn_rt_constant(burn_run *run, int64_t index) {
    return (void *)(run->model->weights.data + (int64_t)offsets[index] * BURN_ALIGNMENT);
}

void *burn_rt_output(burn_run *run, int64_t index, int64_t rank, const int64_t *dims, int64_t bytes) {
    burn_tensor *output = &run->outputs[index];
    if (run->status)
        return NULL;
    output->rank = (int32_t)rank;
#ifndef BURN_FIXED_OUTPUTS
    int64_t needed = facts.versions->program.output_specs[index].element_bytes;
    for (int64_t axis = 0; axis < rank; axis++) {
        if (dims[axis] < 0)
            return fail_run(run, BURN_NEGATIVE_SIZE, dims[axis]);
        if (__builtin_mul_overflow(needed, dims[axis], &needed))
            return fail_run(run, BURN_SIZE_OVERFLOW, rank);
    }
    if (needed != bytes)
        return fail_run(run, BURN_SHAPE_MISMATCH, bytes);
#endif
    memcpy(output->dims, dims, (size_t)rank * sizeof *dims);
    return enlarge(run, &run->made[index].data, &run->made[index].bytes, bytes, 0);
}

/* ---- data and launches --------------------------------------------------------------------------------------------- */

void burn_rt_copy(burn_run *run, void *to, const void *from, int64_t bytes) {
    if (bytes > 0 && to != from && !run->status)
        memcpy(to, from, (size_t)bytes);
}

int64_t burn_rt_read(burn_run *run, const void *from, int64_t bytes) {
    (void)run;
    return bytes == 1 ? *(const int8_t *)from : bytes == 4 ? *(const int32_t *)from : *(const int64_t *)from;
}

void burn_rt_write(burn_run *run, void *to, int64_t value, int64_t bytes) {
    (void)run;
    memcpy(to, &value, (size_t)bytes);
}

int32_t burn_rt_launch(burn_run *run, int64_t kernel_id, burn_kernel kernel, const int64_t *args, int64_t count,
                       int64_t grain) {
    (void)kernel_id, (void)grain;
    if (!run->status && count > 0)
        kernel(&run->worker, args, 0, count);
    return run->status;
}

void burn_rt_enter(burn_run *run, int64_t kernel_id) { (void)run, (void)kernel_id; }
void burn_rt_leave(burn_run *run, int64_t kernel_id) { (void)run, (void)kernel_id; }
