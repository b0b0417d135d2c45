/* The command line of a training, and its help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_command.h"

enum { MOST = 1000000000 };

static const char *epochs_help =
    "\n  --epochs NUMBER       how often to go through the rows; with --resume those before it count (1)\n"
    "  --batch NUMBER        rows of a batch (32); the last batch of an epoch may have fewer\n"
    "  --drop-last           leave out a last batch that has fewer rows\n"
    "  --seed NUMBER         of the order of rows, another one in each epoch: that of burn.data.Loader (0)\n"
    "  --no-shuffle          keep the order of rows\n"
    "  --random-seed NUMBER  of dropout and other random numbers, as burn.manual_seed; otherwise as when it was compiled\n"
    "  --load FILE           begin with the state of a checkpoint, or a model's weights, in safetensors\n"
    "  --resume FILE         go on from a checkpoint's epoch and batch, with the same rows and options\n"
    "  --save FILE           write a checkpoint after every epoch, and after Ctrl-C\n"
    "  --every NUMBER        print a line after so many steps (otherwise after epochs)";

static const char *common_help =
    "  --threads NUMBER      how many to use (otherwise BURN_NUM_THREADS, or the number of cores)\n"
    "  --info                print inputs, outputs and state as JSON\n  -h, --help            print this";

static void help(void) {
    const burn_trainer_facts *facts = burn_main_trainer;
    const burn_model_facts *step = facts->step.facts, *predict = facts->predict.facts;
    burn_say("usage: %s FILE.npz ... [--epochs NUMBER] [--save FILE]\n", step->name);
    if (predict)
        burn_say("       %s --load FILE --predict FILE.npz [-o FILE.npz]\n", step->name);
    burn_say("\nTrains the model %s on the rows of .npz files with these arrays:\n", step->name);
    for (int64_t i = 0; i < step->input_count; i++)
        burn_say("  %-24s %s\n", step->inputs[i].name, step->inputs[i].type);
    puts(epochs_help);
    if (predict) {
        puts("  --predict FILE.npz    run the model, after the training if there is one, on these arrays:");
        for (int64_t i = 0; i < predict->input_count; i++)
            burn_say("      %-20s %s\n", predict->inputs[i].name, predict->inputs[i].type);
        puts("  -o, --output FILE     write its outputs: a .npz, or one as .npy or else as plain bytes; - is standard output");
    }
    if (!step->weights && step->weights_bytes)
        burn_say("  --weights FILE        the file of weights (otherwise %s beside the program)\n", step->weights_file);
    puts(common_help);
}

burn_train_options burn_parse_options(int count, char **words) {
    const burn_model_facts *step = burn_main_trainer->step.facts;
    burn_train_options o = {.files = burn_room((size_t)count, sizeof *o.files), .epochs = 1};
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *next = i + 1 < count ? words[i + 1] : NULL;
        if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
            help();
            exit(0);
        } else if (strcmp(word, "--info") == 0) {
            puts(burn_main_trainer->about);
            exit(0);
        } else if (strcmp(word, "--no-shuffle") == 0)
            o.keeps_order = 1;
        else if (strcmp(word, "--drop-last") == 0)
            o.drops_last = 1;
        else if (*word != '-' || !word[1])
            o.files[o.file_count++] = word;
        else if (!next)
            burn_exit(BURN_EXIT_USAGE, "'%s' is no option, or lacks its value (--help shows them)", word);
        else if (strcmp(word, "--epochs") == 0)
            o.epochs = burn_number(words[++i], word, 1, MOST);
        else if (strcmp(word, "--batch") == 0)
            o.batch = burn_number(words[++i], word, 1, MOST);
        else if (strcmp(word, "--every") == 0)
            o.every = burn_number(words[++i], word, 1, MOST);
        else if (strcmp(word, "--seed") == 0)
            o.seed = (uint64_t)burn_number(words[++i], word, 0, INT64_MAX);
        else if (strcmp(word, "--random-seed") == 0) {
            o.draws_seed = (uint64_t)burn_number(words[++i], word, 0, INT64_MAX);
            o.has_draws_seed = 1;
        } else if (strcmp(word, "--load") == 0)
            o.load = words[++i];
        else if (strcmp(word, "--resume") == 0)
            o.resume = words[++i];
        else if (strcmp(word, "--save") == 0)
            o.save = words[++i];
        else if (strcmp(word, "--predict") == 0 && burn_main_trainer->predict.facts)
            o.predict = words[++i];
        else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0)
            o.output = words[++i];
        else if (strcmp(word, "--weights") == 0 && !step->weights && step->weights_bytes)
            o.weights = words[++i];
        else if (strcmp(word, "--threads") == 0)
            burn_pool_set_threads((int32_t)burn_number(words[++i], word, 1, 1024));
        else
            burn_exit(BURN_EXIT_USAGE, "'%s' is no option (--help shows them)", word);
    }
    if (o.load && o.resume)
        burn_exit(BURN_EXIT_USAGE, "--load and --resume both give the state to begin with");
    if (o.output && !o.predict)
        burn_exit(BURN_EXIT_USAGE, "-o is the file for the outputs of --predict");
    if (!o.file_count && !o.predict)
        burn_exit(BURN_EXIT_USAGE, "there is nothing to train on: give a .npz file (--help shows its arrays)");
    if (!o.file_count && (o.resume || o.save))
        burn_exit(BURN_EXIT_USAGE, "%s is for a training: give a .npz file", o.resume ? "--resume" : "--save");
    return o;
}
