/* Resident pages of loaded libraries.
 *
 * Linux maps the 16 pages around each page of a file that is accessed. A compilation maps most of LLVM's code this way, about 100 MB.
 * Only segments that are never writable are released, so that relocated data stays. 64-bit libraries have no relocations in code.
 */
#include "library_pages.h"

#if defined(__linux__)
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct request {
    const char *name;
    int64_t bytes;
} request;

static int release(struct dl_phdr_info *library, size_t size, void *state) {
    (void)size;
    request *wanted = state;
    if (!library->dlpi_name || !strstr(library->dlpi_name, wanted->name))
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
#else
int64_t burn_library_release(const char *name) { return (void)name, 0; }
#endif
