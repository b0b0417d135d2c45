/* The interface of a WebAssembly module for JavaScript (index.js): one program, one call at a time. The model's own C file has the
 * tables; values.c has inputs and outputs. */
#include <stdlib.h>

#include "module.h"
#include "system.h"

#define OFFERED(name) __attribute__((export_name(name)))

static burn_program *program;

/* Makes the program, whose weights lie at an address for good. Returns 0 where there is no memory. */
OFFERED("start") int32_t start(const unsigned char *weights) {
    const burn_module *module = &burn_own_module;
    void **constants = calloc((size_t)module->program.constants + 1, sizeof *constants);
    if (!constants || !burn_values_open(&module->program))
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

/* One inference; returns a burn_status. Until `done`, the outputs' memory is there to be read. */
OFFERED("run") int32_t run(void) {
    burn_own_values.failure = burn_program_run(program, burn_own_values.inputs, burn_own_values.outputs, NULL);
    return burn_own_values.failure.code;
}

OFFERED("done") void done(void) {
    for (int64_t i = 0; i < burn_own_module.program.outputs; i++)
        burn_output_free(burn_own_module.program.output_specs[i].kind, &burn_own_values.outputs[i]);
}
