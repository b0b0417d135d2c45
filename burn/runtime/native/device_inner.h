/* Shared declarations of the files that implement device.h. */
#ifndef BURN_DEVICE_INNER_H
#define BURN_DEVICE_INNER_H

#include <pthread.h>
#include <stdint.h>

#include "device.h"
#include "driver.h"

enum {
    BURN_SMALL_TRANSFER = 64 << 10,           /* bytes that go through pinned memory */
    BURN_SEGMENT = 2 * BURN_SMALL_TRANSFER,   /* of the ring for what is sent */
    BURN_SEGMENTS = 8,
};

/* The event and memory with which one thread waits while others submit. */
typedef struct burn_waiter {
    struct burn_waiter *next;
    void *event, *pinned; /* BURN_SMALL_TRANSFER bytes */
} burn_waiter;

typedef struct burn_block {
    uint64_t address;
    int64_t bytes;
    struct burn_block *next; /* in the same bucket */
} burn_block;

typedef struct burn_slot burn_slot;

/* The device's memory that burn has: device_memory.c. */
typedef struct burn_store {
    pthread_mutex_t lock;
    burn_block **buckets;                 /* blocks that are handed out, by address */
    int64_t bucket_count, block_count;
    burn_block **kept;                    /* blocks that are free, the smallest first */
    int64_t kept_count, kept_room;
    int64_t used_bytes, kept_bytes;
} burn_store;

struct burn_device {
    struct burn_device *next;
    const burn_driver *driver;
    int32_t index;
    int handle;            /* the driver's word for it */
    char label[32];        /* "cuda:0" */
    burn_device_facts facts; /* those that do not change */
    void *context, *stream;
    void *beside;          /* a stream for what waits for a moment of the other's work alone */
    void *order;           /* an event, for the order between streams */
    burn_store store;

    pthread_mutex_t lock;  /* recursive: over a run, and in it over each submission */
    int32_t held, pushed;  /* how often burn_device_lock holds it; whether that put the context in place */
    int32_t recording;
    burn_device_module *dead; /* to be unloaded when that is done */
    burn_waiter *waiters;  /* unused ones */
    char *ring;            /* pinned: BURN_SEGMENTS of BURN_SEGMENT bytes */
    void *ring_events[BURN_SEGMENTS]; /* the last copy out of each segment */
    int32_t segment;
    int64_t segment_used;

    burn_report *reports;  /* device_report.c */
    burn_slot *slots;      /* unused ones */
    int has_lost;
    burn_reported lost;    /* of a report that is no more */
};

/* Makes the device's context this thread's. 1: it was not before, 0: it was, -1: failed, see burn_device_error. */
int burn_device_enter(burn_device *device);
void burn_device_leave(burn_device *device, int entered);
/* Around each submission: enters and locks. A burn_status; unless it is BURN_OK, there is nothing to end. */
int32_t burn_device_begin(burn_device *device, int *entered);
/* The same for what cannot be recorded. `doing` is for the error's text. */
int32_t burn_device_begin_now(burn_device *device, const char *doing, int *entered);
/* Unlocks and leaves. `code`: what the driver returned. */
int32_t burn_device_end(burn_device *device, const char *doing, int entered, int code);

/* Sets this thread's error, and returns its status: for the driver's `code` ... */
int32_t burn_device_failed(const burn_device *device, const char *doing, int code);
/* ... and for what burn itself finds. */
int32_t burn_device_refuse(const burn_device *device, int32_t status, const char *format, ...);

struct burn_device_function {
    struct burn_device_function *next; /* of the same module */
    void *handle;
    int64_t shared;
    int early; /* see burn_device_set_early */
    char name[];
};

int32_t burn_store_init(burn_store *store);
/* Later work of the device's own stream waits for all present work of another: device_copy.c. The lock is held. A code of the driver's. */
int burn_device_follow(burn_device *device, void *stream);
/* The copy of a report's word to the host, and a word that a copy was submitted: device_report.c. */
burn_driver_copy burn_report_fetch(const burn_report *report);
void burn_report_queued(burn_report *report, void *stream);
/* The driver's event: device_launch.c. */
void *burn_device_event(const burn_device_moment *moment);
/* Pinned memory and events: device_copy.c. A code of the driver's. */
int burn_device_open_transfers(burn_device *device);

#endif
