/* Inference with the trained model: --predict. */
#include <stdlib.h>

#include "train_command.h"

burn_tensor *burn_read_predicted(const burn_train_options *o) {
    const burn_model_facts *facts = burn_main_trainer->predict.facts;
    burn_content file = burn_read_all(o->predict);
    burn_tensor *inputs = burn_room((size_t)facts->input_count, sizeof *inputs);
    for (int64_t i = 0; i < facts->input_count; i++) {
        burn_array array = {0};
        if (!burn_read_array(&facts->inputs[i], file, o->predict, &array))
            burn_missing_array(&facts->inputs[i], file, o->predict);
        inputs[i] = burn_tensor_of(&facts->inputs[i], &array, o->predict);
        burn_array_free(&array);
    }
    free(file.data);
    return inputs;
}

void burn_predict(burn_trainer *trainer, const burn_train_options *o, const burn_tensor *inputs) {
    const burn_model_facts *facts = burn_main_trainer->predict.facts;
    burn_tensor *outputs = burn_room((size_t)facts->output_count, sizeof *outputs);
    if (burn_trainer_predict_tensors(trainer, inputs, outputs) != BURN_DONE)
        burn_trainer_failed("");
    const char **names = burn_room((size_t)facts->output_count, sizeof *names);
    burn_array *arrays = burn_room((size_t)facts->output_count, sizeof *arrays);
    for (int64_t i = 0; i < facts->output_count; i++) {
        names[i] = facts->outputs[i].name;
        arrays[i] = burn_array_of(&facts->outputs[i], &outputs[i]);
    }
    if (o->output)
        burn_write_arrays(o->output, facts->output_count, names, arrays);
    else
        burn_show(facts, outputs);
    for (int64_t i = 0; i < facts->output_count; i++)
        burn_model_free(&outputs[i]);
    free((void *)names);
    free(arrays);
    free(outputs);
}
