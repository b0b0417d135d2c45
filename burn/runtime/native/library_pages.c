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
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "system.h"

typedef struct request {
    const char *name;
    int64_t bytes;
    int pagemap; /* descriptor of the process's page table */
} request;

/* A child of a fork would wait forever for the lock of `dl_iterate_phdr`, if a thread of its parent held it. */
static burn_lock releasing = BURN_LOCK_NEW;
static burn_once once = BURN_ONCE_NEW;

static void before_fork(void) { burn_lock_take(&releasing); }
static void after_fork(void) { burn_lock_give(&releasing); }
static void guard(void) { burn_at_fork(before_fork, after_fork, after_fork); }

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

/* True if all resident pages of a range are the file's. Breakpoints and patches of code change pages, and tools that move code to large
 * pages replace them. */
static int is_unchanged(int pagemap, uintptr_t start, uintptr_t end, uintptr_t page) {
    enum { CHUNK = 512 };
    const uint64_t IS_FILE = 1ull << 61, IS_SWAPPED = 1ull << 62, IS_PRESENT = 1ull << 63;
    uint64_t entries[CHUNK];
    const uintptr_t last = end / page;
    for (uintptr_t at = start / page; at < last; at += CHUNK) {
        const size_t size = (last - at < CHUNK ? last - at : CHUNK) * sizeof *entries;
        if (pread(pagemap, entries, size, (off_t)(at * sizeof *entries)) != (ssize_t)size)
            return 0;
        for (size_t i = 0; i < size / sizeof *entries; i++)
            if (entries[i] & (IS_PRESENT | IS_SWAPPED) && !(entries[i] & IS_FILE))
                return 0;
    }
    return 1;
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
        if (start < end && is_unchanged(wanted->pagemap, start, end, page) &&
            madvise((void *)start, end - start, MADV_DONTNEED) == 0)
            wanted->bytes += (int64_t)(end - start);
    }
    return 0;
}

int64_t burn_library_release(const char *name) {
    request wanted = {name, 0, open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    if (wanted.pagemap < 0)
        return 0;
    burn_once_call(&once, guard);
    burn_lock_take(&releasing);
    dl_iterate_phdr(release, &wanted);
    burn_lock_give(&releasing);
    close(wanted.pagemap);
    return wanted.bytes;
}
#else
int64_t burn_library_release(const char *name) { return (void)name, 0; }
#endif
