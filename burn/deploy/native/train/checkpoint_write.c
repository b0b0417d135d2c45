/* Writes a checkpoint: its header, and the tensors behind it. */
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint.h"

/* The header of a checkpoint, with its length in front. */
static int header(const burn_trainer_content *content, burn_text *out) {
    const burn_trainer_facts *facts = content->facts;
    burn_text text = {0}, here = {0}, checksums = {0};
    char steps[24], random[64];
    snprintf(steps, sizeof steps, "%lld", (long long)*content->steps);
    snprintf(random, sizeof random, "[%llu, %llu]", (unsigned long long)*content->seed, (unsigned long long)*content->draws);
    const burn_replacement with[] = {{"step", steps}, {"random", random}};
    burn_content_here(content, &here); /* the position of a checkpoint is that of its steps */
    if (!here.failed)
        burn_content_replace(&text, here.data ? here.data : burn_content_facts(content), with, sizeof with / sizeof *with);
    burn_text_of texts[] = {{KEY, text.data}, {"producer", PRODUCER}};
    uint32_t crc = 0;
    if (here.failed || text.failed || !burn_metadata_checksum(texts, 2, &crc))
        goto end;
    burn_text_add(&checksums, "{\"%s\": %lu", KEY, (unsigned long)crc);
    for (int64_t i = 0; i < facts->name_count; i++) {
        const burn_state_name *name = &facts->names[i];
        burn_text_add(&checksums, ", ");
        burn_text_string(&checksums, name->name, 1);
        crc = burn_tensor_checksum(name->name, &facts->states[name->state], content->states[name->state]);
        burn_text_add(&checksums, ": %lu", (unsigned long)crc);
    }
    burn_text_add(&checksums, "}");
    if (checksums.failed)
        goto end;
    burn_text_bytes(out, "\0\0\0\0\0\0\0", HEAD);
    burn_text_add(out, "{\"__metadata__\":{\"producer\":\"%s\",\"%s\":", PRODUCER, KEY);
    burn_text_string(out, text.data, 1);
    burn_text_add(out, ",\"%s\":", CHECKSUMS);
    burn_text_string(out, checksums.data, 1);
    burn_text_add(out, "}");
    int64_t at = 0;
    for (int32_t item = LARGEST_ITEM; item; item /= 2) /* the largest elements first: each tensor is aligned to its own */
        for (int64_t i = 0; i < facts->name_count; i++) {
            const burn_state *state = &facts->states[facts->names[i].state];
            if (state->item != item)
                continue;
            burn_text_add(out, ",");
            burn_text_string(out, facts->names[i].name, 1);
            burn_text_add(out, ":{\"dtype\":\"%s\",\"shape\":[", state->code);
            for (int32_t axis = 0; axis < state->rank; axis++)
                burn_text_add(out, "%s%lld", axis ? "," : "", (long long)state->dims[axis]);
            burn_text_add(out, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + state->bytes));
            at += state->bytes;
        }
    burn_text_add(out, "}");
    while (!out->failed && out->length % ALIGNED)
        burn_text_add(out, " ");
    for (int byte = 0; byte < HEAD && !out->failed; byte++)
        out->data[byte] = (char)((out->length - HEAD) >> 8 * byte & 0xff);
end:
    out->failed |= here.failed | text.failed | checksums.failed | !checksums.data;
    free(here.data);
    free(text.data);
    free(checksums.data);
    return !out->failed;
}

int32_t burn_trainer_save_to(burn_trainer *trainer, burn_sink sink, void *context) {
    if (!trainer)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no trainer: a null pointer");
    burn_trainer_content content = burn_trainer_lock(trainer);
    const burn_trainer_facts *facts = content.facts;
    burn_text text = {0};
    int ok = header(&content, &text), written = ok && sink(context, text.data, text.length);
    for (int32_t item = LARGEST_ITEM; item; item /= 2)
        for (int64_t i = 0; i < facts->name_count && written; i++) {
            const burn_state *state = &facts->states[facts->names[i].state];
            if (state->item == item && state->bytes)
                written = sink(context, content.states[facts->names[i].state], (size_t)state->bytes);
        }
    free(text.data);
    burn_trainer_unlock(trainer);
    if (!ok)
        return burn_no_memory();
    return written ? BURN_DONE : burn_model_fail(BURN_E_CHECKPOINT, "the checkpoint cannot be written");
}
