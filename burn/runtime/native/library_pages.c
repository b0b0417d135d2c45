/* Resident pages of loaded libraries.
 *
 * Linux maps the 16 pages around each page of a file that is accessed. A compilation maps most of LLVM's code this way, about 100 MB.
 * Only segments that are never writable are released, so that relocated data stays. A library whose code has relocations is left
 * alone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif
#include "library_pages.h"

#if defined(__linux__)
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "system.h"

typedef struct request {
    const char *name;
    int64_t bytes;
} request;

static int relocates_code(const struct dl_phdr_info *library) {
    for (int i = 0; i < library->dlpi_phnum; i++) {
        if (library->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
                return 1;
    }
    return 0;
}

static int release(struct dl_phdr_info *library, size_t size, void *state) {
    (void)size;
    request *wanted = state;
    if (!library->dlpi_name || !strstr(library->dlpi_name, wanted->name) || relocates_code(library))
        return 0;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || segment->p_flags & PF_W)
            continue;
        /* A first or last page that is shared with a writable segment stays. */
        const uintptr_t start = (library->dlpi_addr + segment->p_vaddr + page - 1) / page * page;
        const uintptr_t end = (library->dlpi_addr + segment->p_vaddr + segment->p_memsz) / page * page;
        if (start < end && madvise((void *)start, end - start, MADV_DONTNEED) == 0)
            wanted->bytes += (int64_t)(end - start);
    }
    return 0;
}

int64_t burn_library_release(const char *name) {
    request wanted = {name, 0};
    dl_iterate_phdr(release, &wanted);
    return wanted.bytes;
}

/* ---- a bound ------------------------------------------------------------------------------------------------------- */

static const struct timespec PAUSE = {0, 1000000};

static burn_lock lock = BURN_LOCK_NEW;
static burn_once once = BURN_ONCE_NEW;
static int32_t begun; /* calls of `begin` without an `end` */
static int has_thread;
static burn_thread thread;
static _Atomic int is_over;
static char bound_name[128];
static int64_t bound_room, bound_others;

/* The child of a fork has no such thread, and compiles nothing yet. */
static void acquire(void) { burn_lock_take(&lock); }
static void give(void) { burn_lock_give(&lock); }
static void forget(void) {
    begun = has_thread = 0;
    burn_lock_give(&lock);
}
static void guard(void) { burn_at_fork(acquire, give, forget); }

/* Resident bytes of files and of all else. Returns 0 if the system does not say. */
static int resident(int file, int64_t *of_files, int64_t *others) {
    char text[128];
    long long all = 0, shared = 0;
    const ssize_t length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    if (sscanf(text, "%*d %lld %lld", &all, &shared) != 2)
        return 0;
    const int64_t page = sysconf(_SC_PAGESIZE);
    *of_files = shared * page;
    *others = (all - shared) * page;
    return 1;
}

static void watch(void) {
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    int64_t floor = 0, of_files, others;
    while (file >= 0 && !is_over && resident(file, &of_files, &others)) {
        const int64_t room = others / bound_others > bound_room ? others / bound_others : bound_room;
        if (of_files < floor)
            floor = of_files;
        if (of_files > floor + room) {
            burn_library_release(bound_name);
            if (resident(file, &of_files, &others))
                floor = of_files;
        }
        nanosleep(&PAUSE, NULL);
    }
    if (file >= 0)
        close(file);
}

void burn_library_bound_begin(const char *name, int64_t room, int64_t others) {
    static const burn_task task = {watch};
    burn_once_call(&once, guard);
    burn_lock_take(&lock);
    if (begun++ == 0) {
        snprintf(bound_name, sizeof bound_name, "%s", name);
        bound_room = room;
        bound_others = others > 0 ? others : 1;
        is_over = 0;
        has_thread = burn_thread_start(&thread, &task);
    }
    burn_lock_give(&lock);
}

void burn_library_bound_end(void) {
    burn_lock_take(&lock);
    if (begun > 0 && --begun == 0 && has_thread) { /* 0 in the child of a fork, which others began */
        is_over = 1;
        has_thread = 0;
        burn_thread_join(&thread);
    }
    burn_lock_give(&lock);
}
#else
int64_t burn_library_release(const char *name) { return (void)name, 0; }
void burn_library_bound_begin(const char *name, int64_t room, int64_t others) { (void)name, (void)room, (void)others; }
void burn_library_bound_end(void) {}
#endif
