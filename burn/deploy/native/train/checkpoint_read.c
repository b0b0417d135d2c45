/* Reads a checkpoint.
 *
 * A file is checked as a whole before any of the state changes. Tensors of other parts of a training ("metrics.loss") are left alone.
 * A file of weights alone, without the metadata of a training, gives the model's parameters. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"

typedef struct reading {
    const burn_trainer_content *content;
    const char *what; /* the file */
    char *head;       /* JSON */
    const unsigned char *tensors;
    int64_t tensor_bytes;
    char *facts, *checksums; /* of the metadata, or NULL */
    uint32_t crc;      /* of the metadata */
    /* By name, from its number in the facts. found: its elements in the file, or NULL. separate_counts: for the number of all
     * steps of an optimizer, one of the file's counts of some parameters' steps that this training lacks. */
    const unsigned char **found, **separate_counts;
    const burn_state_name **sorted; /* the names */
} reading;

static int32_t wrong(const reading *r, const char *text) {
    return burn_model_fail(BURN_E_CHECKPOINT, "%s: %s", r->what, text);
}

static int32_t damaged(const reading *r) { return wrong(r, "it is damaged, or no safetensors file"); }

/* Takes over a key and its text of the metadata, or leaves NULL for what it does not take. */
static int32_t add_text(reading *r, burn_text_of *given, burn_text_of **texts, size_t *count, size_t *room) {
    if (strcmp(given->key, PARTS) == 0)
        return wrong(r, "its tensors are divided over the files of several processes; burn.train reads it");
    if (strcmp(given->key, "burn.dtypes") == 0)
        return BURN_DONE;
    if (strcmp(given->key, CHECKSUMS) == 0) {
        if (r->checksums)
            return damaged(r); /* twice */
        r->checksums = given->value;
        given->value = NULL;
        return BURN_DONE;
    }
    if (*count == *room) {
        burn_text_of *more = realloc(*texts, (2 * *room + 4) * sizeof **texts);
        if (!more)
            return burn_no_memory();
        *texts = more;
        *room = 2 * *room + 4;
    }
    (*texts)[(*count)++] = *given;
    *given = (burn_text_of){NULL, NULL};
    return BURN_DONE;
}

static int32_t read_metadata(reading *r, const char *object) {
    burn_text_of *texts = NULL;
    size_t count = 0, room = 0;
    burn_member member;
    int32_t code = BURN_DONE;
    int state = 1;
    for (const char *at = object; code == BURN_DONE && (state = burn_json_next(&at, &member)) > 0;) {
        burn_text_of given = {NULL, NULL};
        int made = burn_json_string(member.key, member.key_end, &given.key);
        if (made > 0)
            made = burn_json_string(member.value, member.value_end, &given.value);
        code = made < 0 ? burn_no_memory() : !made ? damaged(r) : add_text(r, &given, &texts, &count, &room);
        free(given.key);
        free(given.value);
    }
    if (code == BURN_DONE && state < 0)
        code = damaged(r);
    if (code == BURN_DONE && count && !burn_metadata_checksum(texts, count, &r->crc)) /* which sorts them */
        code = burn_no_memory();
    for (size_t i = 0; i < count; i++) {
        if (code == BURN_DONE && i && strcmp(texts[i].key, texts[i - 1].key) == 0)
            code = damaged(r); /* twice */
        if (!r->facts && strcmp(texts[i].key, KEY) == 0) {
            r->facts = texts[i].value;
            texts[i].value = NULL;
        }
    }
    for (size_t i = 0; i < count; i++) {
        free(texts[i].key);
        free(texts[i].value);
    }
    free(texts);
    return code;
}

