/* The interface of a WebAssembly module that trains, for JavaScript (train/index.js): one trainer, one call at a time. Programs are
 * numbered: 0 is the step, 1 inference. Addresses and sizes are 32-bit numbers. */
#include <stdlib.h>
#include <string.h>

#include "train.h"

#define OFFERED(name) __attribute__((export_name(name)))

extern const burn_trainer_facts *const burn_main_trainer;

static burn_trainer *trainer;
static burn_tensor *inputs[2], *outputs[2];

static const burn_model_facts *program(int32_t which) {
    return which ? burn_main_trainer->predict.facts : burn_main_trainer->step.facts;
}

OFFERED("allocate") void *allocate(uint32_t bytes) { return burn_memory_new(bytes); }
OFFERED("release") void release(void *memory) { burn_memory_free(memory); }
OFFERED("error") const char *error(void) { return burn_model_error(); }

/* Makes the trainer; returns a code, as all functions that train. */
OFFERED("start") int32_t start(void) {
    for (int32_t which = 0; which < 2 && program(which); which++) {
        inputs[which] = calloc((size_t)program(which)->input_count + 1, sizeof *inputs[which]);
        outputs[which] = calloc((size_t)program(which)->output_count + 1, sizeof *outputs[which]);
        if (!inputs[which] || !outputs[which])
            return burn_model_fail(BURN_E_OUT_OF_MEMORY, "out of memory");
    }
    return burn_trainer_create(burn_main_trainer, NULL, &trainer);
}

OFFERED("input") void input(int32_t which, int32_t index, void *data, uint32_t bytes, int32_t rank) {
    inputs[which][index] = (burn_tensor){data, bytes, program(which)->inputs[index].element, rank, {0}};
}

OFFERED("input_dim") void input_dim(int32_t which, int32_t index, int32_t axis, uint32_t size) {
    inputs[which][index].dims[axis] = size;
}

/* Until `done`, the outputs' memory is there to be read. */
OFFERED("run") int32_t run(int32_t which) {
    for (int64_t i = 0; i < program(which)->output_count; i++)
        outputs[which][i] = (burn_tensor){NULL, 0, 0, 0, {0}};
    return which ? burn_trainer_predict_tensors(trainer, inputs[which], outputs[which])
                 : burn_trainer_step_tensors(trainer, inputs[which], outputs[which]);
}

OFFERED("output") const void *output(int32_t which, int32_t index) { return outputs[which][index].data; }
OFFERED("output_bytes") uint32_t output_bytes(int32_t which, int32_t index) { return (uint32_t)outputs[which][index].bytes; }
OFFERED("output_rank") int32_t output_rank(int32_t which, int32_t index) { return outputs[which][index].rank; }
OFFERED("output_dim") uint32_t output_dim(int32_t which, int32_t index, int32_t axis) {
    return (uint32_t)outputs[which][index].dims[axis];
}

OFFERED("done") void done(int32_t which) {
    for (int64_t i = 0; i < program(which)->output_count; i++)
        burn_model_free(&outputs[which][i]);
}

OFFERED("steps") uint32_t steps(void) { return (uint32_t)burn_trainer_steps(trainer); }
OFFERED("seed") void seed(uint32_t low, uint32_t high) { burn_trainer_seed(trainer, (uint64_t)high << 32 | low); }

/* A tensor of the state by its name. */
OFFERED("read_state") int32_t read_state(const char *name, void *data, uint32_t bytes) {
    return burn_trainer_read(trainer, name, data, bytes);
}
OFFERED("write_state") int32_t write_state(const char *name, const void *data, uint32_t bytes) {
    return burn_trainer_write(trainer, name, data, bytes);
}

/* ---- checkpoints in memory --------------------------------------------------------------------------------------- */

static unsigned char *saved;
static size_t saved_bytes, saved_room;

static int into_memory(void *context, const void *data, size_t bytes) {
    (void)context;
    if (bytes > SIZE_MAX - saved_bytes) /* 32 bits */
        return 0;
    if (saved_bytes + bytes > saved_room) {
        const size_t needed = saved_bytes + bytes;
        size_t room = needed <= SIZE_MAX / 2 ? needed * 2 : needed;
        unsigned char *larger = realloc(saved, room);
        if (!larger && room > needed)
            larger = realloc(saved, room = needed);
        if (!larger)
            return 0;
        saved = larger;
        saved_room = room;
    }
    memcpy(saved + saved_bytes, data, bytes);
    saved_bytes += bytes;
    return 1;
}

/* A checkpoint lies at `saved` until the next call. */
OFFERED("save") int32_t save(void) {
    saved_bytes = 0;
    return burn_trainer_save_to(trainer, into_memory, NULL);
}
OFFERED("saved") const void *saved_at(void) { return saved; }
OFFERED("saved_bytes") uint32_t saved_length(void) { return (uint32_t)saved_bytes; }

OFFERED("load") int32_t load(const unsigned char *data, uint32_t bytes) {
    return burn_trainer_load_from(trainer, data, bytes, "the checkpoint");
}
