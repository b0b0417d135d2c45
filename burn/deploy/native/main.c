/* The command of a compiled model: `./model in.npz -o out.npz`. burn_main_facts describes the model.
 *
 * The first bytes of a file determine its format: .npz, .npy, or else raw bytes. Outputs are written atomically. Exit status: 0,
 * 1 for errors of files and runs, 2 for an invalid command line.
 */
#include "files.h"
#include "model.h"
#include "npz.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <unistd.h>
#endif

extern const burn_model_facts *const burn_main_facts;

enum { FAILED = 1, USAGE = 2, MOST_PATH = 4096, DEFAULT_RUNS = 100, SHOWN = 8 };

static const char *program = "model";

/* Bytes of a character that steers a terminal, or reverses its writing; 0: it does neither. Names of a model may hold such. */
static int steers(const unsigned char *c) {
    if ((*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f)
        return 1;
    if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
        return 2;
    if (*c == 0xe2 && ((c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xaa && c[2] <= 0xae))) ||
                       (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9)))
        return 3;
    return 0;
}

static void say_these(FILE *stream, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!text)
        return;
    vsnprintf(text, (size_t)length + 1, format, arguments);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        int bytes = steers(c);
        if (!bytes)
            fputc(*c++, stream);
        while (bytes-- > 0)
            fprintf(stream, "\\x%02x", *c++);
    }
    free(text);
}

/* Prints text in which a model's names stand. */
static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_these(stdout, format, arguments);
    va_end(arguments);
}

static void fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program);
    say_these(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

static void *room(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail(FAILED, "out of memory");
    return memory;
}

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
    say("usage: %s [FILE | NAME=FILE ...] [-o FILE | -o NAME=FILE ...]\n\nRuns the model %s.\n\ninputs:\n", program,
           facts->name);
    for (int64_t i = 0; i < facts->input_count; i++)
        say("  %-24s %s\n", facts->inputs[i].name, facts->inputs[i].type);
    printf("outputs:\n");
    for (int64_t i = 0; i < facts->output_count; i++)
        say("  %-24s %s\n", facts->outputs[i].name, facts->outputs[i].type);
    puts("\nFILE is a .npz with the inputs by name, or one input as .npy or as plain bytes; - is standard input.\n"
         "\n  -o, --output FILE     write the outputs: a .npz, or one as .npy or else as plain bytes; - is standard output\n"
         "  --size NAME=NUMBER    a size that the model leaves open, for plain bytes and --bench\n"
         "  --bench [RUNS]        time runs, of inputs of zeros where none are given\n"
         "  --threads NUMBER      how many to use (otherwise BURN_NUM_THREADS, or the number of cores)");
    if (!facts->weights && facts->weights_bytes)
        say("  --weights FILE        the file of weights (otherwise %s beside the program)\n", facts->weights_file);
    if (facts->random_state)
        puts("  --seed NUMBER         of random numbers (otherwise 0)");
    puts("  --info                print what the model is, as JSON\n  -h, --help            print this");
}

static int64_t natural(const char *text, const char *what, int64_t most) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0 || value > most)
        fail(USAGE, "%s takes a number, not '%s'", what, text);
    return value;
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
            o->sizes[i] = natural(text + length + 1, "--size", INT64_MAX);
            return;
        }
    }
    fail(USAGE, "the model has no such size: '%s'", text);
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
        fail(USAGE, "%s and %s are both files of all %s", *whole, text, is_output ? "outputs" : "inputs");
    else
        *whole = text;
}

static options parse(int count, char **words) {
    const burn_model_facts *facts = burn_main_facts;
    options o = {0};
    o.inputs = room((size_t)facts->input_count, sizeof *o.inputs);
    o.outputs = room((size_t)facts->output_count, sizeof *o.outputs);
    o.sizes = room((size_t)facts->symbol_count, sizeof *o.sizes);
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
            o.bench = has_number ? natural(words[++i], word, 1000000000) : DEFAULT_RUNS;
            if (!o.bench)
                fail(USAGE, "--bench takes at least one run");
        } else if (*word != '-' || !word[1])
            give_file(&o, word, 0);
        else if (!next)
            fail(USAGE, "'%s' is no option, or lacks its value (--help shows them)", word);
        else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0)
            give_file(&o, words[++i], 1);
        else if (strcmp(word, "--size") == 0)
            give_size(&o, words[++i]);
        else if (strcmp(word, "--threads") == 0) {
            int64_t threads = natural(words[++i], word, 1024);
            if (!threads)
                fail(USAGE, "--threads takes a number from 1 on");
            burn_pool_set_threads((int32_t)threads);
        } else if (strcmp(word, "--weights") == 0 && !facts->weights && facts->weights_bytes)
            o.weights = words[++i];
        else if (strcmp(word, "--seed") == 0 && facts->random_state)
            o.seed = (uint64_t)natural(words[++i], word, INT64_MAX);
        else
            fail(USAGE, "'%s' is no option (--help shows them)", word);
    }
    return o;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct content {
    unsigned char *data;
    int64_t bytes;
} content;