static int begins(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

/* Elements, type and sizes of a tensor in the file; 0: malformed. */
static int entry(const reading *r, const burn_member *member, const burn_state *state, int *fits,
                 const unsigned char **data, int64_t *bytes) {
    burn_member item;
    uint64_t ends[2] = {0, 0}, size;
    burn_member dtype = burn_content_member(member->value, "dtype"), shape = burn_content_member(member->value, "shape");
    burn_member offsets = burn_content_member(member->value, "data_offsets");
    if (!dtype.key || !shape.key || !offsets.key)
        return 0;
    int count = 0, rank = 0;
    for (const char *at = offsets.value; burn_json_next(&at, &item) > 0; count++)
        if (count == 2 || !burn_json_number(item.value, item.value_end, &ends[count]))
            return 0;
    if (count != 2 || ends[0] > ends[1] || ends[1] > (uint64_t)r->tensor_bytes)
        return 0;
    *fits = !state || burn_json_is(dtype.value, dtype.value_end, state->code);
    for (const char *at = shape.value; burn_json_next(&at, &item) > 0; rank++) {
        if (!burn_json_number(item.value, item.value_end, &size))
            return 0;
        *fits &= !state || (rank < state->rank && state->dims[rank] == (int64_t)size);
    }
    *fits &= !state || rank == state->rank;
    *data = r->tensors + ends[0];
    *bytes = (int64_t)(ends[1] - ends[0]);
    return !state || !*fits || *bytes == state->bytes;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const burn_state_name *const *)a)->name, (*(const burn_state_name *const *)b)->name);
}

/* The number of a name in the facts, or -1. */
static int64_t index_of(const reading *r, const char *name) {
    const burn_trainer_facts *facts = r->content->facts;
    const burn_state_name key = {name, 0, 0}, *sought = &key;
    const burn_state_name **at = bsearch(&sought, r->sorted, (size_t)facts->name_count, sizeof *r->sorted, by_name);
    return at ? *at - facts->names : -1;
}

/* An optimizer's count of some parameters' steps, "optimizer.count.head.weight", where this training has none: the number of the
 * name of all its steps, or -1. -2: out of memory. */
static int64_t steps_of_count(const reading *r, const char *name, int64_t bytes) {
    const char *count = begins(name, "optimizer.") ? strstr(name, "count.") : NULL;
    if (!count)
        return -1;
    burn_text text = {0};
    burn_text_bytes(&text, name, (size_t)(count - name));
    burn_text_add(&text, "steps");
    const int64_t found = text.failed ? -2 : index_of(r, text.data);
    free(text.data);
    if (found < 0)
        return found;
    const burn_trainer_facts *facts = r->content->facts;
    return facts->states[facts->names[found].state].bytes == bytes ? found : -1;
}

/* 1 for a tensor of a model, an optimizer or a step that this training does not have. A file of weights has only a model's. */
static int is_unknown_tensor(const reading *r, const char *name) {
    return !r->facts || begins(name, MODEL) || begins(name, "optimizer.") || begins(name, "step.") || begins(name, "other.");
}

static int32_t unknown_tensor(const reading *r, const char *name) {
    burn_text text = {0};
    burn_text_string(&text, name, 1); /* a damaged name may hold any bytes */
    int32_t code = text.failed ? burn_no_memory()
                               : burn_model_fail(BURN_E_CHECKPOINT,
                                                 "%s: the tensor %s is of another training: there is no such tensor here",
                                                 r->what, text.data);
    free(text.data);
    return code;
}

static const char separate[] = "it counts the steps of some parameters separately, and this training does not";

static int32_t read_entries(reading *r) {
    const burn_trainer_facts *facts = r->content->facts;
    burn_member member;
    int state, fits = 0;
    int64_t bytes = 0;
    for (const char *at = r->head; (state = burn_json_next(&at, &member)) > 0;) {
        const unsigned char *data = NULL;
        if (!member.key || *member.value != '{')
            return damaged(r);
        if (burn_json_is(member.key, member.key_end, "__metadata__"))
            continue;
        char *name = NULL;
        const int made = burn_json_string(member.key, member.key_end, &name);
        if (made <= 0)
            return made ? burn_no_memory() : damaged(r);
        burn_text full = {0};
        burn_text_add(&full, "%s%s", r->facts ? "" : MODEL, name);
        free(name);
        if (full.failed)
            return burn_no_memory();
        int64_t found = index_of(r, full.data), steps = -1;
        const burn_state *known = found < 0 ? NULL : &facts->states[facts->names[found].state];
        int32_t code = BURN_DONE;
        if (!entry(r, &member, known, &fits, &data, &bytes) || (known && r->found[found]))
            code = damaged(r);
        else if (!fits)
            code = burn_model_fail(BURN_E_CHECKPOINT, "%s: '%s' is not %s: it is of another model", r->what, full.data,
                                   known->type);
        else if (known)
            r->found[found] = data;
        else if ((steps = steps_of_count(r, full.data, bytes)) == -2)
            code = burn_no_memory();
        else if (steps >= 0 && r->separate_counts[steps] && memcmp(r->separate_counts[steps], data, (size_t)bytes) != 0)
            code = wrong(r, separate);
        else if (steps >= 0)
            r->separate_counts[steps] = data; /* compared when all are read */
        else if (is_unknown_tensor(r, full.data))
            code = unknown_tensor(r, full.data);
        free(full.data);
        if (code != BURN_DONE)
            return code;
    }
    return state < 0 ? damaged(r) : BURN_DONE;
}

