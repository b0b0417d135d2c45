/* The rows of .npz files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_command.h"

enum { MOST_NAMES = 512 };

static void wrong_sizes(const char *path, const burn_value *value, const burn_array *array) {
    char text[400];
    size_t used = 0;
    for (int axis = 0; axis < array->rank && used < sizeof text - 32; axis++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", axis ? ", " : "", (long long)array->dims[axis]);
    text[used] = 0;
    burn_exit(BURN_EXIT_FAILED, "%s: array '%s' must be %s, and has the shape [%s]", path, value->name, value->type, text);
}

/* Adds a file's array to a column. */
static void append(burn_column *c, const burn_value *value, const burn_array *array, const char *path) {
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

int burn_read_array(const burn_value *value, burn_content file, const char *path, burn_array *array) {
    char error[256] = "";
    if (file.bytes < 4 || memcmp(file.data, "PK", 2) != 0)
        burn_exit(BURN_EXIT_FAILED, "%s is not a .npz file", path);
    int found = burn_npz_read(file.data, file.bytes, value->name, array, error);
    if (!found)
        burn_exit(BURN_EXIT_FAILED, "%s: array '%s': %s", path, value->name, error);
    return found > 0;
}

void burn_missing_array(const burn_value *value, burn_content file, const char *path) {
    char names[MOST_NAMES];
    burn_npz_names(file.data, file.bytes, names, sizeof names);
    burn_exit(BURN_EXIT_FAILED, "%s has no array '%s', %s: there is %s", path, value->name, value->type,
              *names ? names : "none");
}

burn_column *burn_read_columns(const burn_train_options *o, int64_t *rows) {
    const burn_model_facts *facts = burn_main_trainer->step.facts;
    burn_column *columns = burn_room((size_t)facts->input_count, sizeof *columns);
    for (int64_t i = 0; i < facts->input_count; i++)
        columns[i].has_rows = burn_main_trainer->has_rows[i];
    for (int64_t f = 0; f < o->file_count; f++) {
        const char *path = o->files[f];
        burn_content file = burn_read_all(path);
        int64_t before = 0;
        const char *of = NULL;
        for (int64_t i = 0; i < facts->input_count; i++) {
            const burn_value *value = &facts->inputs[i];
            burn_column *c = &columns[i];
            burn_array array = {0};
            int64_t had = c->rows;
            if (burn_read_array(value, file, path, &array))
                append(c, value, &array, path);
            else if (c->has_rows || !c->path)
                burn_missing_array(value, file, path);
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
