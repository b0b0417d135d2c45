/* The command of a compiled model: `./model in.npz -o out.npz`. burn_main_facts describes the model.
 *
 * The first bytes of a file determine its format: .npz, .npy, or else raw bytes. Outputs are written atomically. Exit status: 0,
 * 1 for errors of files and runs, 2 for an invalid command line.
 */
#include "command.h"
#include "files.h"

#include <stdlib.h>
#include <string.h>

extern const burn_model_facts *const burn_main_facts;

enum { DEFAULT_RUNS = 100 };

/* ---- the command line -------------------------------------------------------------------------------------------- */

typedef struct options {
    const char **inputs, **outputs; /* by number: a path, or NULL */
    const char *input, *output;     /* of all at once */
    int64_t *sizes;                 /* by symbol; -1 where none is given */
    const char *weights;
    int64_t bench;
    uint64_t seed;
    int info;
} options;

static void help(void) {
    const burn_model_facts *facts = burn_main_facts;
    burn_say("usage: %s [FILE | NAME=FILE ...] [-o FILE | -o NAME=FILE ...]\n\nRuns the model %s.\n\ninputs:\n",
             facts->name, facts->name);
    for (int64_t i = 0; i < facts->input_count; i++)
        burn_say("  %-24s %s\n", facts->inputs[i].name, facts->inputs[i].type);
    printf("outputs:\n");
    for (int64_t i = 0; i < facts->output_count; i++)
        burn_say("  %-24s %s\n", facts->outputs[i].name, facts->outputs[i].type);
    puts("\nFILE is a .npz with the inputs by name, or one input as .npy or as plain bytes; - is standard input.\n"
         "\n  -o, --output FILE     write the outputs: a .npz, or one as .npy or else as plain bytes; - is standard output\n"
         "  --size NAME=NUMBER    a size that the model leaves open, for plain bytes and --bench\n"
         "  --bench [RUNS]        time runs, of inputs of zeros where none are given\n"
         "  --threads NUMBER      how many to use (otherwise BURN_NUM_THREADS, or the number of cores)");
    if (!facts->weights && facts->weights_bytes)
        burn_say("  --weights FILE        the file of weights (otherwise %s beside the program)\n", facts->weights_file);
    if (facts->random_state)
        puts("  --seed NUMBER         of random numbers (otherwise 0)");
    puts("  --info                print what the model is, as JSON\n  -h, --help            print this");
}

/* Which of some values "NAME=..." begins with, longest name first; -1: none. */
static int64_t named(const char *text, const burn_value *values, int64_t count, const char **rest) {
    int64_t best = -1;
    size_t longest = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t length = strlen(values[i].name);
        if (strncmp(text, values[i].name, length) == 0 && text[length] == '=' && length >= longest) {
            best = i;
            longest = length;
            *rest = text + length + 1;
        }
    }
    return best;
}

static void give_size(options *o, const char *text) {
    const burn_model_facts *facts = burn_main_facts;
    for (int64_t i = 0; i < facts->symbol_count; i++) {
        size_t length = strlen(facts->symbols[i]);
        if (strncmp(text, facts->symbols[i], length) == 0 && text[length] == '=') {
            o->sizes[i] = burn_number(text + length + 1, "--size", 0, INT64_MAX);
            return;
        }
    }
    burn_exit(BURN_EXIT_USAGE, "the model has no such size: '%s'", text);
}

static void give_file(options *o, const char *text, int is_output) {
    const burn_model_facts *facts = burn_main_facts;
    const char *path = NULL;
    int64_t at = is_output ? named(text, facts->outputs, facts->output_count, &path)
                           : named(text, facts->inputs, facts->input_count, &path);
    const char **whole = is_output ? &o->output : &o->input;
    if (at >= 0)
        (is_output ? o->outputs : o->inputs)[at] = path;
    else if (*whole)
        burn_exit(BURN_EXIT_USAGE, "%s and %s are both files of all %s", *whole, text, is_output ? "outputs" : "inputs");
    else
        *whole = text;
}

