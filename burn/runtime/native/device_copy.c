/* Elements between the host, a device and other streams.
 *
 * A copy between pinned (page-locked) memory and the device is asynchronous, so small copies go through such
 * memory. Sends use a ring, whose segments are reused when the copies out of them are done. Fetches use
 * memory of the waiting thread. The driver splits large copies.
 */
#include <stdlib.h>
#include <string.h>

#include "device_inner.h"

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

int burn_device_open_transfers(burn_device *device) {
    const burn_driver *driver = device->driver;
    int code = driver->event(&device->order, BURN_DRIVER_UNTIMED);
    for (int i = 0; i < BURN_SEGMENTS && !code; i++)
        code = driver->event(&device->ring_events[i], BURN_DRIVER_UNTIMED);
    return code ? code : driver->pinned_alloc((void **)&device->ring, (size_t)BURN_SEGMENTS * BURN_SEGMENT, 0);
}

/* Under the lock, as is give_waiter. NULL: *code says why. */
static burn_waiter *take_waiter(burn_device *device, int *code) {
    burn_waiter *waiter = device->waiters;
    if (waiter) {
        device->waiters = waiter->next;
        return waiter;
    }
    const burn_driver *driver = device->driver;
    waiter = calloc(1, sizeof *waiter);
    *code = waiter ? driver->event(&waiter->event, BURN_DRIVER_UNTIMED) : BURN_DRIVER_OUT_OF_MEMORY;
    if (waiter && !*code) {
        *code = driver->pinned_alloc(&waiter->pinned, BURN_SMALL_TRANSFER, 0);
        if (!*code)
            return waiter;
        driver->event_release(waiter->event);
    }
    free(waiter);
    return NULL;
}

static void give_waiter(burn_device *device, burn_waiter *waiter) {
    waiter->next = device->waiters;
    device->waiters = waiter;
}

/* Under the lock, which others may have meanwhile: waits for all that a stream was given. */
static int wait_for_all(burn_device *device, burn_waiter *waiter, void *stream) {
    int code = device->driver->record(waiter->event, stream);
    if (code)
        return code;
    pthread_mutex_unlock(&device->lock);
    code = device->driver->wait(waiter->event);
    pthread_mutex_lock(&device->lock);
    return code;
}

int32_t burn_device_wait(burn_device *device) {
    static const char doing[] = "waiting for it";
    int entered;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    int code = 0;
    burn_waiter *waiter = take_waiter(device, &code);
    if (waiter) {
        code = wait_for_all(device, waiter, device->stream);
        give_waiter(device, waiter);
    }
    return burn_device_end(device, doing, entered, code);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* A piece of the ring. NULL: *code says why. */
static char *ring_piece(burn_device *device, int64_t bytes, int *code) {
    if (device->segment_used + bytes > BURN_SEGMENT) {
        *code = device->driver->record(device->ring_events[device->segment], device->stream);
        int32_t next = (device->segment + 1) % BURN_SEGMENTS;
        if (!*code)
            *code = device->driver->wait(device->ring_events[next]);
        if (*code)
            return NULL;
        device->segment = next;
        device->segment_used = 0;
    }
    char *piece = device->ring + (int64_t)device->segment * BURN_SEGMENT + device->segment_used;
    device->segment_used += (bytes + 15) / 16 * 16;
    return piece;
}

/* The driver has read ordinary memory when it returns. It reads pinned memory later, when it executes the copy. */
static int send_large(burn_device *device, uint64_t to, const void *from, int64_t bytes) {
    int type = 0, code = device->driver->send(to, from, (size_t)bytes, device->stream);
    if (code || device->driver->about(&type, BURN_DRIVER_MEMORY_TYPE, (uint64_t)(uintptr_t)from))
        return code;
    burn_waiter *waiter = take_waiter(device, &code);
    if (waiter) {
        code = wait_for_all(device, waiter, device->stream);
        give_waiter(device, waiter);
    }
    return code;
}

int32_t burn_device_send(burn_device *device, void *to, const void *from, int64_t bytes) {
    static const char doing[] = "sending elements to it";
    int entered;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    uint64_t address = (uint64_t)(uintptr_t)to;
    int code = 0;
    if (bytes > BURN_SMALL_TRANSFER)
        code = send_large(device, address, from, bytes);
    else if (bytes > 0) {
        char *piece = ring_piece(device, bytes, &code);
        if (piece) {
            memcpy(piece, from, (size_t)bytes);
            code = device->driver->send(address, piece, (size_t)bytes, device->stream);
        }
    }
    return burn_device_end(device, doing, entered, code);
}

/* The driver has read ordinary memory when it returns, see send_large. */
int32_t burn_device_send_by(burn_device *device, void *stream, void *to, const void *from, int64_t bytes) {
    static const char doing[] = "sending elements to it";
    int entered, code = 0, type = 0;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    if (bytes > 0) {
        code = device->driver->send((uint64_t)(uintptr_t)to, from, (size_t)bytes, stream);
        if (!code && !device->driver->about(&type, BURN_DRIVER_MEMORY_TYPE, (uint64_t)(uintptr_t)from)) {
            burn_waiter *waiter = take_waiter(device, &code);
            if (waiter) {
                code = wait_for_all(device, waiter, stream);
                give_waiter(device, waiter);
            }
        }
    }
    return burn_device_end(device, doing, entered, code);
}

/* By a stream's work, behind all that it was given. */
static int fetch_by(burn_device *device, void *stream, void *to, const void *from, int64_t bytes) {
    int code = 0;
    burn_waiter *waiter = take_waiter(device, &code);
    if (waiter) {
        void *target = bytes > BURN_SMALL_TRANSFER ? to : waiter->pinned;
        code = device->driver->fetch(target, (uint64_t)(uintptr_t)from, (size_t)bytes, stream);
        if (!code)
            code = wait_for_all(device, waiter, stream);
        if (!code && target != to)
            memcpy(to, target, (size_t)bytes);
        give_waiter(device, waiter);
    }
    return code;
}

int32_t burn_device_fetch(burn_device *device, void *to, const void *from, int64_t bytes) {
    return burn_device_fetch_after(device, NULL, to, from, bytes);
}

int32_t burn_device_fetch_after(burn_device *device, burn_device_moment *moment, void *to, const void *from, int64_t bytes) {
    static const char doing[] = "fetching elements from it";
    int entered, code = 0;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    if (moment)
        code = device->driver->wait_for(device->beside, burn_device_event(moment), 0);
    if (!code && bytes > 0)
        code = fetch_by(device, moment ? device->beside : device->stream, to, from, bytes);
    return burn_device_end(device, doing, entered, code);
}

int32_t burn_device_copy(burn_device *device, void *to, const void *from, int64_t bytes) {
    static const char doing[] = "copying elements within it";
    int entered;
    int32_t status = burn_device_begin(device, &entered);
    if (status != BURN_OK)
        return status;
    int code = bytes > 0 && to != from ? device->driver->copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from,
                                                              (size_t)bytes, device->stream)
                                       : 0;
    return burn_device_end(device, doing, entered, code);
}

