/* burn.partial_sort: the elements at the positions [start, start + size) of every sorted row. Rows are selected from, and only
 * what is left is sorted, so that the time is that of a few passes over a row.
 *
 * The first few elements are kept in order while the row is read. Other windows are found by digits, the highest first: elements
 * whose digits lie beside the window are left out. */
#include <string.h>

#include "lib.h"
#include "lib_keys.h"

enum {
    FEW = 48,    /* the most elements that are kept in order; each larger one costs a move of them */
    CHUNK = 256, /* keys at a time */
    BLOCK = 16,  /* keys that are compared without a branch */
    SORTED = 64, /* so many are sorted at once */
    DIGIT = 11   /* bits */
};

/* A row of n elements that lie `step` elements apart. flip: the bits in which keys differ from those of ascending order.
 * Types of at most 4 bytes have short keys, which are signed; `key_at` makes all keys unsigned. */
typedef struct row {
    int64_t dtype, n, step, bytes;
    const char *x;
    uint64_t flip;
    int is_short;
} row;

/* A row's keys of either kind, in the same memory. */
typedef struct keys {
    int32_t *of_short;
    uint64_t *of_long;
} keys;

typedef union chunk {
    int32_t of_short[CHUNK];
    uint64_t of_long[CHUNK];
} chunk;

static inline uint64_t long_key(int32_t key) { return (uint32_t)key ^ (uint32_t)1 << 31; }

static inline uint64_t key_at(const row *r, keys k, int64_t i) {
    return r->is_short ? long_key(k.of_short[i]) : k.of_long[i];
}

static void read_keys(const row *r, int64_t first, int64_t count, keys k) {
    const char *x = r->x + first * r->step * r->bytes;
    if (r->is_short)
        burn_lib_short_keys(r->dtype, x, count, r->step, (int32_t)r->flip, k.of_short);
    else
        burn_lib_keys(r->dtype, x, count, r->step, k.of_long, 1);
    for (int64_t i = 0; i < count && !r->is_short; i++)
        k.of_long[i] ^= r->flip;
}

/* ---- the first elements ------------------------------------------------------------------------------------------ */

#define FIND(keys, last)                                                                                               \
    for (; i + BLOCK <= count; i += BLOCK) {                                                                           \
        int less = 0;                                                                                                  \
        for (int64_t j = 0; j < BLOCK; j++)                                                                            \
            less |= keys[i + j] < (last);                                                                              \
        if (less)                                                                                                      \
            break;                                                                                                     \
    }                                                                                                                  \
    while (i < count && keys[i] >= (last))                                                                             \
        i++;                                                                                                           \
    return i;

/* The first of the keys [i, count) that is less than the last one kept; count if none is. */
static int64_t find_less(const row *r, keys k, int64_t i, int64_t count, uint64_t last) {
    if (r->is_short) {
        int32_t least = (int32_t)((uint32_t)last ^ (uint32_t)1 << 31);
        FIND(k.of_short, least)
    }
    FIND(k.of_long, last)
}

static void select_items(burn_keyed *items, burn_keyed *spare, int64_t count, int bits, int64_t start, int64_t end,
                         burn_keyed *to);

/* Inserts an item behind `count` ordered ones. */
static inline void insert(burn_keyed *kept, int64_t count, uint64_t key, int64_t index) {
    for (; count > 0 && kept[count - 1].key > key; count--)
        kept[count] = kept[count - 1];
    kept[count] = (burn_keyed){key, index};
}

/* The first `size` elements, at least one, in order. */
static void first_few(const row *r, int64_t size, burn_keyed *kept) {
    chunk memory;
    keys k = {memory.of_short, memory.of_long};
    int64_t have = 0;
    for (int64_t first = 0; first < r->n; first += CHUNK) {
        int64_t here = r->n - first < CHUNK ? r->n - first : CHUNK, i = 0;
        read_keys(r, first, here, k);
        for (; i < here && have < size; i++)
            insert(kept, have++, key_at(r, k, i), first + i);
        while (i < here && (i = find_less(r, k, i, here, kept[size - 1].key)) < here) {
            insert(kept, size - 1, key_at(r, k, i), first + i);
            i++;
        }
    }
}

/* The same with others that may be among them behind those that are in order. Both are selected from when there is no more room.
 * items: room for 2 * (2 * size + CHUNK). */
