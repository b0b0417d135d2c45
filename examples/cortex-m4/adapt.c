/* Adapts the last layer of the digit network on a Cortex-M4: libadapt.a makes the steps, and this program owns the layer. */
#include "adapt.h"
#include "rows.h"
#include "semihosting.h"

enum { EPOCHS = 2 };

static unsigned char arena[ADAPT_ARENA_BYTES] __attribute__((aligned(ADAPT_ARENA_ALIGNMENT)));
static float weight[2][ADAPT_WEIGHT_COUNT], bias[2][ADAPT_BIAS_COUNT]; /* now, and after the step */
static int now;

/* One row. Returns 1 if the network reads it as its label says. The layer changes only if `learns` is 1. */
static int row(int number, int learns) {
    float image[ADAPT_IMAGE_COUNT], logits[ADAPT_LOGITS_COUNT];
    const int64_t label = labels[number];
    int best = 0;
    for (int i = 0; i < ADAPT_IMAGE_COUNT; i++)
        image[i] = images[number][i];
    if (adapt_run(arena, sizeof arena, image, &label, weight[now], bias[now], logits, weight[!now], bias[!now])) {
        print("failed\n");
        leave();
    }
    for (int digit = 1; digit < ADAPT_LOGITS_COUNT; digit++)
        best = logits[digit] > logits[best] ? digit : best;
    now ^= learns;
    return best == labels[number];
}

static void measure(void) {
    int right = 0;
    for (int number = TRAINED; number < ROWS; number++)
        right += row(number, 0);
    print_number(right);
    print(" of ");
    print_number(ROWS - TRAINED);
    print("\n");
}

int main(void) {
    for (int i = 0; i < ADAPT_WEIGHT_COUNT; i++)
        weight[0][i] = first_weight[i];
    for (int i = 0; i < ADAPT_BIAS_COUNT; i++)
        bias[0][i] = first_bias[i];
    measure();
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int number = 0; number < TRAINED; number++)
            row(number, 1);
        measure();
    }
    leave();
    return 0;
}
