/* Events of WebGPU: timestamps in sets of queries, or the host's clock. There is one queue, in order. */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "driver_wgpu.h"

typedef struct wgpu_event {
    int timed;
    wgpu_queries *queries; /* the set of its timestamp; NULL: the host's clock, as the device has none */
    uint32_t query;
    uint64_t session;
    double milliseconds;   /* of the host's clock */
} wgpu_event;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void on_done(uint32_t status, wgpu_text message, void *first, void *second) {
    (void)status, (void)message, (void)first, (void)second;
    wgpu.done++;
}

/* A system takes some 100 us to wake a thread, as long as a small model runs. So the first milliseconds of a wait are a loop of
 * questions, in which other threads go first: a device on the CPU needs them. */
static int finished(void) {
    enum { MILLISECONDS = 2 };
    const wgpu_callback callback = {.mode = WGPU_SPONTANEOUS, .call = (void (*)(void))on_done};
    int code = burn_wgpu_flush();
    uint64_t asked = 0;
    if (!code) {
        asked = ++wgpu.asked;
        wgpu.api.when_done(wgpu.queue, callback);
    }
    for (double start = now(); !code && wgpu.done < asked && now() - start < MILLISECONDS; code = burn_wgpu_status()) {
        wgpu.api.poll(wgpu.device, 0, NULL);
        sched_yield();
    }
    if (!code) {
        wgpu.api.poll(wgpu.device, 1, NULL);
        code = burn_wgpu_status();
    }
    return code;
}

static int add_queries(void) {
    wgpu_queries *made = calloc(1, sizeof *made);
    if (!made)
        return BURN_DRIVER_OUT_OF_MEMORY;
    const wgpu_queries_descriptor descriptor = {.type = WGPU_TIMESTAMPS, .count = QUERIES};
    made->set = wgpu.api.queries(wgpu.device, &descriptor);
    int code = burn_wgpu_status();
    if (code) {
        free(made);
        return code;
    }
    made->next = wgpu.queries;
    wgpu.queries = made;
    return 0;
}

/* Both events of a pair have timestamps, so there is always one: sets are added. */
static int take_query(wgpu_event *event) {
    for (wgpu_queries *each = wgpu.queries; each; each = each->next)
        for (uint32_t i = 0; i < QUERIES; i++)
            if (!(each->taken[i / 64] >> (i % 64) & 1)) {
                each->taken[i / 64] |= (uint64_t)1 << (i % 64);
                event->queries = each;
                event->query = i;
                return 0;
            }
    int code = add_queries();
    return code ? code : take_query(event);
}

static int new_event(void **event, unsigned flags) {
    wgpu_event *made = calloc(1, sizeof *made);
    if (!made)
        return BURN_DRIVER_OUT_OF_MEMORY;
    made->timed = !(flags & BURN_DRIVER_UNTIMED);
    made->session = wgpu.session;
    pthread_mutex_lock(&wgpu.lock);
    int code = made->timed && wgpu.has_timestamps ? take_query(made) : 0;
    pthread_mutex_unlock(&wgpu.lock);
    if (code)
        free(made);
    else
        *event = made;
    return code;
}

static int event_release(void *event) {
    wgpu_event *it = event;
    pthread_mutex_lock(&wgpu.lock);
    if (it->queries)
        it->queries->taken[it->query / 64] &= ~((uint64_t)1 << (it->query % 64));
    pthread_mutex_unlock(&wgpu.lock);
    free(it);
    return 0;
}

/* A timed event begins a pass, whose beginning writes a timestamp. Without such, the host waits and reads its own clock. */
static int record(void *event, void *stream) {
    (void)stream;
    wgpu_event *it = event;
    int code = 0;
    pthread_mutex_lock(&wgpu.lock);
    if (it->timed && it->session != wgpu.session)
        code = WGPU_LOST;
    else if (it->queries) {
        const wgpu_timestamps stamps = {.set = it->queries->set, .begin = it->query, .end = WGPU_NO_QUERY};
        burn_wgpu_pass(&stamps);
        code = burn_wgpu_status();
    } else if (it->timed) {
        code = finished();
        it->milliseconds = now();
    }
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int wait(void *event) {
    (void)event;
    pthread_mutex_lock(&wgpu.lock);
    int code = finished();
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int wait_for(void *stream, void *event, unsigned flags) {
    (void)stream, (void)event, (void)flags; /* there is one queue, in order */
    return 0;
}

static int elapsed(float *milliseconds, void *first, void *last) {
    const wgpu_event *a = first, *b = last;
    int code = 0;
    pthread_mutex_lock(&wgpu.lock);
    if (a->session != wgpu.session || b->session != wgpu.session)
        code = WGPU_LOST;
    else if (a->queries && b->queries) {
        uint64_t ticks[33];
        burn_wgpu_end_pass();
        wgpu.api.resolve(burn_wgpu_encoder(), a->queries->set, a->query, 1, wgpu.resolved, 0);
        wgpu.api.resolve(burn_wgpu_encoder(), b->queries->set, b->query, 1, wgpu.resolved, 256);
        code = burn_wgpu_has_staging(sizeof ticks);
        if (!code) {
            wgpu.api.copy(burn_wgpu_encoder(), wgpu.resolved, 0, wgpu.staging, 0, sizeof ticks);
            code = burn_wgpu_flush();
        }
        if (!code)
            code = burn_wgpu_read_staging(ticks, 0, sizeof ticks, sizeof ticks);
        if (!code)
            *milliseconds = (float)((double)(int64_t)(ticks[32] - ticks[0]) * wgpu.api.timestamp_period(wgpu.queue) * 1e-6);
    } else
        *milliseconds = (float)(b->milliseconds - a->milliseconds);
    pthread_mutex_unlock(&wgpu.lock);
    return code;
}

static int stream(void **made, unsigned flags) {
    (void)flags;
    *made = &wgpu;
    return 0;
}

static int stream_release(void *it) {
    (void)it; /* there is one for all */
    return 0;
}

void burn_wgpu_fill_queries(burn_driver *driver) {
    driver->stream = stream;
    driver->stream_release = stream_release;
    driver->wait_for = wait_for;
    driver->event = new_event;
    driver->event_release = event_release;
    driver->record = record;
    driver->wait = wait;
    driver->elapsed = elapsed;
}
