/* The content of a checkpoint besides tensors, as JSON: a training's position, and values that replace others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"

int32_t burn_no_memory(void) { return burn_model_fail(BURN_E_OUT_OF_MEMORY, "out of memory"); }

void burn_content_replace(burn_text *out, const char *object, const burn_replacement *with, size_t count) {
    burn_member member;
    uint64_t done = 0;
    const char *comma = "";
    burn_text_add(out, "{");
    for (const char *at = object; burn_json_next(&at, &member) > 0;) {
        const char *value = member.value;
        size_t bytes = (size_t)(member.value_end - member.value);
        for (size_t i = 0; i < count; i++)
            if (burn_json_is(member.key, member.key_end, with[i].key)) {
                done |= UINT64_C(1) << i;
                value = with[i].value;
                bytes = value ? strlen(value) : 0;
            }
        if (!value)
            continue;
        burn_text_add(out, "%s", comma);
        burn_text_bytes(out, member.key, (size_t)(member.key_end - member.key));
        burn_text_add(out, ": ");
        burn_text_bytes(out, value, bytes);
        comma = ", ";
    }
    for (size_t i = 0; i < count; i++)
        if (!(done >> i & 1) && with[i].value) {
            burn_text_add(out, "%s\"%s\": %s", comma, with[i].key, with[i].value);
            comma = ", ";
        }
    burn_text_add(out, "}");
}

burn_member burn_content_member(const char *object, const char *key) {
    burn_member member;
    for (const char *at = object; burn_json_next(&at, &member) > 0;)
        if (burn_json_is(member.key, member.key_end, key))
            return member;
    return (burn_member){NULL, NULL, "", NULL};
}

int burn_content_number(const char *object, const char *key, uint64_t *number) {
    burn_member member = burn_content_member(object, key);
    return member.key && burn_json_number(member.value, member.value_end, number);
}

const char *burn_content_facts(const burn_trainer_content *content) {
    return *content->checkpoint ? *content->checkpoint : content->facts->checkpoint;
}

/* A position between epochs without any data, as of a training that has just begun (burn/train/states.py). */
static const burn_replacement UNKNOWN[] = {{"epoch", "1"}, {"batch", "0"},  {"trained", "false"}, {"data", NULL},
                                      {"others", NULL}, {"valid", NULL}, {"history", "[]"},   {"ends", "[]"}};

enum { UNKNOWNS = sizeof UNKNOWN / sizeof *UNKNOWN };

static int is_known(const burn_trainer_content *content) { return *content->positioned == *content->steps; }

int burn_content_here(const burn_trainer_content *content, burn_text *out) {
    if (is_known(content))
        return 0;
    burn_content_replace(out, burn_content_facts(content), UNKNOWN, UNKNOWNS);
    return 1;
}

void burn_trainer_set_position(burn_trainer *trainer, const burn_position *position) {
    char epoch[24], batch[24];
    burn_text text = {0};
    burn_trainer_content content = burn_trainer_lock(trainer);
    snprintf(epoch, sizeof epoch, "%lld", (long long)(position ? position->epoch : 1));
    snprintf(batch, sizeof batch, "%lld", (long long)(position ? position->batch : 0));
    const burn_replacement with[] = {
        {"epoch", epoch}, {"batch", batch}, {"trained", "false"}, {"data", position ? position->data : NULL}};
    if (position)
        burn_content_replace(&text, burn_content_facts(&content), with, sizeof with / sizeof *with);
    else
        burn_content_replace(&text, burn_content_facts(&content), UNKNOWN, UNKNOWNS);
    if (text.failed)
        free(text.data); /* a checkpoint has no position then */
    else {
        free(*content.checkpoint);
        *content.checkpoint = text.data;
    }
    *content.positioned = position && !text.failed ? *content.steps : -1;
    burn_trainer_unlock(trainer);
}

burn_position burn_trainer_position(burn_trainer *trainer) {
    static _Thread_local char data[512];
    burn_trainer_content content = burn_trainer_lock(trainer);
    uint64_t epoch = 1, batch = 0;
    burn_content_number(burn_content_facts(&content), "epoch", &epoch);
    burn_content_number(burn_content_facts(&content), "batch", &batch);
    burn_member found = burn_content_member(burn_content_facts(&content), "data");
    size_t bytes = found.key ? (size_t)(found.value_end - found.value) : 0;
    const int fits = found.key && bytes < sizeof data && *found.value == '{', known = is_known(&content);
    if (fits) {
        memcpy(data, found.value, bytes);
        data[bytes] = 0;
    }
    burn_trainer_unlock(trainer);
    return (burn_position){(int64_t)epoch, (int64_t)batch, fits ? data : NULL, known};
}
