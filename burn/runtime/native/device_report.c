/* Failures that kernels report.
 *
 * A kernel cannot end a run: it writes a status word on the GPU, and later kernels of that run do not overwrite earlier data.
 * A synchronous run reads the word at its end. An asynchronous run copies it to the host after its work; the next
 * synchronisation or run on the GPU then raises the failure. The word stays set until it is reported.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_inner.h"

/* A word: the number of its site plus one above, the index below. */
enum { INDEX_BITS = 48 };

/* Words of the host that are locked at a time. They are used again, and never given back. */
enum { SLOTS = 512 };

struct burn_report {
    struct burn_report *next;
    burn_device *device;
    void *word;              /* in GPU memory */
    volatile int64_t *copied;  /* its copy in host memory */
    int queued;              /* a copy may be under way */
    int elsewhere;           /* by a stream of the caller's: */
    void *stream;
    const char *const *sites;
    int64_t site_count;
};

struct burn_slot {
    struct burn_slot *next;
};

/* Under the lock. NULL: *code says why. */
static volatile int64_t *take_slot(burn_device *device, int *code) {
    if (!device->slots) {
        void *memory = NULL;
        *code = device->driver->pinned_alloc(&memory, SLOTS * sizeof(burn_slot), 0);
        if (*code)
            return NULL;
        burn_slot *slots = memory;
        for (int i = 0; i < SLOTS; i++) {
            slots[i].next = device->slots;
            device->slots = &slots[i];
        }
    }
    burn_slot *slot = device->slots;
    device->slots = slot->next;
    volatile int64_t *copied = (volatile int64_t *)slot;
    *copied = 0;
    return copied;
}

static void give_slot(burn_device *device, volatile int64_t *copied) {
    burn_slot *slot = (burn_slot *)copied;
    slot->next = device->slots;
    device->slots = slot;
}

burn_report *burn_report_new(burn_device *device, const char *const *sites, int64_t site_count) {
    static const char doing[] = "making room for failures";
    burn_report *report = calloc(1, sizeof *report);
    void *word = burn_device_alloc(device, sizeof(int64_t));
    if (!report || !word || burn_device_fill(device, word, 0, sizeof(int64_t)) != BURN_OK) {
        if (!report)
            burn_device_refuse(device, BURN_OUT_OF_MEMORY, "%s: out of memory", doing);
        burn_device_free(device, word);
        free(report);
        return NULL;
    }
    *report = (burn_report){.device = device, .word = word, .sites = sites, .site_count = site_count};
    int entered, code = 0;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status == BURN_OK) {
        report->copied = take_slot(device, &code);
        if (report->copied) {
            report->next = device->reports;
            device->reports = report;
        }
        status = burn_device_end(device, doing, entered, code);
    }
    if (status == BURN_OK)
        return report;
    burn_device_free(device, word);
    free(report);
    return NULL;
}

void *burn_report_word(const burn_report *report) { return report->word; }

int32_t burn_report_copy(burn_report *report) {
    static const char doing[] = "asking for failures";
    burn_device *device = report->device;
    int entered;
    int32_t status = burn_device_begin_now(device, doing, &entered);
    if (status != BURN_OK)
        return status;
    report->queued = 1;
    int code = device->driver->fetch((void *)report->copied, (uint64_t)(uintptr_t)report->word, sizeof(int64_t),
                                     device->stream);
    return burn_device_end(device, doing, entered, code);
}

burn_driver_copy burn_report_fetch(const burn_report *report) {
    return (burn_driver_copy){(uint64_t)(uintptr_t)report->copied, (uint64_t)(uintptr_t)report->word, sizeof(int64_t), 1};
}

void burn_report_queued(burn_report *report, void *stream) {
    report->queued = report->elsewhere = 1;
    report->stream = stream;
}

static void explain(const burn_report *report, int64_t word, burn_reported *found) {
    int64_t site = (word >> INDEX_BITS) - 1;
    found->code = BURN_INDEX_OUT_OF_RANGE;
    found->site = site;
    found->value = (int64_t)((uint64_t)word << (64 - INDEX_BITS)) >> (64 - INDEX_BITS);
    snprintf(found->name, sizeof found->name, "%s", site >= 0 && site < report->site_count ? report->sites[site] : "");
}

/* Waits, so that no copy is under way; then the word is as it was at first. */
static int32_t clear(burn_report *report, int64_t *word) {
    if (report->elsewhere)
        burn_device_wait_for(report->device, report->stream);
    int32_t status = burn_device_fetch(report->device, word, report->word, sizeof *word);
    report->queued = 0;
    *report->copied = 0;
    if (status == BURN_OK && *word)
        status = burn_device_fill(report->device, report->word, 0, sizeof *word);
    return status == BURN_OK && report->elsewhere ? burn_device_wait(report->device) : status;
}

int32_t burn_report_read(burn_report *report, burn_reported *found) {
    int64_t word = 0;
    int32_t status = clear(report, &word);
    found->code = BURN_OK;
    if (word)
        explain(report, word, found);
    return status;
}

int burn_device_reported(burn_device *device, burn_reported *found) {
    burn_device_lock(device);
    int there = device->has_lost;
    if (there) {
        *found = device->lost;
        device->has_lost = 0;
    }
    for (burn_report *report = device->reports; report && !there; report = report->next)
        if (*report->copied) {
            int64_t word = *report->copied;
            there = 1;
            explain(report, word, found);
            clear(report, &word);
        }
    burn_device_unlock(device);
    return there;
}

void burn_report_delete(burn_report *report) {
    if (!report)
        return;
    burn_device *device = report->device;
    burn_device_lock(device);
    for (burn_report **at = &device->reports; *at; at = &(*at)->next)
        if (*at == report) {
            *at = report->next;
            break;
        }
    int64_t word = 0;
    if (report->queued && clear(report, &word) == BURN_OK && word && !device->has_lost) {
        explain(report, word, &device->lost);
        device->has_lost = 1;
    }
    give_slot(device, report->copied);
    burn_device_unlock(device);
    burn_device_free(device, report->word);
    free(report);
}