static options parse(int count, char **words) {
    const burn_model_facts *facts = burn_main_facts;
    options o = {0};
    o.inputs = burn_room((size_t)facts->input_count, sizeof *o.inputs);
    o.outputs = burn_room((size_t)facts->output_count, sizeof *o.outputs);
    o.sizes = burn_room((size_t)facts->symbol_count, sizeof *o.sizes);
    for (int64_t i = 0; i < facts->symbol_count; i++)
        o.sizes[i] = -1;
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *next = i + 1 < count ? words[i + 1] : NULL;
        if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
            help();
            exit(0);
        } else if (strcmp(word, "--info") == 0)
            o.info = 1;
        else if (strcmp(word, "--bench") == 0) {
            int has_number = next && *next >= '0' && *next <= '9' && strspn(next, "0123456789") == strlen(next);
            o.bench = has_number ? burn_number(words[++i], word, 0, 1000000000) : DEFAULT_RUNS;
            if (!o.bench)
                burn_exit(BURN_EXIT_USAGE, "--bench takes at least one run");
        } else if (*word != '-' || !word[1])
            give_file(&o, word, 0);
        else if (!next)
            burn_exit(BURN_EXIT_USAGE, "'%s' is no option, or lacks its value (--help shows them)", word);
        else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0)
            give_file(&o, words[++i], 1);
        else if (strcmp(word, "--size") == 0)
            give_size(&o, words[++i]);
        else if (strcmp(word, "--threads") == 0)
            burn_pool_set_threads((int32_t)burn_number(words[++i], word, 1, 1024));
        else if (strcmp(word, "--weights") == 0 && !facts->weights && facts->weights_bytes)
            o.weights = words[++i];
        else if (strcmp(word, "--seed") == 0 && facts->random_state)
            o.seed = (uint64_t)burn_number(words[++i], word, 0, INT64_MAX);
        else
            burn_exit(BURN_EXIT_USAGE, "'%s' is no option (--help shows them)", word);
    }
    return o;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The sizes of an input that is not an array with a shape. */
static int64_t sized(const burn_value *value, const int64_t *sizes, burn_tensor *tensor) {
    int64_t bytes = value->element_bytes;
    tensor->element = value->element;
    tensor->rank = value->rank;
    for (int32_t axis = 0; axis < value->rank; axis++) {
        tensor->dims[axis] = burn_model_size(&value->dims[axis], sizes);
        bytes = tensor->dims[axis] < 0 ? BURN_NO_SIZE : burn_size_mul(bytes, tensor->dims[axis]);
    }
    if (bytes < 0)
        burn_exit(BURN_EXIT_FAILED, "input '%s', %s, cannot have such sizes", value->name, value->type);
    return bytes;
}

static burn_tensor plain(const burn_value *value, burn_content file, const options *o, const char *path) {
    for (int64_t i = 0; i < burn_main_facts->symbol_count; i++)
        if (o->sizes[i] < 0)
            burn_exit(BURN_EXIT_USAGE, "%s: plain bytes say nothing of sizes: --size %s=NUMBER is needed", path,
                      burn_main_facts->symbols[i]);
    burn_tensor tensor = {0};
    tensor.bytes = sized(value, o->sizes, &tensor);
    if (tensor.bytes != file.bytes)
        burn_exit(BURN_EXIT_FAILED, "%s: input '%s', %s, takes %lld bytes, and there are %lld", path, value->name, value->type,
             (long long)tensor.bytes, (long long)file.bytes);
    tensor.data = burn_memory_new(tensor.bytes);
    if (!tensor.data)
        burn_exit(BURN_EXIT_FAILED, "out of memory");
    if (tensor.bytes)
        memcpy(tensor.data, file.data, (size_t)tensor.bytes);
    return tensor;
}

/* One input from a file's bytes; `name` is what a .npz has it under, or NULL for its only array. 0: it has none. */
static int read_input(const burn_value *value, burn_content file, const char *name, const options *o, const char *path,
                      burn_tensor *tensor) {
    char error[256] = "";
    burn_array array = {0};
    int is_zip = file.bytes >= 4 && (memcmp(file.data, "PK\3\4", 4) == 0 || memcmp(file.data, "PK\5\6", 4) == 0);
    int is_npy = file.bytes >= 6 && memcmp(file.data, "\x93NUMPY", 6) == 0;
    if (!is_zip && !is_npy) {
        *tensor = plain(value, file, o, path);
        return 1;
    }
    int found = is_zip ? burn_npz_read(file.data, file.bytes, name, &array, error)
                       : burn_npy_read(file.data, file.bytes, &array, error);
    if (found < 0)
        return 0;
    if (!found)
        burn_exit(BURN_EXIT_FAILED, "%s: input '%s': %s", path, value->name, error);
    *tensor = burn_tensor_of(value, &array, path);
    burn_array_free(&array);
    return 1;
}

