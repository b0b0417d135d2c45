/* Operators on strings. An element is a word (heap.h): equal strings have equal words, and 0 is the empty string. */
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "lib.h"
#include "lib_keys.h"

/* The word of a string made in this run; 0 where memory is exhausted, and the run has failed then. */
static int64_t made(burn_run *run, const char *data, int64_t bytes) {
    int64_t word;
    if (!burn_text_intern(burn_run_texts(run), (burn_span){data, bytes}, &word))
        burn_rt_fail(run, BURN_OUT_OF_MEMORY, -1, bytes);
    return word;
}

/* ---- code points ------------------------------------------------------------------------------------------------- */

enum { STRAY = 0x110000 }; /* a byte that is no part of a code point is STRAY + the byte */

/* The code point at `at`, which moves behind it. */
static uint32_t next_point(burn_span text, int64_t *at) {
    const unsigned char *s = (const unsigned char *)text.data + *at;
    int64_t left = text.bytes - *at;
    int length = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : (s[0] & 0xF8) == 0xF0 ? 4 : 0;
    if (length == 1 || !length || length > left) {
        *at += 1;
        return length == 1 ? s[0] : STRAY + s[0];
    }
    uint32_t point = s[0] & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            *at += 1;
            return STRAY + s[0];
        }
        point = point << 6 | (s[i] & 0x3F);
    }
    *at += length;
    return point;
}

static char *put_point(char *to, uint32_t point) {
    if (point >= STRAY)
        *to++ = (char)(point - STRAY);
    else if (point < 0x80)
        *to++ = (char)point;
    else {
        int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
        *to++ = (char)((0xFF00 >> (more + 1) & 0xFF) | point >> (6 * more));
        while (more--)
            *to++ = (char)(0x80 | (point >> (6 * more) & 0x3F));
    }
    return to;
}

/* ---- joining, letter case ---------------------------------------------------------------------------------------- */

int32_t burn_lib_text_concat(burn_run *run, int64_t count, const int64_t *a, const int64_t *b, int64_t *joined) {
    char *room = NULL;
    for (int64_t i = 0; i < count; i++) {
        burn_span first = burn_text_span(a[i]), second = burn_text_span(b[i]);
        room = burn_rt_grow(run, room, first.bytes + second.bytes);
        if (!room)
            break;
        memcpy(room, first.data, (size_t)first.bytes);
        memcpy(room + first.bytes, second.data, (size_t)second.bytes);
        joined[i] = made(run, room, first.bytes + second.bytes);
    }
    burn_rt_free(run, room);
    return burn_rt_status(run);
}

/* `table` has `rows` of four, sorted by the first: a code point and what it becomes, up to three others, 0 for none. */
int32_t burn_lib_text_case(burn_run *run, int64_t count, const int64_t *x, int64_t rows, const int32_t *table,
                        int64_t *changed) {
    char *room = NULL;
    for (int64_t i = 0; i < count; i++) {
        burn_span text = burn_text_span(x[i]);
        room = burn_rt_grow(run, room, burn_lib_bytes(text.bytes, 12)); /* three of four bytes each */
        if (!room)
            break;
        char *to = room;
        for (int64_t at = 0; at < text.bytes;) {
            uint32_t point = next_point(text, &at);
            int64_t low = 0, high = rows;
            while (low < high) {
                int64_t middle = (low + high) / 2;
                if ((uint32_t)table[4 * middle] < point)
                    low = middle + 1;
                else
                    high = middle;
            }
            if (low == rows || (uint32_t)table[4 * low] != point)
                to = put_point(to, point);
            else
                for (int k = 1; k < 4 && table[4 * low + k]; k++)
                    to = put_point(to, (uint32_t)table[4 * low + k]);
        }
        changed[i] = made(run, room, to - room);
    }
    burn_rt_free(run, room);
    return burn_rt_status(run);
}

/* ---- splitting --------------------------------------------------------------------------------------------------- */

static int is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static int64_t skip_spaces(burn_span text, int64_t at) {
    while (at < text.bytes) {
        int64_t next = at;
        if (!is_space(next_point(text, &next)))
            break;
        at = next;
    }
    return at;
}

