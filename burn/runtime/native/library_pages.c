/* Resident pages of loaded libraries.
 *
 * Linux maps the 16 pages around each page of a file that is accessed. A compilation maps about 60 MB of MLIR's and LLVM's code this
 * way, and uses less than half of it. Only segments that are never writable are released, so that relocated data stays. A library
 * whose code has relocations is left alone.
 *
 * Linux maps nothing around a page in memory that is registered with userfaultfd for write protection. In the asynchronous mode (Linux
 * 6.7) the kernel sends no messages, and no page is protected here, so the registration has no other effect. It ends with its
 * descriptor, and a child of a fork has none.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif
#include "library_pages.h"

#if defined(__linux__)
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <link.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system.h"

/* Of headers newer than those that wheels are built with. */
enum { USER_MODE_ONLY = 1 };                    /* UFFD_USER_MODE_ONLY */
static const uint64_t ASYNCHRONOUS = 1ull << 15; /* UFFD_FEATURE_WP_ASYNC */

typedef struct request {
    const char *name;
    int64_t bytes;
    int descriptor; /* of the process's page table, or of the registration */
} request;

/* A child of a fork would wait forever for the lock of `dl_iterate_phdr`, if a thread of its parent held it. */
static burn_lock visiting = BURN_LOCK_NEW;
static burn_once once = BURN_ONCE_NEW;
static int registration = -1; /* a descriptor of userfaultfd, open until the process ends */

static void before_fork(void) { burn_lock_take(&visiting); }
static void after_fork(void) { burn_lock_give(&visiting); }
static void in_child(void) { /* the descriptor registers memory of the parent */
    if (registration >= 0)
        close(registration);
    registration = -1;
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

/* Calls `change` for each address range of code or read-only data of a library with the request's name, and adds the sizes of those
 * that it changed. A first or last page that is shared with a writable segment is left out. */
static int visit(const struct dl_phdr_info *library, request *wanted, int (*change)(const request *, uintptr_t, uintptr_t)) {
    if (!library->dlpi_name || !strstr(library->dlpi_name, wanted->name) || relocates_code(library))
        return 0;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || segment->p_flags & PF_W)
            continue;
        const uintptr_t start = (library->dlpi_addr + segment->p_vaddr + page - 1) / page * page;
        const uintptr_t end = (library->dlpi_addr + segment->p_vaddr + segment->p_memsz) / page * page;
        if (start < end && change(wanted, start, end))
            wanted->bytes += (int64_t)(end - start);
    }
    return 0;
}

static int drop(const request *wanted, uintptr_t start, uintptr_t end) {
    return is_unchanged(wanted->descriptor, start, end, (uintptr_t)sysconf(_SC_PAGESIZE)) &&
           madvise((void *)start, end - start, MADV_DONTNEED) == 0;
}

static int register_range(const request *wanted, uintptr_t start, uintptr_t end) {
    struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};
    return ioctl(wanted->descriptor, UFFDIO_REGISTER, &range) == 0;
}

static int release(struct dl_phdr_info *library, size_t size, void *state) { return (void)size, visit(library, state, drop); }

static int separate(struct dl_phdr_info *library, size_t size, void *state) {
    return (void)size, visit(library, state, register_range);
}

int64_t burn_library_release(const char *name) {
    request wanted = {name, 0, open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    if (wanted.descriptor < 0)
        return 0;
    burn_once_call(&once, guard);
    burn_lock_take(&visiting);
    dl_iterate_phdr(release, &wanted);
    burn_lock_give(&visiting);
    close(wanted.descriptor);
    return wanted.bytes;
}

/* A descriptor whose registrations send no messages, or -1. */
static int asynchronous(void) {
    const int descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
    struct uffdio_api wanted = {.api = UFFD_API, .features = ASYNCHRONOUS};
    if (descriptor >= 0 && ioctl(descriptor, UFFDIO_API, &wanted) != 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

int64_t burn_library_separate(const char *name) {
    burn_once_call(&once, guard);
    burn_lock_take(&visiting);
    if (registration < 0)
        registration = asynchronous();
    request wanted = {name, 0, registration};
    if (registration >= 0)
        dl_iterate_phdr(separate, &wanted);
    burn_lock_give(&visiting);
    return wanted.bytes;
}
#else
int64_t burn_library_release(const char *name) { return (void)name, 0; }
int64_t burn_library_separate(const char *name) { return (void)name, 0; }
#endif
