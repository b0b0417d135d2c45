/* Reads a digit on a Cortex-M4: libdigits.a computes, the arena is all the memory it works in. */
#include "digits.h"
#include "semihosting.h"

static unsigned char arena[DIGITS_ARENA_BYTES] __attribute__((aligned(DIGITS_ARENA_ALIGNMENT)));

/* A seven, as the data set has it: 0 to 16 for each square. */
static const float image[DIGITS_IMAGE_COUNT] = {
    0, 0, 2,  13, 16, 9,  0, 0, /**/ 0, 0, 12, 12, 7,  16, 3, 0, /**/ 0, 1, 14, 3,  0, 16, 4, 0, /**/ 0, 0, 0, 4,  10, 16, 6, 0,
    0, 0, 0,  13, 16, 16, 9, 0, /**/ 0, 0, 0,  5,  13, 1,  0, 0, /**/ 0, 0, 0,  11, 9, 0,  0, 0, /**/ 0, 0, 1, 16, 4,  0,  0, 0,
};

int main(void) {
    float logits[DIGITS_LOGITS_COUNT];
    int32_t failed = digits_run(arena, sizeof arena, image, logits);
    int best = 0;
    for (int digit = 1; digit < DIGITS_LOGITS_COUNT; digit++)
        best = logits[digit] > logits[best] ? digit : best;
    if (failed) {
        print("failed: ");
        print_number(failed);
    } else {
        print("it is a ");
        print_number(best);
    }
    print("\n");
    leave();
    return 0;
}
