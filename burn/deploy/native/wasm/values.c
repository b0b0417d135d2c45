/* Inputs, outputs and memory of a module of WebAssembly for JavaScript. Addresses and sizes are 32-bit numbers. */
#include <stdlib.h>

#include "module.h"
#include "system.h"

#define OFFERED(name) __attribute__((export_name(name)))

burn_values burn_own_values;
static int64_t *dims; /* of the inputs, BURN_MAX_RANK each */

int burn_values_open(const burn_program_info *program) {
    size_t inputs = (size_t)program->inputs, outputs = (size_t)program->outputs;
    burn_own_values.inputs = calloc(inputs + 1, sizeof(burn_input));
    burn_own_values.outputs = calloc(outputs + 1, sizeof(burn_output));
    dims = calloc(inputs * BURN_MAX_RANK + 1, sizeof *dims);
    return burn_own_values.inputs && burn_own_values.outputs && dims;
}

OFFERED("allocate") void *allocate(uint32_t bytes) { return burn_memory_new(bytes); }
OFFERED("release") void release(void *memory) { burn_memory_free(memory); }

OFFERED("input") void input(int32_t index, void *data, uint32_t bytes, int32_t rank) {
    burn_own_values.inputs[index] = (burn_input){.data = data,
                                                 .bytes = bytes,
                                                 .rank = rank,
                                                 .dims = dims + index * BURN_MAX_RANK,
                                                 .on_device = burn_own_values.on_device};
}

OFFERED("input_dim") void input_dim(int32_t index, int32_t axis, uint32_t size) {
    dims[index * BURN_MAX_RANK + axis] = size;
}

OFFERED("failed_site") int32_t failed_site(void) { return (int32_t)burn_own_values.failure.site; }
OFFERED("failed_value") double failed_value(void) { return (double)burn_own_values.failure.value; }

OFFERED("output") const void *output(int32_t index) { return burn_own_values.outputs[index].data; }
OFFERED("output_bytes") uint32_t output_bytes(int32_t index) { return (uint32_t)burn_own_values.outputs[index].bytes; }
OFFERED("output_rank") int32_t output_rank(int32_t index) { return (int32_t)burn_own_values.outputs[index].rank; }
OFFERED("output_dim") uint32_t output_dim(int32_t index, int32_t axis) {
    return (uint32_t)burn_own_values.outputs[index].dims[axis];
}
