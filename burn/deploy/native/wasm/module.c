/* The interface of a WebAssembly module for JavaScript (index.js): one program, one call at a time. Addresses and sizes are 32-bit
 * numbers. The model's own C file has the tables. */
#include <stdlib.h>

#include "module.h"
#include "system.h"

#define OFFERED(name) __attribute__((export_name(name)))

static burn_program *program;
static burn_input *inputs;
static burn_output *outputs;
static int64_t *dims; /* of the inputs, BURN_MAX_RANK each */
static burn_failure failure;

OFFERED("allocate") void *allocate(uint32_t bytes) { return burn_memory_new(bytes); }
OFFERED("release") void release(void *memory) { burn_memory_free(memory); }

/* Makes the program, whose weights lie at an address for good. Returns 0 where there is no memory. */
OFFERED("start") int32_t start(const unsigned char *weights) {
    const burn_module *module = &burn_own_module;
    size_t count = (size_t)module->program.inputs, made = (size_t)module->program.outputs;
    void **constants = calloc((size_t)module->program.constants + 1, sizeof *constants);
    inputs = calloc(count + 1, sizeof *inputs);
    outputs = calloc(made + 1, sizeof *outputs);
    dims = calloc(count * BURN_MAX_RANK + 1, sizeof *dims);
    if (!constants || !inputs || !outputs || !dims)
        return 0;
    for (int64_t i = 0; i < module->program.constants; i++)
        constants[i] = (void *)(uintptr_t)(weights + module->constants[i].offset);
    burn_program_info info = module->program;
    info.constant_data = constants;
    char error[1];
    program = burn_program_new(&info, error, sizeof error);
    for (int64_t i = 0; program && i < info.constants; i++)
        if (module->constants[i].strings >= 0 &&
            burn_program_texts(program, i, module->constants[i].bytes, module->constants[i].strings) != BURN_OK)
            return 0;
    free(constants);
    return program != NULL;
}

#ifdef __wasm_atomics__
/* The main loop of the module's instance in a worker. */
OFFERED("thread") void thread(int32_t number) { burn_instance_main(number); }
OFFERED("set_threads") void set_threads(int32_t count) { burn_pool_set_threads(count); }
#endif

OFFERED("input") void input(int32_t index, void *data, uint32_t bytes, int32_t rank) {
    inputs[index] = (burn_input){.data = data, .bytes = bytes, .rank = rank, .dims = dims + index * BURN_MAX_RANK};
}

OFFERED("input_dim") void input_dim(int32_t index, int32_t axis, uint32_t size) {
    dims[index * BURN_MAX_RANK + axis] = size;
}

/* One inference; returns a burn_status. Until `done`, the outputs' memory is there to be read. */
OFFERED("run") int32_t run(void) {
    failure = burn_program_run(program, inputs, outputs, NULL);
    return failure.code;
}

OFFERED("failed_site") int32_t failed_site(void) { return (int32_t)failure.site; }
OFFERED("failed_value") double failed_value(void) { return (double)failure.value; }

OFFERED("output") const void *output(int32_t index) { return outputs[index].data; }
OFFERED("output_bytes") uint32_t output_bytes(int32_t index) { return (uint32_t)outputs[index].bytes; }
OFFERED("output_rank") int32_t output_rank(int32_t index) { return (int32_t)outputs[index].rank; }
OFFERED("output_dim") uint32_t output_dim(int32_t index, int32_t axis) { return (uint32_t)outputs[index].dims[axis]; }

OFFERED("done") void done(void) {
    for (int64_t i = 0; i < burn_own_module.program.outputs; i++)
        burn_output_free(burn_own_module.program.output_specs[i].kind, &outputs[i]);
}