/* Every state has elements. Counts of steps that the file or this training does not keep apart equal the number of all steps. */
static int32_t complete(reading *r) {
    const burn_trainer_facts *facts = r->content->facts;
    for (int64_t i = 0; i < facts->name_count; i++) {
        const burn_state_name *name = &facts->names[i];
        for (int64_t k = 0; k < facts->name_count && name->counts >= 0 && !r->found[i]; k++)
            if (facts->names[k].state == name->counts && facts->names[k].counts < 0)
                r->found[i] = r->found[k];
        if (!r->found[i] && (r->facts || begins(name->name, MODEL)))
            return burn_model_fail(BURN_E_CHECKPOINT, "%s: '%s' is missing: it is of another training", r->what, name->name);
        const unsigned char *count = r->separate_counts[i];
        if (count && (!r->found[i] || memcmp(count, r->found[i], (size_t)facts->states[name->state].bytes) != 0))
            return wrong(r, separate);
        for (int64_t k = 0; k < i; k++)
            if (facts->names[k].state == name->state && r->found[i] && r->found[k] &&
                memcmp(r->found[i], r->found[k], (size_t)facts->states[name->state].bytes) != 0)
                return burn_model_fail(BURN_E_CHECKPOINT, "%s: '%s' and '%s' differ: this training counts both as one", r->what,
                                       name->name, facts->names[k].name);
    }
    return BURN_DONE;
}

/* The checksums of all tensors that the file has. */
static int32_t verify_tensors(const reading *r) {
    const burn_trainer_facts *facts = r->content->facts;
    unsigned char *seen = calloc((size_t)facts->name_count + 1, sizeof *seen);
    burn_member member;
    int32_t code = seen ? BURN_DONE : burn_no_memory();
    int64_t wrong_one = -1;
    int state = 1;
    for (const char *at = r->checksums; code == BURN_DONE && wrong_one < 0 && (state = burn_json_next(&at, &member)) > 0;) {
        char *name = NULL;
        uint64_t sum = 0;
        const int made = burn_json_string(member.key, member.key_end, &name);
        const int64_t i = made > 0 ? index_of(r, name) : -1;
        free(name);
        if (made <= 0)
            code = made ? burn_no_memory() : damaged(r);
        else if (i >= 0) {
            const burn_state_name *known = &facts->names[i];
            seen[i] = 1;
            if (!burn_json_number(member.value, member.value_end, &sum) ||
                sum != burn_tensor_checksum(known->name, &facts->states[known->state], r->found[i]))
                wrong_one = i;
        }
    }
    if (code == BURN_DONE && state < 0)
        code = damaged(r);
    for (int64_t i = 0; i < facts->name_count && code == BURN_DONE && wrong_one < 0; i++)
        if (!seen[i] && facts->names[i].counts < 0)
            wrong_one = i;
    free(seen);
    if (wrong_one >= 0)
        code = burn_model_fail(BURN_E_CHECKPOINT, "%s is damaged: the checksum of '%s' is wrong", r->what,
                               facts->names[wrong_one].name);
    return code;
}

static int32_t verify(const reading *r) {
    static const char *const counts[] = {"step", "epoch", "batch"};
    uint64_t sum = 0, format = 0, count = 0;
    if (!burn_content_number(r->facts, "format", &format) || format < 1 || format > 2)
        return wrong(r, "it is a checkpoint of another version of burn");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!burn_content_number(r->facts, counts[i], &count) || count > BURN_MOST_COUNT)
            return damaged(r);
    if (!r->checksums)
        return format == 1 ? BURN_DONE : damaged(r);
    if (!burn_content_number(r->checksums, KEY, &sum) || sum != r->crc)
        return damaged(r);
    return verify_tensors(r);
}

