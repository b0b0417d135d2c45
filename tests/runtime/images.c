/* Loads objects and writes out what became of them in memory, for tests to look at. The standard input is objects, each behind its
 * size (8 bytes); of each is written: 1, the image's address and size and its bytes, or 0, the reason's size and the reason. */
#include "elf.c"

enum { FAR = 0x123456789a }; /* where the external function `far` is: beyond the reach of any displacement */

burn_function burn_symbol_find(const char *name) {
    return strcmp(name, "far") == 0 ? (burn_function)(uintptr_t)FAR : NULL;
}

static void put(uint64_t word) { fwrite(&word, sizeof word, 1, stdout); }

int main(void) {
    uint64_t size;
    while (fread(&size, sizeof size, 1, stdin) == 1) {
        uint8_t *object = malloc(size ? size : 1);
        if (!object || fread(object, 1, size, stdin) != size)
            return 1;
        char error[500] = "";
        burn_image *image = burn_image_load(object, size, error, sizeof error);
        put(image != NULL);
        if (image) {
            put((uint64_t)(uintptr_t)image->base);
            put(image->size);
            fwrite(image->base, 1, image->size, stdout);
        } else {
            put(strlen(error));
            fwrite(error, 1, strlen(error), stdout);
        }
        burn_image_unload(image);
        free(object);
    }
    return 0;
}
