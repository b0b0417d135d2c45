/* A checksum that notices damaged bytes at the speed of memory; not a defence against an author. Eight sums take a word each
   in turn, are multiplied by an odd number (so that no change of one word is lost) and joined in the end. */
#include "checksum.h"

#include <string.h>

enum { LANES = 8 };
static const uint64_t FACTOR = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t mixed(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * FACTOR;
    return sum ^ (sum >> 29);
}

uint64_t burn_checksum(const void *data, size_t size) {
    const unsigned char *at = data;
    uint64_t sums[LANES], words[LANES], word;
    for (int lane = 0; lane < LANES; lane++)
        sums[lane] = FACTOR * (uint64_t)(lane + 1);
    size_t rest = size;
    for (; rest >= sizeof words; rest -= sizeof words)
        for (int lane = 0; lane < LANES; lane++, at += sizeof word) {
            memcpy(&word, at, sizeof word);
            sums[lane] = mixed(sums[lane], word);
        }
    memset(words, 0, sizeof words);
    if (rest)
        memcpy(words, at, rest);
    uint64_t total = size;
    for (int lane = 0; lane < LANES; lane++)
        total = mixed(total, mixed(sums[lane], words[lane]));
    return total;
}
