/* The order of rows in an epoch: that of burn/data/order.py. */
#include <stdlib.h>

#include "train_command.h"

static const uint64_t GOLDEN = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static int by_word(const void *a, const void *b) {
    const burn_ranked *left = a, *right = b;
    if (left->word != right->word)
        return left->word < right->word ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

void burn_order_rows(burn_ranked *order, int64_t rows, const burn_train_options *o, int64_t epoch) {
    uint64_t state = mixed(mixed(o->seed + GOLDEN) + (uint64_t)epoch + GOLDEN);
    for (int64_t i = 0; i < rows; i++)
        order[i] = (burn_ranked){o->keeps_order ? 0 : mixed((uint64_t)(i + 1) * GOLDEN + state), i};
    qsort(order, (size_t)rows, sizeof *order, by_word);
}
