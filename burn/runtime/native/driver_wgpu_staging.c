/* Copies of WebGPU: within the heap by kernels, from the host by the queue, to the host by a staging buffer. */
#include <string.h>

#include "driver_wgpu.h"

enum { LEAST_STAGING = 65536 };

/* A kernel that makes the words of [to, to + bytes): a copy from the address `third`, or a fill with that byte. */
wgpu_work burn_wgpu_by_words(wgpu_kernel *kernel, uint64_t to, uint64_t third, size_t bytes) {
    const uint8_t is_address[] = {0, 1, kernel == wgpu.copy, 0};
    uint64_t count = (to % 4 + bytes + 3) / 4;
    wgpu_work work = {.kernel = kernel, .count = 4};
    work.words[0] = (uint32_t)((count + 255) / 256);
    work.words[1] = (uint32_t)to;
    work.words[2] = (uint32_t)third;
    work.words[3] = (uint32_t)bytes;
    burn_wgpu_choose_pages(&work, is_address, wgpu.page_bits);
    return work;
}

static int run_by_words(wgpu_kernel *kernel, uint64_t to, uint64_t third, size_t bytes) {
    wgpu_work work = burn_wgpu_by_words(kernel, to, third, bytes);
    return bytes ? burn_wgpu_run(&work) : 0;
}

static wgpu_handle page_of(uint64_t address) { return wgpu.page[address >> wgpu.page_bits].buffer; }
static uint64_t in_page(uint64_t address) { return address & (((uint64_t)1 << wgpu.page_bits) - 1); }

/* The bytes from an address on that are in its page, at most `bytes`. */
static uint64_t bytes_in_page(uint64_t address, uint64_t bytes) {
    uint64_t left = ((uint64_t)1 << wgpu.page_bits) - in_page(address);
    return left < bytes ? left : bytes;
}

static int copy(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    pthread_mutex_lock(&wgpu.lock);
    int code = burn_wgpu_local(&to) || burn_wgpu_local(&from) ? WGPU_LOST : run_by_words(wgpu.copy, to, from, bytes);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int fill(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
    (void)stream;
    pthread_mutex_lock(&wgpu.lock);
    int code = burn_wgpu_local(&to);
    if (!code)
        code = run_by_words(wgpu.fill, to, byte, bytes);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

/* The first or last bytes of a transfer, which are less than a word: by the scratch memory, so that the word's other bytes stay. */
static int send_ragged(uint64_t to, const void *from, size_t bytes) {
    uint32_t word = 0;
    memcpy(&word, from, bytes);
    wgpu.api.write(wgpu.queue, wgpu.page[0].buffer, SCRATCH, &word, sizeof word);
    int code = run_by_words(wgpu.copy, to, SCRATCH, bytes);
    return code ? code : burn_wgpu_flush();
}

/* Writes of the queue come before what is not submitted yet, so that is submitted first. */
static int send(uint64_t to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    const char *data = from;
    pthread_mutex_lock(&wgpu.lock);
    int over = burn_wgpu_local(&to);
    size_t head = to % 4 ? 4 - to % 4 : 0;
    head = head < bytes ? head : bytes;
    size_t middle = (bytes - head) / 4 * 4, tail = bytes - head - middle;
    int code = wgpu.capture ? WGPU_REFUSED : over ? over : burn_wgpu_flush();
    if (!code && head)
        code = send_ragged(to, data, head);
    for (uint64_t done = 0, part; !code && done < middle; done += part) {
        uint64_t at = to + head + done;
        part = bytes_in_page(at, middle - done);
        wgpu.api.write(wgpu.queue, page_of(at), in_page(at), data + head + done, part);
    }
    if (!code && tail)
        code = send_ragged(to + head + middle, data + head + middle, tail);
    if (!code)
        code = burn_wgpu_status();
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static void mapped(uint32_t status, wgpu_text message, void *first, void *second) {
    (void)message, (void)first, (void)second;
    wgpu.mapped = status;
}

/* Reads bytes of a buffer that commands have copied to the staging buffer, after all submitted work. */
int burn_wgpu_read_staging(void *to, uint64_t skipped, size_t bytes, uint64_t room) {
    wgpu_callback callback = {.mode = WGPU_SPONTANEOUS, .call = (void (*)(void))mapped};
    wgpu.mapped = 0;
    wgpu.api.buffer_map(wgpu.staging, 1, 0, room, callback);
    int code = burn_wgpu_status();
    while (!code && !wgpu.mapped) {
        wgpu.api.poll(wgpu.device, 1, NULL);
        code = burn_wgpu_status();
    }
    if (!code && wgpu.mapped != WGPU_SUCCESS)
        code = burn_wgpu_refuse(WGPU_REFUSED, "memory of the device cannot be mapped");
    const char *data = code ? NULL : wgpu.api.buffer_mapped(wgpu.staging, 0, room);
    if (data)
        memcpy(to, data + skipped, bytes);
    if (!code && !data)
        code = burn_wgpu_refuse(WGPU_REFUSED, "memory of the device cannot be read");
    if (!wgpu.mapped || wgpu.mapped == WGPU_SUCCESS) /* or still asked for */
        wgpu.api.buffer_unmap(wgpu.staging);
    return code;
}

/* Makes the staging buffer at least so large: twice as large as before if the device has that, else as needed. */
int burn_wgpu_has_staging(uint64_t bytes) {
    if (wgpu.staging_bytes >= bytes)
        return 0;
    uint64_t doubled = wgpu.staging_bytes ? wgpu.staging_bytes * 2 : LEAST_STAGING, size = doubled > bytes ? doubled : bytes;
    size = size > wgpu.limits.buffer && bytes <= wgpu.limits.buffer ? bytes : size;
    if (wgpu.staging)
        wgpu.api.buffer_release(wgpu.staging);
    wgpu.staging_bytes = 0;
    int code = burn_wgpu_buffer(&wgpu.staging, WGPU_MAP_READ | WGPU_COPY_TARGET, size);
    if (code == BURN_DRIVER_OUT_OF_MEMORY && bytes < size)
        code = burn_wgpu_buffer(&wgpu.staging, WGPU_MAP_READ | WGPU_COPY_TARGET, size = bytes);
    if (!code)
        wgpu.staging_bytes = size;
    return code;
}

int burn_wgpu_fetch_now(void *to, uint64_t from, size_t bytes) {
    int over = burn_wgpu_local(&from);
    if (over)
        return over;
    uint64_t start = from / 4 * 4, room = (from + bytes + 3) / 4 * 4 - start;
    int code = burn_wgpu_has_staging(room);
    if (code || !bytes)
        return code;
    burn_wgpu_end_pass();
    for (uint64_t done = 0, part; done < room; done += part) {
        part = bytes_in_page(start + done, room - done);
        wgpu.api.copy(burn_wgpu_encoder(), page_of(start + done), in_page(start + done), wgpu.staging, done, part);
    }
    code = burn_wgpu_flush();
    return code ? code : burn_wgpu_read_staging(to, from - start, bytes, room);
}

static int fetch(void *to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    pthread_mutex_lock(&wgpu.lock);
    int code = 0;
    if (wgpu.capture) {
        wgpu_step *step = burn_wgpu_recorded();
        if (step)
            step->to = to, step->from = from, step->bytes = bytes;
        code = step ? 0 : BURN_DRIVER_OUT_OF_MEMORY;
    } else
        code = burn_wgpu_fetch_now(to, from, bytes);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

void burn_wgpu_fill_staging(burn_driver *driver) {
    driver->send = send;
    driver->fetch = fetch;
    driver->copy = copy;
    driver->fill = fill;
}
