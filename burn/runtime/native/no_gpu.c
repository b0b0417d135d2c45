/* Stubs of the GPU functions that programs and runs use. Programs for CPUs alone link them instead of the device's files,
 * so they contain no GPU code and need no driver. A program without a device never calls them. */
#include "run.h"

int burn_device_program(burn_program *program, char *error, size_t error_size) {
    static const char why[] = "this program was built without GPU support";
    (void)program;
    for (size_t i = 0; i < sizeof why && i < error_size; i++)
        error[i] = i + 1 < error_size ? why[i] : 0;
    return 0;
}

void burn_device_program_end(burn_program *program) { (void)program; }
void burn_device_take_inputs(burn_run *run, burn_input *inputs) { (void)run, (void)inputs; }
void burn_device_give_outputs(burn_run *run) { (void)run; }
void burn_device_release(burn_run *run, int64_t mark) { (void)run, (void)mark; }
void burn_device_spoil(burn_run *run, void *memory, int64_t bytes) { (void)run, (void)memory, (void)bytes; }
void burn_device_run_end(burn_run *run) { (void)run; }
int32_t burn_recorded_entry(burn_run *run) { return run->program->info.entry(run); }
void burn_recordings_clear(burn_run *run) { (void)run; }

void *burn_device_alloc(burn_device *device, int64_t bytes) {
    (void)device, (void)bytes;
    return NULL;
}

void burn_device_free(burn_device *device, void *memory) { (void)device, (void)memory; }
int32_t burn_device_wait(burn_device *device) { (void)device; return BURN_DEVICE_FAILED; }
int32_t burn_device_error_status(void) { return BURN_DEVICE_FAILED; }
int64_t burn_device_error_code(void) { return 0; }

burn_device_moment *burn_device_mark(burn_device *device) {
    (void)device;
    return NULL;
}

int64_t burn_device_between(burn_device_moment *first, burn_device_moment *last) {
    (void)first, (void)last;
    return 0;
}

void burn_device_moment_delete(burn_device_moment *moment) { (void)moment; }

void *burn_trace_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    (void)run, (void)sizes, (void)count, (void)offsets;
    return NULL;
}

void *burn_trace_output(burn_run *run, int64_t index) {
    (void)run, (void)index;
    return NULL;
}

void burn_trace_end(burn_run *run) { (void)run; }
