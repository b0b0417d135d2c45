/* See checksum.c. */
#ifndef BURN_CHECKSUM_H
#define BURN_CHECKSUM_H
#include <stddef.h>
#include <stdint.h>

uint64_t burn_checksum(const void *data, size_t size);
#endif