int burn_device_reaches(const burn_device *device, const burn_device *other) {
    return device == other || (device->driver == other->driver && device->driver->peer_copy);
}

/* This device waits for the other's present work, copies, and lets the other's later work wait: it may write the source. Locks are
 * taken one after the other, so that two copies in opposite directions do not wait for each other. An event that another
 * thread records again in between stands for that work and more. */
int32_t burn_device_copy_from(burn_device *device, void *to, burn_device *other, const void *from, int64_t bytes) {
    static const char doing[] = "copying elements from another device";
    int entered;
    if (device == other)
        return burn_device_copy(device, to, from, bytes);
    if (!burn_device_reaches(device, other))
        return burn_device_refuse(device, BURN_DEVICE_FAILED, "%s: its driver does not copy from %s", doing, other->label);
    int32_t status = burn_device_begin_now(other, doing, &entered);
    if (status != BURN_OK)
        return status;
    status = burn_device_end(other, doing, entered, other->driver->record(other->order, other->stream));
    if (status == BURN_OK)
        status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    const burn_driver *driver = device->driver;
    int code = driver->wait_for(device->stream, other->order, 0);
    if (!code && bytes > 0)
        code = driver->peer_copy((uint64_t)(uintptr_t)to, device->context, (uint64_t)(uintptr_t)from, other->context,
                                 (size_t)bytes, device->stream);
    if (!code)
        code = driver->record(device->order, device->stream);
    status = burn_device_end(device, doing, entered, code);
    if (status == BURN_OK)
        status = burn_device_begin_now(other, doing, &entered);
    if (status != BURN_OK)
        return status;
    return burn_device_end(other, doing, entered, driver->wait_for(other->stream, device->order, 0));
}

int32_t burn_device_fill(burn_device *device, void *to, uint8_t byte, int64_t bytes) {
    static const char doing[] = "filling its memory";
    int entered;
    int32_t status = burn_device_begin(device, &entered);
    if (status != BURN_OK)
        return status;
    int code = bytes > 0 ? device->driver->fill((uint64_t)(uintptr_t)to, byte, (size_t)bytes, device->stream) : 0;
    return burn_device_end(device, doing, entered, code);
}

/* ---- other streams ----------------------------------------------------------------------------------------------- */

int burn_device_follow(burn_device *device, void *stream) {
    int code = device->driver->record(device->order, stream);
    return code ? code : device->driver->wait_for(device->stream, device->order, 0);
}

/* Later work of `second` waits for all present work of `first`. A stream captures the event it waits for, so one
 * event can be reused. */
static int32_t put_in_order(burn_device *device, void *first, void *second, const char *doing) {
    int entered;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    int code = device->driver->record(device->order, first);
    if (!code)
        code = device->driver->wait_for(second, device->order, 0);
    return burn_device_end(device, doing, entered, code);
}

int32_t burn_device_wait_for(burn_device *device, void *stream) {
    return put_in_order(device, stream, device->stream, "waiting for another stream");
}

int32_t burn_device_let_wait(burn_device *device, void *stream) {
    return put_in_order(device, device->stream, stream, "letting another stream wait");
}
