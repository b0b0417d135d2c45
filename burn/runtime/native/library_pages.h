/* See library_pages.c. */
#ifndef BURN_LIBRARY_PAGES_H
#define BURN_LIBRARY_PAGES_H
#include <stdint.h>

/* Unmaps the resident pages of code and read-only data of the loaded libraries whose paths contain `name`. The next access maps a
 * page again, from the system's cache of the file. Returns the bytes of the address ranges; 0 if the system has no such call. */
int64_t burn_library_release(const char *name);

/* Until as many calls of `end` as of `begin`, a thread releases these pages whenever enough bytes of files have become resident since
 * its last release. These are `room` bytes, or a byte for each `others` bytes of other resident memory if that is more. A `begin`
 * during another one only counts. Nothing happens if no thread can be started. */
void burn_library_bound_begin(const char *name, int64_t room, int64_t others);
void burn_library_bound_end(void);
#endif
