/* The command of a compiled training: `./net train.npz --epochs 3 --save net.safetensors`. burn_main_trainer describes it.
 *
 * An epoch's order of rows is that of burn.data.Loader with the same seed, and a checkpoint has the loader's position. So an
 * epoch here and one of burn.train.Learner are interchangeable. Exit status: 0, 1 for errors of files and runs, 2 for an invalid
 * command line, 130 after Ctrl-C and SIGTERM, which end the training after its step.
 */
#include "command.h"
#include "files.h"
#include "train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

extern const burn_trainer_facts *const burn_main_trainer;

enum { BATCH = 32, MOST_NAMES = 512, MOST = 1000000000, INTERRUPTED = 130 };

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    interrupted = 1;
    signal(number, SIG_DFL); /* the second one ends the process */
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

typedef struct options {
    const char **files;
    int64_t file_count, epochs, batch, every;
    const char *load, *resume, *save, *predict, *output, *weights;
    uint64_t seed, draws_seed;
    int keeps_order, drops_last, has_draws_seed;
} options;

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

static options parse(int count, char **words) {
    const burn_model_facts *step = burn_main_trainer->step.facts;
    options o = {.files = burn_room((size_t)count, sizeof *o.files), .epochs = 1};
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

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* An input's array of all rows. Inputs without an axis for rows are the same in each step. */
typedef struct column {
    unsigned char *data;
    int64_t rows, row_bytes, bytes;
    int has_rows, rank;
    int64_t dims[BURN_TENSOR_RANK];
    const char *path; /* of the first file that has it */
} column;

static void wrong_sizes(const char *path, const burn_value *value, const burn_array *array) {
    char text[400];
    size_t used = 0;
    for (int axis = 0; axis < array->rank && used < sizeof text - 32; axis++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", axis ? ", " : "", (long long)array->dims[axis]);
    text[used] = 0;
    burn_exit(BURN_EXIT_FAILED, "%s: array '%s' must be %s, and has the shape [%s]", path, value->name, value->type, text);
}

/* Adds a file's array to a column. */
static void append(column *c, const burn_value *value, const burn_array *array, const char *path) {
    int same = array->rank == value->rank;
    for (int axis = 0; axis < array->rank && same; axis++) {
        int is_fixed = !value->dims[axis].of && !(axis == 0 && c->has_rows);
        same = !is_fixed || array->dims[axis] == value->dims[axis].number;
        same = same && (!c->path || (axis == 0 && c->has_rows) || array->dims[axis] == c->dims[axis]);
    }
    if (!same)
        wrong_sizes(path, value, array);
    burn_tensor tensor = burn_tensor_of(value, array, path); /* which refuses other element types */
    if (c->path && !c->has_rows)
        burn_exit(BURN_EXIT_FAILED, "%s: array '%s' has no axis for rows, and %s has it already", path, value->name, c->path);
    if (!c->path) {
        c->data = tensor.data;
        tensor.data = NULL;
        c->path = path;
        c->rank = array->rank;
        memcpy(c->dims, array->dims, sizeof c->dims);
    } else {
        unsigned char *joined = burn_memory_new(c->bytes + tensor.bytes);
        if (!joined)
            burn_exit(BURN_EXIT_FAILED, "out of memory");
        if (c->bytes)
            memcpy(joined, c->data, (size_t)c->bytes);
        if (tensor.bytes)
            memcpy(joined + c->bytes, tensor.data, (size_t)tensor.bytes);
        burn_memory_free(c->data);
        c->data = joined;
    }
    burn_memory_free(tensor.data);
    c->bytes += array->bytes;
    c->rows += c->has_rows ? array->dims[0] : 0;
    c->row_bytes = c->has_rows && c->rows ? c->bytes / c->rows : 0;
}

/* Reads one file's array for an input; 0: there is none of its name. */
static int read_array(const burn_value *value, burn_content file, const char *path, burn_array *array) {
    char error[256] = "";
    if (file.bytes < 4 || memcmp(file.data, "PK", 2) != 0)
        burn_exit(BURN_EXIT_FAILED, "%s is not a .npz file", path);
    int found = burn_npz_read(file.data, file.bytes, value->name, array, error);
    if (!found)
        burn_exit(BURN_EXIT_FAILED, "%s: array '%s': %s", path, value->name, error);
    return found > 0;
}

static void missing(const burn_value *value, burn_content file, const char *path) {
    char names[MOST_NAMES];
    burn_npz_names(file.data, file.bytes, names, sizeof names);
    burn_exit(BURN_EXIT_FAILED, "%s has no array '%s', %s: there is %s", path, value->name, value->type,
              *names ? names : "none");
}

static column *read_columns(const options *o, int64_t *rows) {
    const burn_model_facts *facts = burn_main_trainer->step.facts;
    column *columns = burn_room((size_t)facts->input_count, sizeof *columns);
    for (int64_t i = 0; i < facts->input_count; i++)
        columns[i].has_rows = burn_main_trainer->has_rows[i];
    for (int64_t f = 0; f < o->file_count; f++) {
        const char *path = o->files[f];
        burn_content file = burn_read_all(path);
        int64_t before = 0;
        const char *of = NULL;
        for (int64_t i = 0; i < facts->input_count; i++) {
            const burn_value *value = &facts->inputs[i];
            column *c = &columns[i];
            burn_array array = {0};
            int64_t had = c->rows;
            if (read_array(value, file, path, &array))
                append(c, value, &array, path);
            else if (c->has_rows || !c->path)
                missing(value, file, path);
            burn_array_free(&array);
            if (c->has_rows && of && c->rows - had != before)
                burn_exit(BURN_EXIT_FAILED, "%s: '%s' has %lld rows, and '%s' %lld", path, of, (long long)before,
                          value->name, (long long)(c->rows - had));
            if (c->has_rows) {
                before = c->rows - had;
                of = value->name;
            }
        }
        free(file.data);
    }
    *rows = 0;
    for (int64_t i = 0; i < facts->input_count; i++)
        if (columns[i].has_rows)
            *rows = columns[i].rows;
    return columns;
}

/* ---- order: burn/data/order.py ----------------------------------------------------------------------------------- */

static const uint64_t GOLDEN = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

typedef struct ranked {
    uint64_t word;
    int64_t row;
} ranked;

static int by_word(const void *a, const void *b) {
    const ranked *left = a, *right = b;
    if (left->word != right->word)
        return left->word < right->word ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

/* The rows of an epoch, which counts from 0, in their order. */
static void order_rows(ranked *order, int64_t rows, const options *o, int64_t epoch) {
    uint64_t state = mixed(mixed(o->seed + GOLDEN) + (uint64_t)epoch + GOLDEN);
    for (int64_t i = 0; i < rows; i++)
        order[i] = (ranked){o->keeps_order ? 0 : mixed((uint64_t)(i + 1) * GOLDEN + state), i};
    qsort(order, (size_t)rows, sizeof *order, by_word);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

typedef struct training {
    const options *o;
    burn_trainer *trainer;
    column *columns;
    int64_t rows, batch;
    int64_t batches; /* of an epoch */
    int drops_last;
    burn_tensor *inputs, *outputs;
    int64_t loss; /* the number of the output that is shown, or -1 */
} training;

static void failed(const char *what) { burn_exit(BURN_EXIT_FAILED, "%s%s", what, burn_model_error()); }

/* The loader's position in JSON, as Python writes it. */
static void position_text(const training *t, int64_t epoch, int64_t batch, char text[256]) {
    snprintf(text, 256,
             "{\"epoch\": %lld, \"batch\": %lld, \"rows\": %lld, \"batch_size\": %lld, \"shuffle\": %d, \"seed\": %llu, "
             "\"drop_last\": %d, \"world\": 1}",
             (long long)epoch, (long long)batch, (long long)t->rows, (long long)t->batch, !t->o->keeps_order,
             (unsigned long long)t->o->seed, t->drops_last);
}

static void save(const training *t, int64_t epoch, int64_t batch) {
    char text[256];
    if (!t->o->save)
        return;
    position_text(t, epoch, batch, text);
    burn_trainer_set_position(t->trainer, &(burn_position){epoch + 1, batch, text, 1});
    if (burn_trainer_save(t->trainer, t->o->save) != BURN_DONE)
        failed("");
}

static void no_position(const training *t, int64_t epoch, int64_t batch) {
    burn_exit(BURN_EXIT_FAILED, "%s is damaged: there is no batch %lld of epoch %lld, as epochs have %lld batches here",
              t->o->resume, (long long)batch, (long long)epoch, (long long)t->batches);
}

/* Where a resumed training goes on: an epoch, which counts from 0, and a batch. */
static void find_position(const training *t, int64_t *epoch, int64_t *batch) {
    char text[256];
    burn_position position = burn_trainer_position(t->trainer);
    if (!position.is_known)
        burn_exit(BURN_EXIT_FAILED, "%s is no checkpoint of a training: it holds tensors alone (--load takes them)", t->o->resume);
    if (position.epoch < 1)
        no_position(t, position.epoch - 1, position.batch);
    *epoch = position.epoch - 1;
    *batch = position.batch;
    if (!position.data) {
        if (*batch)
            burn_exit(BURN_EXIT_FAILED, "%s was made in the middle of an epoch, and has no position in data (--load takes its state)",
                      t->o->resume);
        return;
    }
    long long e = 0, b = 0;
    if (sscanf(position.data, "{\"epoch\": %lld, \"batch\": %lld,", &e, &b) == 2) {
        *epoch = e;
        *batch = b;
    }
    position_text(t, *epoch, *batch, text);
    if (strcmp(text, position.data) != 0)
        burn_exit(BURN_EXIT_FAILED, "%s is of other rows or options: its loader is %s, here it is %s (--load takes the state alone)",
                  t->o->resume, position.data, text);
    if (*epoch < 0 || *epoch > BURN_MOST_COUNT || *batch < 0 || *batch > t->batches)
        no_position(t, *epoch, *batch);
}

/* The number of an output with one float: the one called "loss", or the first. */
static int64_t loss_output(const burn_model_facts *facts) {
    int64_t first = -1;
    for (int64_t i = 0; i < facts->output_count; i++) {
        const burn_value *value = &facts->outputs[i];
        if (value->rank || (value->element != BURN_FLOAT32 && value->element != BURN_FLOAT64))
            continue;
        if (strcmp(value->name, "loss") == 0)
            return i;
        first = first < 0 ? i : first;
    }
    return first;
}

static double loss_of(const training *t) {
    const burn_tensor *output = &t->outputs[t->loss];
    return output->element == BURN_FLOAT32 ? (double)*(const float *)output->data : *(const double *)output->data;
}

/* One step on rows of an order. The loss; NaN if there is none. */
static double one_step(training *t, const ranked *order, int64_t count) {
    const burn_model_facts *facts = burn_main_trainer->step.facts;
    for (int64_t i = 0; i < facts->input_count; i++) {
        const column *c = &t->columns[i];
        burn_tensor *input = &t->inputs[i];
        if (!c->has_rows)
            continue;
        input->dims[0] = count;
        input->bytes = count * c->row_bytes;
        for (int64_t row = 0; row < count && c->row_bytes; row++)
            memcpy((unsigned char *)input->data + row * c->row_bytes, c->data + order[row].row * c->row_bytes,
                   (size_t)c->row_bytes);
    }
    for (int64_t i = 0; i < facts->output_count; i++)
        t->outputs[i].data = NULL;
    if (burn_trainer_step_tensors(t->trainer, t->inputs, t->outputs) != BURN_DONE)
        failed("");
    double loss = t->loss < 0 ? (double)NAN : loss_of(t);
    for (int64_t i = 0; i < facts->output_count; i++)
        burn_model_free(&t->outputs[i]);
    return loss;
}

static void begin_inputs(training *t) {
    const burn_model_facts *facts = burn_main_trainer->step.facts;
    t->inputs = burn_room((size_t)facts->input_count, sizeof *t->inputs);
    t->outputs = burn_room((size_t)facts->output_count, sizeof *t->outputs);
    for (int64_t i = 0; i < facts->input_count; i++) {
        const column *c = &t->columns[i];
        const int64_t bytes = c->has_rows ? (t->batch < t->rows ? t->batch : t->rows) * c->row_bytes : c->bytes;
        t->inputs[i] = (burn_tensor){c->data, bytes, facts->inputs[i].element, c->rank, {0}};
        memcpy(t->inputs[i].dims, c->dims, sizeof c->dims);
        if (c->has_rows && !(t->inputs[i].data = burn_memory_new(bytes)))
            burn_exit(BURN_EXIT_FAILED, "out of memory");
    }
    t->loss = loss_output(facts);
}

static void end_inputs(training *t) {
    for (int64_t i = 0; i < burn_main_trainer->step.facts->input_count; i++) {
        if (t->columns[i].has_rows)
            burn_memory_free(t->inputs[i].data);
        burn_memory_free(t->columns[i].data);
    }
    free(t->inputs);
    free(t->outputs);
    free(t->columns);
}

/* One epoch from a batch on. 0: it was interrupted. */
static int one_epoch(training *t, ranked *order, int64_t epoch, int64_t batch) {
    const options *o = t->o;
    const int64_t began = burn_clock_ns();
    double sum = 0;
    int64_t seen = 0;
    order_rows(order, t->rows, o, epoch);
    for (; batch < t->batches && !interrupted; batch++) {
        const int64_t first = batch * t->batch, count = t->rows - first < t->batch ? t->rows - first : t->batch;
        const double loss = one_step(t, order + first, count);
        const int64_t steps = burn_trainer_steps(t->trainer);
        if (t->loss >= 0 && !isfinite(loss))
            burn_exit(BURN_EXIT_FAILED, "the loss of step %lld (epoch %lld, batch %lld) is %s", (long long)steps,
                      (long long)epoch + 1, (long long)batch + 1, isnan(loss) ? "nan" : "infinite");
        sum += loss * (double)count;
        seen += count;
        if (o->every && steps % o->every == 0) {
            printf("step %lld", (long long)steps);
            printf(t->loss < 0 ? "\n" : "  loss %.4f\n", loss);
            fflush(stdout);
        }
    }
    if (batch < t->batches) {
        save(t, epoch, batch);
        return 0;
    }
    printf("epoch %lld/%lld", (long long)epoch + 1, (long long)(epoch + 1 > o->epochs ? epoch + 1 : o->epochs));
    if (t->loss >= 0 && seen)
        printf("  loss %.4f", sum / (double)seen);
    printf("  %lld steps  %.1f s\n", (long long)burn_trainer_steps(t->trainer), (double)(burn_clock_ns() - began) / 1e9);
    fflush(stdout);
    save(t, epoch + 1, 0);
    return 1;
}

static void train(burn_trainer *trainer, const options *o) {
    training t = {.o = o, .trainer = trainer, .drops_last = o->drops_last};
    const int64_t fixed = burn_main_trainer->batch;
    t.columns = read_columns(o, &t.rows);
    t.batch = o->batch ? o->batch : fixed ? fixed : BATCH;
    if (fixed && t.batch != fixed)
        burn_exit(BURN_EXIT_USAGE, "--batch is %lld: the step was compiled for batches of %lld rows", (long long)t.batch,
                  (long long)fixed);
    if (!t.rows)
        burn_exit(BURN_EXIT_FAILED, "%s has no rows", o->files[0]);
    if (fixed && t.rows % fixed && !o->drops_last)
        burn_exit(BURN_EXIT_USAGE, "%lld rows are no multiple of %lld, which the step was compiled for: --drop-last leaves rows out",
                  (long long)t.rows, (long long)fixed);
    if (t.drops_last && t.rows < t.batch)
        burn_exit(BURN_EXIT_FAILED, "there are %lld rows, and a batch has %lld", (long long)t.rows, (long long)t.batch);
    t.batches = t.drops_last ? t.rows / t.batch : (t.rows + t.batch - 1) / t.batch;
    int64_t epoch = 0, batch = 0;
    if (o->resume)
        find_position(&t, &epoch, &batch);
    begin_inputs(&t);
    ranked *order = burn_room((size_t)t.rows, sizeof *order);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    if (epoch >= o->epochs) {
        printf("%lld epochs are done already, and --epochs counts them\n", (long long)epoch);
        save(&t, epoch, batch);
    }
    for (; epoch < o->epochs; epoch++, batch = 0)
        if (!one_epoch(&t, order, epoch, batch)) {
            printf("interrupted after %lld steps%s%s\n", (long long)burn_trainer_steps(trainer), o->save ? ": see " : "",
                   o->save ? o->save : "");
            break;
        }
    free(order);
    end_inputs(&t);
}

/* ---- inference --------------------------------------------------------------------------------------------------- */

static burn_tensor *read_predicted(const options *o) {
    const burn_model_facts *facts = burn_main_trainer->predict.facts;
    burn_content file = burn_read_all(o->predict);
    burn_tensor *inputs = burn_room((size_t)facts->input_count, sizeof *inputs);
    for (int64_t i = 0; i < facts->input_count; i++) {
        burn_array array = {0};
        if (!read_array(&facts->inputs[i], file, o->predict, &array))
            missing(&facts->inputs[i], file, o->predict);
        inputs[i] = burn_tensor_of(&facts->inputs[i], &array, o->predict);
        burn_array_free(&array);
    }
    free(file.data);
    return inputs;
}

static void predict(burn_trainer *trainer, const options *o, const burn_tensor *inputs) {
    const burn_model_facts *facts = burn_main_trainer->predict.facts;
    burn_tensor *outputs = burn_room((size_t)facts->output_count, sizeof *outputs);
    if (burn_trainer_predict_tensors(trainer, inputs, outputs) != BURN_DONE)
        failed("");
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

/* Errors of paths, before the work that they would lose. */
static void try_paths(const options *o, const char *weights) {
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
    options o = parse(count, words);
    burn_trainer *trainer = NULL;
    const char *weights = burn_weights_path(facts->step.facts, o.weights, count ? words[0] : "");
    try_paths(&o, weights);
    if (burn_trainer_create(facts, weights, &trainer) != BURN_DONE)
        failed("");
    const char *begin = o.load ? o.load : o.resume;
    if (begin && burn_trainer_load(trainer, begin) != BURN_DONE)
        failed("");
    if (o.load)
        burn_trainer_set_position(trainer, NULL); /* the state alone: the epochs begin anew */
    burn_tensor *inputs = o.predict ? read_predicted(&o) : NULL;
    if (o.has_draws_seed)
        burn_trainer_seed(trainer, o.draws_seed);
    if (o.file_count)
        train(trainer, &o);
    if (o.predict && !interrupted)
        predict(trainer, &o, inputs);
    for (int64_t i = 0; inputs && i < facts->predict.facts->input_count; i++)
        burn_memory_free(inputs[i].data);
    free(inputs);
    free((void *)o.files);
    burn_trainer_destroy(trainer);
    return fflush(stdout) == 0 ? interrupted ? INTERRUPTED : 0 : BURN_EXIT_FAILED;
}
