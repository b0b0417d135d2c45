/* The checksums of checkpoints: CRC-32, as burn/train/checkpoints.py computes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "crc32.h"

static int by_key(const void *a, const void *b) { return strcmp(((const burn_text_of *)a)->key, ((const burn_text_of *)b)->key); }

/* Of all metadata but the checksums, sorted by key: the CRC-32 of them as Python's json.dumps writes a list of pairs. */
int burn_metadata_checksum(burn_text_of *texts, size_t count, uint32_t *crc) {
    burn_text text = {0};
    qsort(texts, count, sizeof *texts, by_key);
    burn_text_add(&text, "[");
    for (size_t i = 0; i < count; i++) {
        burn_text_add(&text, i ? ", [" : "[");
        burn_text_string(&text, texts[i].key, 1);
        burn_text_add(&text, ", ");
        burn_text_string(&text, texts[i].value, 1);
        burn_text_add(&text, "]");
    }
    burn_text_add(&text, "]");
    const int ok = !text.failed;
    *crc = ok ? burn_crc32(0, text.data, (int64_t)text.length) : 0;
    free(text.data);
    return ok;
}

uint32_t burn_tensor_checksum(const char *name, const burn_state *state, const void *data) {
    char head[32];
    uint32_t crc = burn_crc32(0, name, (int64_t)strlen(name));
    crc = burn_crc32(crc, head, snprintf(head, sizeof head, " %s [", state->dtype));
    for (int32_t axis = 0; axis < state->rank; axis++)
        crc = burn_crc32(crc, head,
                         snprintf(head, sizeof head, "%s%lld", axis ? ", " : "", (long long)state->dims[axis]));
    crc = burn_crc32(crc, "]", 1);
    return burn_crc32(crc, data, state->bytes);
}