static content read_all(const char *path) {
    int is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file)
        fail(FAILED, "%s: %s", path, strerror(errno));
    size_t size = 1 << 16, used = 0, got;
    unsigned char *data = malloc(size);
    while (data && (got = fread(data + used, 1, size - used, file)) > 0) {
        used += got;
        if (used == size) {
            unsigned char *larger = size <= SIZE_MAX / 2 ? realloc(data, size *= 2) : NULL;
            if (!larger)
                fail(FAILED, "%s: out of memory", path);
            data = larger;
        }
    }
    if (!data || ferror(file))
        fail(FAILED, "%s: %s", path, data ? strerror(errno) : "out of memory");
    if (!is_stdin)
        fclose(file);
    return (content){data, (int64_t)used};
}

/* numpy's letter for an element; 'V' for those that numpy has no letter for. */
static char kind_of(int32_t element) {
    static const char kinds[] = "fffVVVVVVVVViiiiVVuuuubcc";
    return kinds[element];
}

static burn_tensor tensor_of(const burn_value *value, const burn_array *array, const char *path) {
    if (array->item != value->element_bytes ||
        (array->kind != kind_of(value->element) && !(array->kind == 'V' && kind_of(value->element) == 'V')))
        fail(FAILED, "%s: input '%s' must be %s, and is of numpy's type %c%d", path, value->name, value->type, array->kind,
             array->item);
    burn_tensor tensor = {burn_memory_new(array->bytes), array->bytes, value->element, array->rank, {0}};
    if (!tensor.data)
        fail(FAILED, "out of memory");
    if (array->bytes)
        memcpy(tensor.data, array->data, (size_t)array->bytes);
    memcpy(tensor.dims, array->dims, sizeof tensor.dims);
    return tensor;
}

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
        fail(FAILED, "input '%s', %s, cannot have such sizes", value->name, value->type);
    return bytes;
}

static burn_tensor plain(const burn_value *value, content file, const options *o, const char *path) {
    for (int64_t i = 0; i < burn_main_facts->symbol_count; i++)
        if (o->sizes[i] < 0)
            fail(USAGE, "%s: plain bytes say nothing of sizes: --size %s=NUMBER is needed", path, burn_main_facts->symbols[i]);
    burn_tensor tensor = {0};
    tensor.bytes = sized(value, o->sizes, &tensor);
    if (tensor.bytes != file.bytes)
        fail(FAILED, "%s: input '%s', %s, takes %lld bytes, and there are %lld", path, value->name, value->type,
             (long long)tensor.bytes, (long long)file.bytes);
    tensor.data = burn_memory_new(tensor.bytes);
    if (!tensor.data)
        fail(FAILED, "out of memory");
    if (tensor.bytes)
        memcpy(tensor.data, file.data, (size_t)tensor.bytes);
    return tensor;
}

/* One input from a file's bytes; `name` is what a .npz has it under, or NULL for its only array. 0: it has none. */
static int read_input(const burn_value *value, content file, const char *name, const options *o, const char *path,
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
        fail(FAILED, "%s: input '%s': %s", path, value->name, error);
    *tensor = tensor_of(value, &array, path);
    burn_array_free(&array);
    return 1;
}

