/* burn.image_decode: a program calls the host at run time to decode image files. */
#include "lib.h"
#include "runtime.h"

static burn_image_decoder decoder;

void burn_set_image_decoder(burn_image_decoder function) { decoder = function; }

void *burn_lib_image_decode(burn_run *run, int64_t site, int64_t form, int64_t bytes, const void *data, int64_t *sizes) {
    void *pixels = decoder ? decoder(run, form, data, bytes, sizes) : NULL;
    if (!pixels)
        burn_rt_fail(run, BURN_HOST_FAILED, site, bytes);
    return pixels;
}
