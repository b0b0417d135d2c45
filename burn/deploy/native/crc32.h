/* The checksum of zip files and of checkpoints. */
#ifndef BURN_CRC32_H
#define BURN_CRC32_H

#include <stdint.h>

uint32_t burn_crc32(uint32_t crc, const void *data, int64_t bytes); /* continues a checksum; start with 0 */

#endif