static burn_tensor *read_inputs(const options *o) {
    const burn_model_facts *facts = burn_main_facts;
    burn_tensor *tensors = room((size_t)facts->input_count, sizeof *tensors);
    content whole = {0};
    int has_file = o->input != NULL;
    if (o->input)
        whole = read_all(o->input);
    int is_zip = whole.bytes >= 4 && memcmp(whole.data, "PK", 2) == 0;
    int64_t missing = 0;
    for (int64_t i = 0; i < facts->input_count; i++)
        missing += !o->inputs[i];
    if (has_file && !is_zip && missing != 1)
        fail(USAGE, "%s holds one array, and the model has %lld inputs: write NAME=FILE", o->input, (long long)missing);
    for (int64_t i = 0; i < facts->input_count; i++) {
        const burn_value *value = &facts->inputs[i];
        if (o->inputs[i]) {
            content file = read_all(o->inputs[i]);
            if (!read_input(value, file, value->name, o, o->inputs[i], &tensors[i]) &&
                !read_input(value, file, NULL, o, o->inputs[i], &tensors[i]))
                fail(FAILED, "%s holds no array", o->inputs[i]);
            free(file.data);
        } else if (has_file) {
            if (!read_input(value, whole, value->name, o, o->input, &tensors[i]))
                fail(FAILED, "%s has no array '%s'", o->input, value->name);
        } else if (o->bench) {
            int64_t *sizes = room((size_t)facts->symbol_count, sizeof *sizes);
            for (int64_t s = 0; s < facts->symbol_count; s++)
                sizes[s] = o->sizes[s] < 0 ? 1 : o->sizes[s];
            tensors[i].bytes = sized(value, sizes, &tensors[i]);
            tensors[i].data = burn_memory_new(tensors[i].bytes);
            if (!tensors[i].data)
                fail(FAILED, "out of memory");
            memset(tensors[i].data, 0, (size_t)tensors[i].bytes);
            free(sizes);
        } else
            fail(USAGE, "input '%s', %s, is missing (--help shows how it is given)", value->name, value->type);
    }
    free(whole.data);
    return tensors;
}

