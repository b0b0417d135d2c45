/* See command.h. */
#include "command.h"

#include "files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <unistd.h>
#endif

enum { MOST_PATH = 4096, SHOWN = 8 };

static const char *program = "model";

void burn_command_name(const char *name) { program = name; }

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
void burn_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_these(stdout, format, arguments);
    va_end(arguments);
}

void burn_exit(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program);
    say_these(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

void *burn_room(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        burn_exit(BURN_EXIT_FAILED, "out of memory");
    return memory;
}

int64_t burn_number(const char *text, const char *what, int64_t least, int64_t most) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most)
        burn_exit(BURN_EXIT_USAGE, "%s takes a number from %lld to %lld, not '%s'", what, (long long)least, (long long)most, text);
    return value;
}

burn_content burn_read_all(const char *path) {
    int is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file)
        burn_exit(BURN_EXIT_FAILED, "%s: %s", path, strerror(errno));
    size_t size = 1 << 16, used = 0, got;
    unsigned char *data = malloc(size);
    while (data && (got = fread(data + used, 1, size - used, file)) > 0) {
        used += got;
        if (used == size) {
            unsigned char *larger = size <= SIZE_MAX / 2 ? realloc(data, size *= 2) : NULL;
            if (!larger)
                burn_exit(BURN_EXIT_FAILED, "%s: out of memory", path);
            data = larger;
        }
    }
    if (!data || ferror(file))
        burn_exit(BURN_EXIT_FAILED, "%s: %s", path, data ? strerror(errno) : "out of memory");
    if (!is_stdin)
        fclose(file);
    return (burn_content){data, (int64_t)used};
}

/* numpy's letter for an element; 'V' for those that numpy has no letter for. */
char burn_kind_letter(int32_t element) {
    static const char kinds[] = "fffVVVVVVVVViiiiVVuuuubcc";
    return kinds[element];
}

burn_tensor burn_tensor_of(const burn_value *value, const burn_array *array, const char *path) {
    if (array->item != value->element_bytes || array->kind != burn_kind_letter(value->element))
        burn_exit(BURN_EXIT_FAILED, "%s: input '%s' must be %s, and is of numpy's type %c%d", path, value->name,
                  value->type, array->kind, array->item);
    burn_tensor tensor = {burn_memory_new(array->bytes), array->bytes, value->element, array->rank, {0}};
    if (!tensor.data)
        burn_exit(BURN_EXIT_FAILED, "out of memory");
    if (array->bytes)
        memcpy(tensor.data, array->data, (size_t)array->bytes);
    memcpy(tensor.dims, array->dims, sizeof tensor.dims);
    return tensor;
}

int burn_ends_in(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

burn_array burn_array_of(const burn_value *value, const burn_tensor *tensor) {
    const char kind = burn_kind_letter(value->element);
    burn_array array = {tensor->data, tensor->bytes, kind, (int)value->element_bytes, tensor->rank, {0}, NULL};
    memcpy(array.dims, tensor->dims, sizeof array.dims);
    return array;
}

/* Outputs into a file: all into a .npz, one into a .npy or as plain bytes. */
static int put(FILE *file, const char *path, int64_t count, const char *const *names, const burn_array *arrays) {
    if (burn_ends_in(path, ".npz") || (strcmp(path, "-") == 0 && count > 1))
        return burn_npz_write(file, (int)count, names, arrays);
    char head[512];
    if (burn_ends_in(path, ".npy")) {
        size_t bytes = (size_t)burn_npy_header(head, arrays->kind, arrays->item, arrays->rank, arrays->dims);
        if (fwrite(head, 1, bytes, file) != bytes)
            return 0;
    }
    return !arrays->bytes || fwrite(arrays->data, 1, (size_t)arrays->bytes, file) == (size_t)arrays->bytes;
}

void burn_write_arrays(const char *path, int64_t count, const char *const *names, const burn_array *arrays) {
    if (count != 1 && !burn_ends_in(path, ".npz") && strcmp(path, "-") != 0)
        burn_exit(BURN_EXIT_USAGE, "%s: several outputs go into a .npz, or write -o NAME=FILE", path);
    if (strcmp(path, "-") == 0) {
        if (!put(stdout, path, count, names, arrays) || fflush(stdout) != 0)
            burn_exit(BURN_EXIT_FAILED, "standard output: %s", strerror(errno));
        return;
    }
    burn_new_file file;
    if (burn_file_begin(&file, path) != 0)
        burn_exit(BURN_EXIT_FAILED, "%s: %s", path, strerror(errno));
    if (burn_file_end(&file, put(file.stream, path, count, names, arrays)) != 0)
        burn_exit(BURN_EXIT_FAILED, "%s: %s", path, strerror(errno));
}

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

void burn_show(const burn_model_facts *facts, const burn_tensor *tensors) {
    for (int64_t i = 0; i < facts->output_count; i++) {
        const burn_value *value = &facts->outputs[i];
        burn_say("%s [", value->name);
        for (int32_t axis = 0; axis < tensors[i].rank; axis++)
            printf("%s%lld", axis ? ", " : "", (long long)tensors[i].dims[axis]);
        printf("]:");
        int64_t count = tensors[i].bytes / value->element_bytes;
        for (int64_t at = 0; at < count && at < SHOWN; at++)
            show_element(&tensors[i], at);
        puts(count > SHOWN ? " ..." : "");
    }
}

/* The file of weights beside the program, unless another one was named. */
const char *burn_weights_path(const burn_model_facts *facts, const char *given, const char *self) {
    static char path[MOST_PATH];
    if (given || facts->weights || !facts->weights_bytes)
        return given;
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