static void first_many(const row *r, int64_t size, burn_keyed *items, burn_keyed *to) {
    chunk memory;
    keys k = {memory.of_short, memory.of_long};
    int64_t have = 0, room = 2 * size + CHUNK;
    int bits = r->is_short ? 32 : 64, bounded = 0;
    for (int64_t first = 0; first < r->n; first += CHUNK) {
        int64_t here = r->n - first < CHUNK ? r->n - first : CHUNK, i = 0;
        if (have > room - CHUNK) {
            select_items(items, items + room, have, bits, 0, size, to);
            memcpy(items, to, (size_t)size * sizeof *to);
            have = size;
            bounded = 1;
        }
        read_keys(r, first, here, k);
        for (; i < here && !bounded; i++)
            items[have++] = (burn_keyed){key_at(r, k, i), first + i};
        while (i < here && (i = find_less(r, k, i, here, to[size - 1].key)) < here) {
            items[have++] = (burn_keyed){key_at(r, k, i), first + i};
            i++;
        }
    }
    select_items(items, items + room, have, bits, 0, size, to);
}

/* ---- any window -------------------------------------------------------------------------------------------------- */

/* The digits at the two ends of a window, and the numbers of items before the first one, of it, between, and of the last. */
typedef struct digits {
    int shift;
    uint64_t mask, low, high;
    int64_t before, of_low, between, of_high;
} digits;

static inline uint64_t digit_of(digits d, uint64_t key) { return key >> d.shift & d.mask; }

#define COUNT(word)                                                                                                    \
    for (int64_t i = 0; i < count; i++)                                                                                \
        counts[digit_of(d, word)]++;

/* The digits for the window [start, end), which is not empty, of items, or of a row's keys. Of keys, `bits` low bits differ. */
static digits ends_of(const burn_keyed *items, const row *r, keys k, int64_t count, int bits, int64_t start, int64_t end) {
    int width = bits < DIGIT ? bits : DIGIT;
    digits d = {.shift = bits - width, .mask = ((uint64_t)1 << width) - 1};
    int64_t counts[1 << DIGIT] = {0}, reached = 0;
    if (items)
        COUNT(items[i].key)
    else if (r->is_short)
        COUNT(long_key(k.of_short[i]))
    else
        COUNT(k.of_long[i])
    while (reached + counts[d.low] <= start)
        reached += counts[d.low++];
    d.before = reached;
    d.high = d.low;
    d.of_low = counts[d.low];
    while (reached + counts[d.high] < end)
        reached += counts[d.high++];
    d.of_high = counts[d.high];
    d.between = d.high > d.low ? reached - d.before - d.of_low : 0;
    return d;
}

static void sorted_window(burn_keyed *items, burn_keyed *spare, int64_t count, int bits, int64_t start, int64_t end,
                          burn_keyed *to) {
    const burn_keyed *sorted = bits ? burn_lib_sort_keyed(items, spare, count, (bits + 7) / 8) : items;
    memcpy(to, sorted + start, (size_t)(end - start) * sizeof *to);
}

/* Writes the items at the positions [start, end) in sorted order, which are not none. The `bits` low bits of keys may differ.
 * `spare` has room for `count` items; both arrays are overwritten. */
static void select_items(burn_keyed *items, burn_keyed *spare, int64_t count, int bits, int64_t start, int64_t end,
                         burn_keyed *to) {
    while (bits && count > SORTED && end - start < count / 2) {
        digits d = ends_of(items, NULL, (keys){0}, count, bits, start, end);
        if (d.low == d.high) {
            int64_t kept = 0;
            for (int64_t i = 0; kept < d.of_low; i++) {
                burn_keyed item = items[i];
                items[kept] = item;
                kept += digit_of(d, item.key) == d.low;
            }
            count = kept;
            start -= d.before;
            end -= d.before;
            bits = d.shift;
            continue;
        }
        burn_keyed *middle = spare + d.of_low, *high = middle + d.between;
        int64_t lows = 0, middles = 0, highs = 0;
        for (int64_t i = 0; i < count; i++) {
            uint64_t digit = digit_of(d, items[i].key);
            if (digit == d.low)
                spare[lows++] = items[i];
            else if (digit == d.high)
                high[highs++] = items[i];
            else if (digit > d.low && digit < d.high)
                middle[middles++] = items[i];
        }
        select_items(spare, items, lows, d.shift, start - d.before, lows, to);
        to += lows - (start - d.before);
        sorted_window(middle, items + lows, middles, bits, 0, middles, to);
        to += middles;
        end -= d.before + lows + middles;
        spare = items + lows + middles;
        items = high;
        count = highs;
        start = 0;
        bits = d.shift;
    }
    sorted_window(items, spare, count, bits, start, end, to);
}

#define KEEP(word)                                                                                                     \
    for (int64_t i = 0; kept < count; i++) {                                                                           \
        items[kept] = (burn_keyed){word, i};                                                                           \
        kept += digit_of(d, items[kept].key) - d.low <= d.high - d.low;                                                \
    }

