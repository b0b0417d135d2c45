/* See checksum.c. */
#ifndef BURN_CHECKSUM_H
#define BURN_CHECKSUM_H
#include <stddef.h>
#include <stdint.h>

#ifndef BURN_OWN
#define BURN_OWN /* see runtime.h */
#endif

BURN_OWN uint64_t burn_checksum(const void *data, size_t size);
#endif
