/* Checkpoints in files. Modules of WebAssembly have none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "files.h"

static int into_file(void *context, const void *data, size_t bytes) {
    return fwrite(data, 1, bytes, (FILE *)context) == bytes;
}

int32_t burn_trainer_save(burn_trainer *trainer, const char *path) {
    burn_new_file file;
    if (!trainer || !path)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no trainer, or no path: a null pointer");
    if (burn_file_begin(&file, path) != 0)
        return burn_model_fail(BURN_E_CHECKPOINT, "%s: %s", path, strerror(errno));
    file.durable = 1;
    int32_t code = burn_trainer_save_to(trainer, into_file, file.stream);
    if (burn_file_end(&file, code == BURN_DONE) != 0 && code != BURN_E_OUT_OF_MEMORY)
        return burn_model_fail(BURN_E_CHECKPOINT, "%s: %s", path, strerror(errno));
    return code;
}

int32_t burn_trainer_load(burn_trainer *trainer, const char *path) {
    if (!trainer || !path)
        return burn_model_fail(BURN_E_ARGUMENT, "there is no trainer, or no path: a null pointer");
    FILE *file = fopen(path, "rb");
    if (!file)
        return burn_model_fail(BURN_E_CHECKPOINT, "%s: %s", path, strerror(errno));
    size_t room = 1 << 16, used = 0, got;
    unsigned char *data = malloc(room);
    while (data && (got = fread(data + used, 1, room - used, file)) > 0) {
        used += got;
        if (used == room) {
            unsigned char *more = room <= SIZE_MAX / 2 ? realloc(data, room *= 2) : NULL;
            if (!more)
                free(data);
            data = more;
        }
    }
    int failed = ferror(file);
    fclose(file);
    int32_t code = !data ? burn_no_memory()
                   : failed ? burn_model_fail(BURN_E_CHECKPOINT, "%s cannot be read", path)
                            : burn_trainer_load_from(trainer, data, (int64_t)used, path);
    free(data);
    return code;
}