/* Which parameters are frozen is part of the program. */
static int32_t same_frozen(const reading *r) {
    burn_member own = burn_content_member(r->content->facts->checkpoint, "frozen"), given = burn_content_member(r->facts, "frozen");
    size_t bytes = own.key ? (size_t)(own.value_end - own.value) : 0;
    if (own.key && given.key &&
        ((size_t)(given.value_end - given.value) != bytes || memcmp(own.value, given.value, bytes) != 0))
        return wrong(r, "other parameters are frozen than in the compiled step");
    return BURN_DONE;
}

static void take(reading *r) {
    const burn_trainer_content *content = r->content;
    const burn_trainer_facts *facts = content->facts;
    for (int64_t i = 0; i < facts->name_count; i++) {
        const burn_state *state = &facts->states[facts->names[i].state];
        if (r->found[i] && state->bytes)
            memcpy(content->states[facts->names[i].state], r->found[i], (size_t)state->bytes);
    }
    *content->positioned = -1;
    if (!r->facts)
        return;
    burn_member random = burn_content_member(r->facts, "random"), item;
    uint64_t steps = 0, words[2] = {0, 0};
    if (burn_content_number(r->facts, "step", &steps))
        *content->steps = (int64_t)steps;
    *content->positioned = *content->steps;
    int count = 0;
    for (const char *at = random.value; random.key && count < 2 && burn_json_next(&at, &item) > 0;)
        count += burn_json_number(item.value, item.value_end, &words[count]);
    if (count == 2) {
        *content->seed = words[0];
        *content->draws = words[1];
    }
    free(*content->checkpoint);
    *content->checkpoint = r->facts;
    r->facts = NULL;
}

static int32_t read_checkpoint(reading *r, const unsigned char *data, int64_t bytes) {
    uint64_t length = 0;
    for (int byte = 0; byte < HEAD && bytes >= HEAD; byte++)
        length |= (uint64_t)data[byte] << 8 * byte;
    if (bytes < HEAD || length > MOST_HEADER || length > (uint64_t)bytes - HEAD)
        return damaged(r);
    r->head = malloc((size_t)length + 1);
    const burn_trainer_facts *facts = r->content->facts;
    const size_t names = (size_t)facts->name_count;
    r->found = calloc(names + 1, sizeof *r->found);
    r->separate_counts = calloc(names + 1, sizeof *r->separate_counts);
    r->sorted = calloc(names + 1, sizeof *r->sorted);
    if (!r->head || !r->found || !r->separate_counts || !r->sorted)
        return burn_no_memory();
    for (size_t i = 0; i < names; i++)
        r->sorted[i] = &facts->names[i];
    qsort((void *)r->sorted, names, sizeof *r->sorted, by_name);
    memcpy(r->head, data + HEAD, (size_t)length);
    r->head[length] = 0;
    r->tensors = data + HEAD + length;
    r->tensor_bytes = bytes - HEAD - (int64_t)length;
    burn_member metadata = burn_content_member(r->head, "__metadata__");
    int32_t code = metadata.key && *metadata.value == '{' ? read_metadata(r, metadata.value) : BURN_DONE;
    if (code == BURN_DONE)
        code = read_entries(r);
    if (code == BURN_DONE)
        code = complete(r);
    if (code == BURN_DONE && r->facts)
        code = verify(r);
    if (code == BURN_DONE && r->facts)
        code = same_frozen(r);
    if (code == BURN_DONE)
        take(r);
    return code;
}

int32_t burn_trainer_load_from(burn_trainer *trainer, const unsigned char *data, int64_t bytes, const char *what) {
    if (!trainer || !data)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no trainer, or no checkpoint: a null pointer");
    burn_trainer_content content = burn_trainer_lock(trainer);
    reading r = {.content = &content, .what = what};
    int32_t code = read_checkpoint(&r, data, bytes);
    free(r.head);
    free(r.facts);
    free(r.checksums);
    free((void *)r.found);
    free((void *)r.separate_counts);
    free((void *)r.sorted);
    burn_trainer_unlock(trainer);
    return code;
}