/* The next piece of a text from `*at` on, with at most `splits` more; false at the end. `*at` is -1 behind the last. */
static int next_piece(burn_span text, burn_span delimiter, int64_t splits, int64_t *at, burn_span *piece) {
    if (*at < 0)
        return 0;
    int64_t start = *at, end;
    if (!delimiter.bytes) { /* runs of white space, none at the ends */
        start = end = skip_spaces(text, start);
        if (start == text.bytes)
            return 0;
        while (splits && end < text.bytes) {
            int64_t next = end;
            if (is_space(next_point(text, &next)))
                break;
            end = next;
        }
        end = splits ? end : text.bytes;
        *at = end;
    } else {
        const char *found = NULL;
        for (end = start; splits && !found && end + delimiter.bytes <= text.bytes; end++)
            if (memcmp(text.data + end, delimiter.data, (size_t)delimiter.bytes) == 0)
                found = text.data + end;
        end = found ? found - text.data : text.bytes;
        *at = found ? end + delimiter.bytes : -1;
    }
    *piece = (burn_span){text.data + start, end - start};
    return 1;
}

/* The pieces of each text, filled up with empty strings to the length of the longest row, which is returned. */
int64_t burn_lib_text_split(burn_run *run, int64_t count, int64_t most, const int64_t *x, const int64_t *delimiter,
                            int64_t *counts, int64_t **pieces) {
    burn_span piece, between = burn_text_span(*delimiter);
    int64_t width = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t splits = most < 0 ? INT64_MAX : most;
        counts[i] = 0;
        for (int64_t at = 0; next_piece(burn_text_span(x[i]), between, splits, &at, &piece); splits--)
            counts[i]++;
        width = counts[i] > width ? counts[i] : width;
    }
    *pieces = burn_rt_alloc(run, burn_lib_bytes(burn_lib_bytes(count, width), sizeof(int64_t)));
    if (!*pieces)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t *row = *pieces + i * width, splits = most < 0 ? INT64_MAX : most, at = 0;
        for (int64_t k = 0; k < width; k++, splits--)
            row[k] = next_piece(burn_text_span(x[i]), between, splits, &at, &piece) ? made(run, piece.data, piece.bytes) : 0;
    }
    return burn_run_failed(run) ? -1 : width;
}

/* ---- searching, ordering ----------------------------------------------------------------------------------------- */

/* For each word the index of the first equal key, or -1. */
int32_t burn_lib_text_find(burn_run *run, int64_t count, const int64_t *x, int64_t key_count, const int64_t *keys,
                        int64_t *indices) {
    int64_t size = 16;
    while (size < 2 * key_count)
        size *= 2;
    int64_t *slots = burn_rt_alloc(run, burn_lib_bytes(size, sizeof *slots)); /* an index + 1, or 0 */
    if (!slots)
        return burn_rt_status(run);
    memset(slots, 0, (size_t)size * sizeof *slots);
    for (int64_t pass = 0; pass < 2; pass++) {
        const int64_t *words = pass ? x : keys;
        for (int64_t i = 0; i < (pass ? count : key_count); i++) {
            uint64_t at = (uint64_t)words[i] * 0x9E3779B97F4A7C15 >> 20 & (uint64_t)(size - 1);
            while (slots[at] && keys[slots[at] - 1] != words[i])
                at = (at + 1) & (uint64_t)(size - 1);
            if (pass)
                indices[i] = slots[at] - 1;
            else if (!slots[at])
                slots[at] = i + 1;
        }
    }
    burn_rt_free(run, slots);
    return burn_rt_status(run);
}

static int before(int64_t a, int64_t b) {
    burn_span x = burn_text_span(a), y = burn_text_span(b);
    int order = memcmp(x.data, y.data, (size_t)(x.bytes < y.bytes ? x.bytes : y.bytes));
    return order ? order < 0 : x.bytes < y.bytes;
}

static int compare_words(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return before(x, y) ? -1 : before(y, x);
}

/* Each element's rank in byte order, which is the order of code points; equal elements share a rank. */
int32_t burn_lib_text_rank(burn_run *run, int64_t count, const int64_t *x, int64_t *ranks) {
    int64_t bytes = burn_lib_bytes(count, sizeof(int64_t));
    int64_t *sorted = burn_rt_alloc(run, bytes);
    if (!sorted)
        return burn_rt_status(run);
    memcpy(sorted, x, (size_t)bytes);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_words);
    for (int64_t i = 0; i < count; i++) {
        int64_t low = 0, high = count;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (before(sorted[middle], x[i]))
                low = middle + 1;
            else
                high = middle;
        }
        ranks[i] = low;
    }
    burn_rt_free(run, sorted);
    return burn_rt_status(run);
}

