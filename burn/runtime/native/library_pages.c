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
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "system.h"

typedef struct request {
    const char *name;
    int64_t bytes;
    int pagemap; /* descriptor of the process's page table */
    int64_t resident; /* bytes that were resident */
} request;

/* A child of a fork would wait forever for the lock of `dl_iterate_phdr`, if a thread of its parent held it. */
static burn_lock releasing = BURN_LOCK_NEW;
static burn_lock bounding = BURN_LOCK_NEW; /* of the state of the bound; taken before the other one */
static burn_once once = BURN_ONCE_NEW;
static int32_t begun; /* calls of `begin` without an `end` */
static int has_thread;

static void before_fork(void) {
    burn_lock_take(&bounding);
    burn_lock_take(&releasing);
}
static void after_fork(void) {
    burn_lock_give(&releasing);
    burn_lock_give(&bounding);
}
/* The child of a fork has no thread of a bound, and compiles nothing yet. */
static void in_child(void) {
    begun = has_thread = 0;
    after_fork();
}
static void guard(void) { burn_at_fork(before_fork, after_fork, in_child); }

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

/* The resident bytes of a range; -1 unless all are the file's. Breakpoints and patches of code change pages, and tools that move code to
 * large pages replace them. */
static int64_t unchanged(int pagemap, uintptr_t start, uintptr_t end, uintptr_t page) {
    enum { CHUNK = 512 };
    const uint64_t IS_FILE = 1ull << 61, IS_SWAPPED = 1ull << 62, IS_PRESENT = 1ull << 63;
    uint64_t entries[CHUNK];
    int64_t resident = 0;
    const uintptr_t last = end / page;
    for (uintptr_t at = start / page; at < last; at += CHUNK) {
        const size_t size = (last - at < CHUNK ? last - at : CHUNK) * sizeof *entries;
        if (pread(pagemap, entries, size, (off_t)(at * sizeof *entries)) != (ssize_t)size)
            return -1;
        for (size_t i = 0; i < size / sizeof *entries; i++) {
            if (entries[i] & (IS_PRESENT | IS_SWAPPED) && !(entries[i] & IS_FILE))
                return -1;
            if (entries[i] & IS_PRESENT)
                resident += (int64_t)page;
        }
    }
    return resident;
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
        const int64_t resident = start < end ? unchanged(wanted->pagemap, start, end, page) : -1;
        if (resident >= 0 && madvise((void *)start, end - start, MADV_DONTNEED) == 0) {
            wanted->bytes += (int64_t)(end - start);
            wanted->resident += resident;
        }
    }
    return 0;
}

static request release_all(const char *name) {
    request wanted = {name, 0, open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), 0};
    if (wanted.pagemap < 0)
        return wanted;
    burn_once_call(&once, guard);
    burn_lock_take(&releasing);
    dl_iterate_phdr(release, &wanted);
    burn_lock_give(&releasing);
    close(wanted.pagemap);
    return wanted;
}

int64_t burn_library_release(const char *name) { return release_all(name).bytes; }

/* ---- a bound ------------------------------------------------------------------------------------------------------- */

enum { READ = 1 << 16 }; /* bytes of a file that a fault reads at least */
/* Pauses from a release to the next one. Code in use is mapped again, which takes 2 ms for 16 MB. Without a rest a network takes
 * 20 % more CPU time to compile. */
enum { REST = 10 };
static const struct timespec PAUSE = {0, 1000000};

static burn_thread thread;
static _Atomic int is_over;
static char bound_name[128];
static int64_t bound_room, bound_others;

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

/* Pages of files that this process has read from a disk so far. */
static int64_t reads(void) {
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_majflt : 0;
}

static void watch(void) {
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const int64_t before = reads();
    int64_t floor = 0, of_files, others;
    int rest = 0;
    while (file >= 0 && !is_over && resident(file, &of_files, &others)) {
        const int64_t room = others / bound_others > bound_room ? others / bound_others : bound_room;
        if (of_files < floor)
            floor = of_files;
        if (rest > 0) {
            rest--;
        } else if (of_files > floor + room) {
            rest = REST;
            const request done = release_all(bound_name);
            if (done.bytes > 0 && reads() - before > done.bytes / READ)
                break; /* the library was read more than once: the system does not keep its pages */
            floor = of_files - done.resident; /* other threads map pages again meanwhile */
        }
        nanosleep(&PAUSE, NULL);
    }
    if (file >= 0)
        close(file);
}

void burn_library_bound_begin(const char *name, int64_t room, int64_t others) {
    static const burn_task task = {watch};
    burn_once_call(&once, guard);
    burn_lock_take(&bounding);
    if (begun++ == 0) {
        snprintf(bound_name, sizeof bound_name, "%s", name);
        bound_room = room;
        bound_others = others > 0 ? others : 1;
        is_over = 0;
        has_thread = burn_thread_start(&thread, &task);
    }
    burn_lock_give(&bounding);
}

void burn_library_bound_end(void) {
    burn_lock_take(&bounding);
    if (begun > 0 && --begun == 0 && has_thread) { /* 0 in the child of a fork, which others began */
        is_over = 1;
        has_thread = 0;
        burn_thread_join(&thread);
    }
    burn_lock_give(&bounding);
}
#else
int64_t burn_library_release(const char *name) { return (void)name, 0; }
void burn_library_bound_begin(const char *name, int64_t room, int64_t others) { (void)name, (void)room, (void)others; }
void burn_library_bound_end(void) {}
#endif
