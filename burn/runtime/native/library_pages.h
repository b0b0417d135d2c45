/* See library_pages.c. */
#ifndef BURN_LIBRARY_PAGES_H
#define BURN_LIBRARY_PAGES_H
#include <stdint.h>

/* Unmaps the resident pages of code and read-only data of the loaded libraries whose paths contain `name`. The next access maps a
 * page again, from the system's cache of the file. Returns the bytes of the address ranges; 0 if the system has no such call. */
int64_t burn_library_release(const char *name);
#endif