/* ---- regular expressions ----------------------------------------------------------------------------------------- */

/* A compiled expression (burn/dialect/regex.py): instructions of three words, for a set of states that is walked with the
 * text. So the time is that of the text's length times the program's. */
enum { MATCH, RANGE, SPLIT, JUMP, ASSERT, CLASS, ANTICLASS };
enum { TEXT_START, TEXT_END, LINE_START, LINE_END, WORD_EDGE, NO_WORD_EDGE };

typedef struct states {
    int64_t *at, count;
} states;

static int is_word(uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static int holds(int64_t what, uint32_t previous, uint32_t next, int first, int last) {
    switch (what) {
    case TEXT_START:
        return first;
    case TEXT_END:
        return last;
    case LINE_START:
        return first || previous == '\n';
    case LINE_END:
        return last || next == '\n';
    default:
        return ((!first && is_word(previous)) != (!last && is_word(next))) == (what == WORD_EDGE);
    }
}

/* True if a state accepts a code point. A class is followed by `a` ranges. */
static int takes(const int64_t *code, uint32_t point) {
    if (code[0] == RANGE)
        return point >= code[1] && point <= code[2];
    for (int64_t i = 1; i <= code[1]; i++)
        if (point >= code[3 * i + 1] && point <= code[3 * i + 2])
            return code[0] == CLASS;
    return code[0] == ANTICLASS;
}

/* A state is on the stack at most once a step, so that there is room. */
static int64_t push(int64_t *stack, int64_t depth, int64_t *seen, int64_t step, int64_t state) {
    if (seen[state] != step)
        stack[depth++] = state;
    seen[state] = step;
    return depth;
}

int32_t burn_lib_text_match(burn_run *run, int64_t count, const int64_t *x, int64_t words, const int64_t *code,
                         uint8_t *matches) {
    int64_t size = words / 3, bytes = burn_lib_bytes(size, sizeof(int64_t)), step = 0;
    int64_t *memory = burn_rt_alloc(run, burn_lib_bytes(bytes, 4));
    if (!memory)
        return burn_rt_status(run);
    int64_t *stack = memory + 2 * size, *seen = memory + 3 * size; /* the last step at which a state was on the stack */
    memset(seen, 0, (size_t)bytes);
    for (int64_t i = 0; i < count; i++) {
        burn_span text = burn_text_span(x[i]);
        states here = {memory, 1}, then = {memory + size, 0};
        int64_t at = 0;
        uint32_t previous = 0;
        int matched = 0;
        for (here.at[0] = 0;;) {
            int64_t next = at, depth = 0;
            int last = at == text.bytes;
            uint32_t point = last ? 0 : next_point(text, &next);
            step++;
            matched = 0;
            then.count = 0;
            for (int64_t k = 0; k < here.count; k++) { /* what each state leads to without a code point, then with it */
                depth = push(stack, depth, seen, step, here.at[k]);
                while (depth) {
                    int64_t state = stack[--depth];
                    const int64_t *c = code + 3 * state;
                    if (c[0] == MATCH)
                        matched = last;
                    else if (c[0] == JUMP || c[0] == SPLIT) {
                        depth = push(stack, depth, seen, step, c[1]);
                        if (c[0] == SPLIT)
                            depth = push(stack, depth, seen, step, c[2]);
                    } else if (c[0] == ASSERT) {
                        if (holds(c[1], previous, point, at == 0, last))
                            depth = push(stack, depth, seen, step, state + 1);
                    } else if (!last && takes(c, point))
                        then.at[then.count++] = state + (c[0] == RANGE ? 1 : 1 + c[1]);
                }
            }
            states swapped = here;
            here = then;
            then = swapped;
            if (last || !here.count)
                break;
            at = next;
            previous = point;
        }
        matches[i] = (uint8_t)matched;
    }
    burn_rt_free(run, memory);
    return burn_rt_status(run);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------- */

/* State of the search for tokens: the program and memory for its states. */
typedef struct search {
    const int64_t *code;
    int64_t *here, *then, *stack, *seen, step;
} search;

/* The end of the longest part that matches from `start` on, or -1. */
static int64_t match_end(search *s, burn_span text, int64_t start, uint32_t previous) {
    int64_t count = 1, at = start, end = -1;
    s->here[0] = 0;
    for (;;) {
        int64_t next = at, ahead = 0;
        int last = at == text.bytes;
        uint32_t point = last ? 0 : next_point(text, &next);
        s->step++;
        for (int64_t k = 0; k < count; k++) {
            int64_t depth = push(s->stack, 0, s->seen, s->step, s->here[k]);
            while (depth) {
                int64_t state = s->stack[--depth];
                const int64_t *c = s->code + 3 * state;
                if (c[0] == MATCH)
                    end = at;
                else if (c[0] == JUMP || c[0] == SPLIT) {
                    depth = push(s->stack, depth, s->seen, s->step, c[1]);
                    if (c[0] == SPLIT)
                        depth = push(s->stack, depth, s->seen, s->step, c[2]);
                } else if (c[0] == ASSERT) {
                    if (holds(c[1], previous, point, at == 0, last))
                        depth = push(s->stack, depth, s->seen, s->step, state + 1);
                } else if (!last && takes(c, point))
                    s->then[ahead++] = state + (c[0] == RANGE ? 1 : 1 + c[1]);
            }
        }
        if (last || !ahead)
            return end;
        int64_t *swapped = s->here;
        s->here = s->then;
        s->then = swapped;
        count = ahead;
        at = next;
        previous = point;
    }
}

static int64_t points_of(burn_span text) {
    int64_t count = 0;
    for (int64_t at = 0; at < text.bytes; count++)
        next_point(text, &at);
    return count;
}

/* Finds the tokens of a text, stores the first `room` of them, and returns their number. */
static int64_t tokens_of(burn_run *run, search *s, burn_span text, int64_t least, int64_t between, int64_t *row, int64_t room) {
    int64_t found = 0, at = 0, behind = 0; /* where a match may begin, and where the last one ended */
    uint32_t previous = 0;
    while (at <= text.bytes) {
        int64_t end = match_end(s, text, at, previous), next = at;
        int is_last = at == text.bytes;
        uint32_t point = is_last ? 0 : next_point(text, &next);
        burn_span token = {text.data + (between ? behind : at), between ? at - behind : end - at};
        if (end > at || (between && is_last)) {
            if (points_of(token) >= least) {
                if (found < room)
                    row[found] = made(run, token.data, token.bytes);
                found++;
            }
            behind = end;
        }
        if (end > at) { /* what comes before the next match is the last of this one */
            for (next = at; next < end;)
                point = next_point(text, &next);
        } else
            next = is_last ? text.bytes + 1 : next;
        previous = point;
        at = next;
    }
    return found;
}

/* The tokens of each text, filled up with empty strings to the length of the longest row, which is returned. */
int64_t burn_lib_text_tokens(burn_run *run, int64_t count, int64_t least, int64_t between, int64_t words, const int64_t *x,
                             const int64_t *code, int64_t *counts, int64_t **tokens) {
    int64_t size = words / 3, width = 0;
    int64_t *memory = burn_rt_alloc(run, burn_lib_bytes(burn_lib_bytes(size, 4), sizeof(int64_t)));
    if (!memory)
        return -1;
    search s = {code, memory, memory + size, memory + 2 * size, memory + 3 * size, 0};
    memset(s.seen, 0, (size_t)size * sizeof *s.seen);
    for (int64_t i = 0; i < count; i++) {
        counts[i] = tokens_of(run, &s, burn_text_span(x[i]), least, between, NULL, 0);
        width = counts[i] > width ? counts[i] : width;
    }
    *tokens = burn_rt_alloc(run, burn_lib_bytes(burn_lib_bytes(count, width), sizeof(int64_t)));
    for (int64_t i = 0; *tokens && i < count; i++) {
        memset(*tokens + i * width, 0, (size_t)width * sizeof **tokens);
        tokens_of(run, &s, burn_text_span(x[i]), least, between, *tokens + i * width, width);
    }
    burn_rt_free(run, memory);
    return *tokens && !burn_run_failed(run) ? width : -1;
}