static burn_tensor *read_inputs(const options *o) {
    const burn_model_facts *facts = burn_main_facts;
    burn_tensor *tensors = burn_room((size_t)facts->input_count, sizeof *tensors);
    burn_content whole = {0};
    int has_file = o->input != NULL;
    if (o->input)
        whole = burn_read_all(o->input);
    int is_zip = whole.bytes >= 4 && memcmp(whole.data, "PK", 2) == 0;
    int64_t missing = 0;
    for (int64_t i = 0; i < facts->input_count; i++)
        missing += !o->inputs[i];
    if (has_file && !is_zip && missing != 1)
        burn_exit(BURN_EXIT_USAGE, "%s holds one array, and the model has %lld inputs: write NAME=FILE", o->input,
                  (long long)missing);
    for (int64_t i = 0; i < facts->input_count; i++) {
        const burn_value *value = &facts->inputs[i];
        if (o->inputs[i]) {
            burn_content file = burn_read_all(o->inputs[i]);
            if (!read_input(value, file, value->name, o, o->inputs[i], &tensors[i]) &&
                !read_input(value, file, NULL, o, o->inputs[i], &tensors[i]))
                burn_exit(BURN_EXIT_FAILED, "%s holds no array", o->inputs[i]);
            free(file.data);
        } else if (has_file) {
            if (!read_input(value, whole, value->name, o, o->input, &tensors[i]))
                burn_exit(BURN_EXIT_FAILED, "%s has no array '%s'", o->input, value->name);
        } else if (o->bench) {
            int64_t *sizes = burn_room((size_t)facts->symbol_count, sizeof *sizes);
            for (int64_t s = 0; s < facts->symbol_count; s++)
                sizes[s] = o->sizes[s] < 0 ? 1 : o->sizes[s];
            tensors[i].bytes = sized(value, sizes, &tensors[i]);
            tensors[i].data = burn_memory_new(tensors[i].bytes);
            if (!tensors[i].data)
                burn_exit(BURN_EXIT_FAILED, "out of memory");
            memset(tensors[i].data, 0, (size_t)tensors[i].bytes);
            free(sizes);
        } else
            burn_exit(BURN_EXIT_USAGE, "input '%s', %s, is missing (--help shows how it is given)", value->name, value->type);
    }
    free(whole.data);
    return tensors;
}

static void write_outputs(const options *o, const burn_tensor *tensors) {
    const burn_model_facts *facts = burn_main_facts;
    const char **names = burn_room((size_t)facts->output_count, sizeof *names);
    burn_array *arrays = burn_room((size_t)facts->output_count, sizeof *arrays);
    for (int64_t i = 0; i < facts->output_count; i++) {
        names[i] = facts->outputs[i].name;
        arrays[i] = burn_array_of(&facts->outputs[i], &tensors[i]);
        if (o->outputs[i])
            burn_write_arrays(o->outputs[i], 1, &names[i], &arrays[i]);
    }
    if (o->output)
        burn_write_arrays(o->output, facts->output_count, names, arrays);
    free(names);
    free(arrays);
}

/* ---- what people see --------------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void bench(burn_model *model, int64_t runs, const burn_tensor *inputs, burn_tensor *outputs) {
    const burn_model_facts *facts = burn_main_facts;
    int64_t *times = burn_room((size_t)runs, sizeof *times);
    for (int64_t run = 0; run < runs; run++) { /* into the memory of the first call's outputs */
        int64_t begin = burn_clock_ns();
        if (burn_model_run(model, inputs, outputs) != BURN_DONE)
            burn_exit(BURN_EXIT_FAILED, "%s", burn_model_error());
        times[run] = burn_clock_ns() - begin;
    }
    qsort(times, (size_t)runs, sizeof *times, by_time);
    burn_say("%s: %lld runs, %d threads: least %.4f ms, median %.4f ms, most %.4f ms\n", facts->name, (long long)runs,
           (int)burn_pool_threads(), (double)times[0] / 1e6, (double)times[runs / 2] / 1e6, (double)times[runs - 1] / 1e6);
    free(times);
}

int main(int count, char **words) {
    const burn_model_facts *facts = burn_main_facts;
    burn_command_name(facts->name);
    burn_streams_of_bytes();
    options o = parse(count, words);
    if (o.info) {
        puts(facts->about);
        return 0;
    }
    burn_model *model = NULL;
    if (burn_model_create(facts, burn_weights_path(facts, o.weights, count ? words[0] : ""), &model) != BURN_DONE)
        burn_exit(BURN_EXIT_FAILED, "%s", burn_model_error());
    burn_model_seed(model, o.seed);
    burn_tensor *inputs = read_inputs(&o), *outputs = burn_room((size_t)facts->output_count, sizeof *outputs);
    if (burn_model_run(model, inputs, outputs) != BURN_DONE)
        burn_exit(BURN_EXIT_FAILED, "%s", burn_model_error());
    int is_written = o.output != NULL;
    for (int64_t i = 0; i < facts->output_count; i++)
        is_written |= o.outputs[i] != NULL;
    if (is_written)
        write_outputs(&o, outputs);
    else if (!o.bench)
        burn_show(facts, outputs);
    if (o.bench)
        bench(model, o.bench, inputs, outputs);
    for (int64_t i = 0; i < facts->input_count; i++)
        burn_memory_free(inputs[i].data);
    for (int64_t i = 0; i < facts->output_count; i++)
        burn_model_free(&outputs[i]);
    free(inputs);
    free(outputs);
    free(o.inputs);
    free(o.outputs);
    free(o.sizes);
    burn_model_destroy(model);
    return fflush(stdout) == 0 ? 0 : BURN_EXIT_FAILED;
}