/* As `select_items`, of a whole row. k: room for n keys; items: for 2 * n. */
static void select_window(const row *r, keys k, burn_keyed *items, int64_t start, int64_t end, burn_keyed *to) {
    uint64_t differ = 0;
    read_keys(r, 0, r->n, k);
    if (r->is_short)
        for (int64_t i = 1; i < r->n; i++)
            differ |= (uint32_t)(k.of_short[i] ^ k.of_short[0]);
    else
        for (int64_t i = 1; i < r->n; i++)
            differ |= k.of_long[i] ^ k.of_long[0];
    int bits = 0;
    for (; differ; differ >>= 1)
        bits++;
    digits d = ends_of(NULL, r, k, r->n, bits, start, end);
    int64_t kept = 0, count = d.low == d.high ? d.of_low : d.of_low + d.between + d.of_high;
    if (r->is_short)
        KEEP(long_key(k.of_short[i]))
    else
        KEEP(k.of_long[i])
    select_items(items, items + r->n, count, d.low == d.high ? d.shift : bits, start - d.before, end - d.before, to);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

enum { ARG_DTYPE, ARG_N, ARG_INNER, ARG_DESCENDING, ARG_START, ARG_SIZE, ARG_X, ARG_VALUES, ARG_INDICES, ARGS };

/* [begin, end) are rows; row r of [outer, n, inner] starts at element (r / inner) * n * inner + r % inner. */
static void partial_sort_rows(burn_worker *worker, const int64_t *args, int64_t begin, int64_t end) {
    int64_t n = args[ARG_N], inner = args[ARG_INNER], start = args[ARG_START], size = args[ARG_SIZE];
    size_t bytes = (size_t)burn_lib_element_bytes(args[ARG_DTYPE]);
    const char *x = (const char *)(uintptr_t)args[ARG_X];
    char *values = (char *)(uintptr_t)args[ARG_VALUES];
    int64_t *indices = (int64_t *)(uintptr_t)args[ARG_INDICES];
    /* A window near the end is one near the start of the reversed row, in reversed order. */
    int reversed = start > n - start - size;
    start = reversed ? n - start - size : start;
    row r = {.dtype = args[ARG_DTYPE], .n = n, .step = reversed ? -inner : inner, .bytes = (int64_t)bytes};
    r.is_short = bytes <= 4;
    if ((args[ARG_DESCENDING] != 0) != reversed)
        r.flip = r.is_short ? (uint32_t)-1 : ~(uint64_t)0;
    int64_t leading = start + size, many = leading <= n / 64, room = many ? 2 * leading + CHUNK : n;
    int64_t items = leading <= FEW ? leading : burn_lib_bytes(room, 2) + leading;
    burn_keyed *found = burn_rt_scratch(worker, burn_lib_bytes(items + (many ? 0 : n / 2 + 1), sizeof *found));
    if (!found)
        return;
    for (int64_t line = begin; line < end; line++) {
        int64_t first = line / inner * n * inner + line % inner, to = line / inner * size * inner + line % inner;
        r.x = x + (size_t)(reversed ? first + (n - 1) * inner : first) * bytes;
        const burn_keyed *window = leading <= FEW || many ? found + start : found;
        if (leading <= FEW)
            first_few(&r, leading, found);
        else if (many)
            first_many(&r, leading, found + leading, found);
        else
            select_window(&r, (keys){(void *)(found + items), (void *)(found + items)}, found + leading, start, leading, found);
        for (int64_t i = 0; i < size; i++) {
            int64_t index = window[reversed ? size - 1 - i : i].index;
            index = reversed ? n - 1 - index : index;
            indices[to + i * inner] = index;
            memcpy(values + (size_t)(to + i * inner) * bytes, x + (size_t)(first + index * inner) * bytes, bytes);
        }
    }
}

int32_t burn_lib_partial_sort(burn_run *run, int64_t dtype, int64_t outer, int64_t n, int64_t inner, int64_t descending,
                              int64_t start, int64_t size, const void *x, void *values, int64_t *indices) {
    enum { WORTH_A_THREAD = 8192 }; /* elements */
    if (size <= 0)
        return burn_rt_status(run);
    int64_t args[ARGS] = {
        [ARG_DTYPE] = dtype, [ARG_N] = n, [ARG_INNER] = inner, [ARG_DESCENDING] = descending,
        [ARG_START] = start, [ARG_SIZE] = size, [ARG_X] = (int64_t)(uintptr_t)x,
        [ARG_VALUES] = (int64_t)(uintptr_t)values, [ARG_INDICES] = (int64_t)(uintptr_t)indices,
    };
    return burn_rt_launch(run, 0, partial_sort_rows, args, outer * inner, n < WORTH_A_THREAD ? WORTH_A_THREAD / n : 1);
}
