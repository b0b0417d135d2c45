/* The command of a compiled training: `./net train.npz --epochs 3 --save net.safetensors`. burn_main_trainer describes it.
 *
 * An epoch's order of rows is that of burn.data.Loader with the same seed, and a checkpoint has the loader's position. So an
 * epoch here and one of burn.train.Learner are interchangeable. Exit status: 0, 1 for errors of files and runs, 2 for an invalid
 * command line, 130 after Ctrl-C and SIGTERM, which end the training after its step.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_command.h"

enum { INTERRUPTED = 130 };

void burn_trainer_failed(const char *what) { burn_exit(BURN_EXIT_FAILED, "%s%s", what, burn_model_error()); }

/* Errors of paths, before the work that they would lose. */
static void try_paths(const burn_train_options *o, const char *weights) {
    const burn_model_facts *predicted = burn_main_trainer->predict.facts;
    const char *paths[] = {o->save, o->output && strcmp(o->output, "-") != 0 ? o->output : NULL};
    if (paths[1] && predicted->output_count != 1 && !burn_ends_in(paths[1], ".npz"))
        burn_exit(BURN_EXIT_USAGE, "%s: several outputs go into a .npz", paths[1]);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (!paths[i])
            continue;
        if (weights && burn_same_file(paths[i], weights))
            burn_exit(BURN_EXIT_USAGE, "%s is this program's file of weights, which it needs: give another path", paths[i]);
        if (burn_file_try(paths[i]) != 0)
            burn_exit(BURN_EXIT_FAILED, "%s: %s", paths[i], strerror(errno));
    }
}

int main(int count, char **words) {
    const burn_trainer_facts *facts = burn_main_trainer;
    burn_command_name(facts->step.facts->name);
    burn_streams_of_bytes();
    burn_train_options o = burn_parse_options(count, words);
    burn_trainer *trainer = NULL;
    const char *weights = burn_weights_path(facts->step.facts, o.weights, count ? words[0] : "");
    try_paths(&o, weights);
    if (burn_trainer_create(facts, weights, &trainer) != BURN_DONE)
        burn_trainer_failed("");
    const char *begin = o.load ? o.load : o.resume;
    if (begin && burn_trainer_load(trainer, begin) != BURN_DONE)
        burn_trainer_failed("");
    if (o.load)
        burn_trainer_set_position(trainer, NULL); /* the state alone: the epochs begin anew */
    burn_tensor *inputs = o.predict ? burn_read_predicted(&o) : NULL;
    if (o.has_draws_seed)
        burn_trainer_seed(trainer, o.draws_seed);
    if (o.file_count)
        burn_train(trainer, &o);
    if (o.predict && !burn_interrupted)
        burn_predict(trainer, &o, inputs);
    for (int64_t i = 0; inputs && i < facts->predict.facts->input_count; i++)
        burn_memory_free(inputs[i].data);
    free(inputs);
    free((void *)o.files);
    burn_trainer_destroy(trainer);
    return fflush(stdout) == 0 ? burn_interrupted ? INTERRUPTED : 0 : BURN_EXIT_FAILED;
}