static int ends_in(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static burn_array array_of(const burn_value *value, const burn_tensor *tensor) {
    burn_array array = {tensor->data, tensor->bytes, kind_of(value->element), (int)value->element_bytes, tensor->rank, {0}, NULL};
    memcpy(array.dims, tensor->dims, sizeof array.dims);
    return array;
}

/* Outputs into a file: all into a .npz, one into a .npy or as plain bytes. */
static int put(FILE *file, const char *path, int64_t count, const char *const *names, const burn_array *arrays) {
    if (ends_in(path, ".npz") || (strcmp(path, "-") == 0 && count > 1))
        return burn_npz_write(file, (int)count, names, arrays);
    char head[512];
    if (ends_in(path, ".npy")) {
        size_t bytes = (size_t)burn_npy_header(head, arrays->kind, arrays->item, arrays->rank, arrays->dims);
        if (fwrite(head, 1, bytes, file) != bytes)
            return 0;
    }
    return !arrays->bytes || fwrite(arrays->data, 1, (size_t)arrays->bytes, file) == (size_t)arrays->bytes;
}

static void write_file(const char *path, int64_t count, const char *const *names, const burn_array *arrays) {
    if (count != 1 && !ends_in(path, ".npz") && strcmp(path, "-") != 0)
        fail(USAGE, "%s: several outputs go into a .npz, or write -o NAME=FILE", path);
    if (strcmp(path, "-") == 0) {
        if (!put(stdout, path, count, names, arrays) || fflush(stdout) != 0)
            fail(FAILED, "standard output: %s", strerror(errno));
        return;
    }
    burn_new_file file;
    if (burn_file_begin(&file, path) != 0)
        fail(FAILED, "%s: %s", path, strerror(errno));
    if (burn_file_end(&file, put(file.stream, path, count, names, arrays)) != 0)
        fail(FAILED, "%s: %s", path, strerror(errno));
}

static void write_outputs(const options *o, const burn_tensor *tensors) {
    const burn_model_facts *facts = burn_main_facts;
    const char **names = room((size_t)facts->output_count, sizeof *names);
    burn_array *arrays = room((size_t)facts->output_count, sizeof *arrays);
    for (int64_t i = 0; i < facts->output_count; i++) {
        names[i] = facts->outputs[i].name;
        arrays[i] = array_of(&facts->outputs[i], &tensors[i]);
        if (o->outputs[i])
            write_file(o->outputs[i], 1, &names[i], &arrays[i]);
    }
    if (o->output)
        write_file(o->output, facts->output_count, names, arrays);
    free(names);
    free(arrays);
}

/* ---- what people see --------------------------------------------------------------------------------------------- */

static void show_element(const burn_tensor *tensor, int64_t at) {
    const char *data = (const char *)tensor->data;
    switch (tensor->element) {
    case BURN_FLOAT64: printf(" %.9g", ((const double *)(const void *)data)[at]); break;
    case BURN_FLOAT32: printf(" %.6g", (double)((const float *)(const void *)data)[at]); break;
    case BURN_INT8: case BURN_INT2: case BURN_INT4: printf(" %d", ((const int8_t *)data)[at]); break;
    case BURN_INT16: printf(" %d", ((const int16_t *)(const void *)data)[at]); break;
    case BURN_INT32: printf(" %ld", (long)((const int32_t *)(const void *)data)[at]); break;
    case BURN_INT64: printf(" %lld", (long long)((const int64_t *)(const void *)data)[at]); break;
    case BURN_UINT8: case BURN_UINT2: case BURN_UINT4: case BURN_BOOLEAN:
        printf(" %u", ((const uint8_t *)data)[at]);
        break;
    case BURN_UINT16: printf(" %u", ((const uint16_t *)(const void *)data)[at]); break;
    case BURN_UINT32: printf(" %lu", (unsigned long)((const uint32_t *)(const void *)data)[at]); break;
    case BURN_UINT64: printf(" %llu", (unsigned long long)((const uint64_t *)(const void *)data)[at]); break;
    default: printf(" ?"); /* fp16, bf16 and complex numbers go into files */
    }
}

static void show(const burn_tensor *tensors) {
    const burn_model_facts *facts = burn_main_facts;
    for (int64_t i = 0; i < facts->output_count; i++) {
        const burn_value *value = &facts->outputs[i];
        say("%s [", value->name);
        for (int32_t axis = 0; axis < tensors[i].rank; axis++)
            printf("%s%lld", axis ? ", " : "", (long long)tensors[i].dims[axis]);
        printf("]:");
        int64_t count = tensors[i].bytes / value->element_bytes;
        for (int64_t at = 0; at < count && at < SHOWN; at++)
            show_element(&tensors[i], at);
        puts(count > SHOWN ? " ..." : "");
    }
}

static int by_time(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void bench(burn_model *model, int64_t runs, const burn_tensor *inputs, burn_tensor *outputs) {
    const burn_model_facts *facts = burn_main_facts;
    int64_t *times = room((size_t)runs, sizeof *times);
    for (int64_t run = 0; run < runs; run++) { /* into the memory of the first call's outputs */
        int64_t begin = burn_clock_ns();
        if (burn_model_run(model, inputs, outputs) != BURN_DONE)
            fail(FAILED, "%s", burn_model_error());
        times[run] = burn_clock_ns() - begin;
    }
    qsort(times, (size_t)runs, sizeof *times, by_time);
    say("%s: %lld runs, %d threads: least %.4f ms, median %.4f ms, most %.4f ms\n", facts->name, (long long)runs,
           (int)burn_pool_threads(), (double)times[0] / 1e6, (double)times[runs / 2] / 1e6, (double)times[runs - 1] / 1e6);
    free(times);
}

/* The file of weights beside the program, unless another one was named. */
static const char *weights_path(const options *o, const char *self) {
    static char path[MOST_PATH];
    const burn_model_facts *facts = burn_main_facts;
    if (o->weights || facts->weights || !facts->weights_bytes)
        return o->weights;
    size_t length = 0;
#ifdef __linux__
    ssize_t got = readlink("/proc/self/exe", path, sizeof path - 1);
    length = got > 0 ? (size_t)got : 0;
#endif
    if (!length && strlen(self) < sizeof path) {
        strcpy(path, self);
        length = strlen(self);
    }
    while (length && path[length - 1] != '/' && path[length - 1] != '\\')
        length--;
    if (length + strlen(facts->weights_file) >= sizeof path)
        return facts->weights_file;
    strcpy(path + length, facts->weights_file);
    return path;
}

int main(int count, char **words) {
    const burn_model_facts *facts = burn_main_facts;
    program = facts->name;
    burn_streams_of_bytes();
    options o = parse(count, words);
    if (o.info) {
        puts(facts->about);
        return 0;
    }
    burn_model *model = NULL;
    if (burn_model_create(facts, weights_path(&o, count ? words[0] : ""), &model) != BURN_DONE)
        fail(FAILED, "%s", burn_model_error());
    burn_model_seed(model, o.seed);
    burn_tensor *inputs = read_inputs(&o), *outputs = room((size_t)facts->output_count, sizeof *outputs);
    if (burn_model_run(model, inputs, outputs) != BURN_DONE)
        fail(FAILED, "%s", burn_model_error());
    int is_written = o.output != NULL;
    for (int64_t i = 0; i < facts->output_count; i++)
        is_written |= o.outputs[i] != NULL;
    if (is_written)
        write_outputs(&o, outputs);
    else if (!o.bench)
        show(outputs);
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
    return fflush(stdout) == 0 ? 0 : FAILED;
}
