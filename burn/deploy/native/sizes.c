/* Arithmetic on sizes as generated functions call it: nothing overflows, `//` and `%` round down as the compiler's do. */
#include "model.h"

static int none(int64_t a, int64_t b) { return a == BURN_NO_SIZE || b == BURN_NO_SIZE; }

int64_t burn_size_add(int64_t a, int64_t b) {
    if (none(a, b) || (b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b))
        return BURN_NO_SIZE;
    return a + b;
}

int64_t burn_size_sub(int64_t a, int64_t b) { return none(a, b) ? BURN_NO_SIZE : burn_size_add(a, -b); }

int64_t burn_size_mul(int64_t a, int64_t b) {
    if (none(a, b))
        return BURN_NO_SIZE;
    if (a == 0 || b == 0)
        return 0;
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (x > (uint64_t)INT64_MAX / y)
        return BURN_NO_SIZE;
    return (a < 0) == (b < 0) ? (int64_t)(x * y) : -(int64_t)(x * y);
}

int64_t burn_size_floordiv(int64_t a, int64_t b) {
    if (none(a, b) || b == 0)
        return BURN_NO_SIZE;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t burn_size_mod(int64_t a, int64_t b) {
    if (none(a, b) || b == 0)
        return BURN_NO_SIZE;
    int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t burn_size_min(int64_t a, int64_t b) { return none(a, b) ? BURN_NO_SIZE : a < b ? a : b; }
int64_t burn_size_max(int64_t a, int64_t b) { return none(a, b) ? BURN_NO_SIZE : a > b ? a : b; }
int64_t burn_size_broadcast(int64_t a, int64_t b) { return none(a, b) ? BURN_NO_SIZE : a != 1 ? a : b; }

int64_t burn_model_size(const burn_size *size, const int64_t *symbols) {
    return size->of ? size->of(symbols) : size->number;
}
