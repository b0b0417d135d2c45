/* Decompresses what zip files call method 8 (RFC 1951), into memory of a size that is known. The data is not trusted: nothing is
 * read or written outside of the two buffers, and a code that means nothing ends it. */
#include "npz.h"

#include <string.h>

enum { MOST_BITS = 15, LITERALS = 288, DISTANCES = 30, LENGTHS = 19, END = 256 };

typedef struct stream {
    const unsigned char *in;
    int64_t in_bytes, at;
    unsigned char *out;
    int64_t out_bytes, written;
    uint32_t bits;
    int count; /* of bits at hand */
    int failed;
} stream;

/* Symbols in order of their codes: how many codes there are of each length, then the symbols. */
typedef struct codes {
    uint16_t counts[MOST_BITS + 1];
    uint16_t symbols[LITERALS];
} codes;

static uint32_t take(stream *s, int count) {
    while (s->count < count) {
        if (s->at == s->in_bytes) {
            s->failed = 1;
            return 0;
        }
        s->bits |= (uint32_t)s->in[s->at++] << s->count;
        s->count += 8;
    }
    uint32_t value = s->bits & ((1u << count) - 1);
    s->bits >>= count;
    s->count -= count;
    return value;
}

/* The next symbol; -1 for bits that are no code. Codes of one length are consecutive numbers, the highest bit first. */
static int symbol(stream *s, const codes *c) {
    int code = 0, first = 0, index = 0;
    for (int length = 1; length <= MOST_BITS; length++) {
        code |= (int)take(s, 1);
        if (s->failed)
            return -1;
        int count = c->counts[length];
        if (code - count < first)
            return c->symbols[index + (code - first)];
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    s->failed = 1;
    return -1;
}

/* 0 where the lengths ask for more codes than there are, or for fewer, unless there is but one. */
static int build(codes *c, const uint8_t *lengths, int count) {
    uint16_t offsets[MOST_BITS + 2] = {0};
    memset(c->counts, 0, sizeof c->counts);
    for (int i = 0; i < count; i++)
        c->counts[lengths[i]]++;
    int left = 1, used = count - c->counts[0];
    c->counts[0] = 0;
    for (int length = 1; length <= MOST_BITS; length++) {
        left = (left << 1) - c->counts[length];
        if (left < 0)
            return 0;
        offsets[length + 1] = (uint16_t)(offsets[length] + c->counts[length]);
    }
    for (int i = 0; i < count; i++)
        if (lengths[i])
            c->symbols[offsets[lengths[i]]++] = (uint16_t)i;
    return left == 0 || used <= 1;
}

static void put(stream *s, unsigned char byte) {
    if (s->written == s->out_bytes)
        s->failed = 1;
    else
        s->out[s->written++] = byte;
}

static void stored(stream *s) {
    s->bits = 0;
    s->count = 0;
    if (s->in_bytes - s->at < 4) {
        s->failed = 1;
        return;
    }
    const unsigned char *head = s->in + s->at;
    int64_t length = head[0] | head[1] << 8;
    s->at += 4;
    if ((head[2] | head[3] << 8) != (~length & 0xffff) || length > s->in_bytes - s->at ||
        length > s->out_bytes - s->written) {
        s->failed = 1;
        return;
    }
    if (length)
        memcpy(s->out + s->written, s->in + s->at, (size_t)length);
    s->at += length;
    s->written += length;
}

static void compressed(stream *s, const codes *literals, const codes *distances) {
    static const uint16_t LENGTH[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                      31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t LENGTH_BITS[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t DISTANCE[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    while (!s->failed) {
        int code = symbol(s, literals);
        if (code < 0 || code == END)
            return;
        if (code < END) {
            put(s, (unsigned char)code);
            continue;
        }
        code -= END + 1;
        if (code >= (int)(sizeof LENGTH / sizeof *LENGTH)) {
            s->failed = 1;
            return;
        }
        int64_t length = LENGTH[code] + take(s, LENGTH_BITS[code]);
        int far = symbol(s, distances);
        if (far < 0 || far >= DISTANCES) {
            s->failed = 1;
            return;
        }
        int64_t distance = DISTANCE[far] + take(s, far < 4 ? 0 : far / 2 - 1);
        if (s->failed || distance > s->written || length > s->out_bytes - s->written) {
            s->failed = 1;
            return;
        }
        for (; length; length--, s->written++) /* byte by byte: it may repeat what it writes */
            s->out[s->written] = s->out[s->written - distance];
    }
}

static void fixed(stream *s) {
    uint8_t lengths[LITERALS];
    codes literals, distances;
    for (int i = 0; i < LITERALS; i++)
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    build(&literals, lengths, LITERALS);
    memset(lengths, 5, DISTANCES);
    build(&distances, lengths, DISTANCES);
    compressed(s, &literals, &distances);
}

static void dynamic(stream *s) {
    static const uint8_t ORDER[LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERALS + 32] = {0};
    codes literals, distances;
    int literal_count = (int)take(s, 5) + 257, distance_count = (int)take(s, 5) + 1, length_count = (int)take(s, 4) + 4;
    if (s->failed || literal_count > 286 || distance_count > DISTANCES) {
        s->failed = 1;
        return;
    }
    for (int i = 0; i < length_count; i++)
        lengths[ORDER[i]] = (uint8_t)take(s, 3);
    if (s->failed || !build(&literals, lengths, LENGTHS)) {
        s->failed = 1;
        return;
    }
    codes meta = literals;
    memset(lengths, 0, sizeof lengths);
    for (int i = 0; i < literal_count + distance_count;) {
        int code = symbol(s, &meta), repeat = 1;
        uint8_t length = (uint8_t)code;
        if (code < 0 || (code == 16 && i == 0)) {
            s->failed = 1;
            return;
        }
        if (code >= 16) {
            length = code == 16 ? lengths[i - 1] : 0;
            repeat = code == 16 ? 3 + (int)take(s, 2) : code == 17 ? 3 + (int)take(s, 3) : 11 + (int)take(s, 7);
        }
        if (s->failed || repeat > literal_count + distance_count - i) {
            s->failed = 1;
            return;
        }
        while (repeat--)
            lengths[i++] = length;
    }
    if (!lengths[END] || !build(&literals, lengths, literal_count) ||
        !build(&distances, lengths + literal_count, distance_count)) {
        s->failed = 1;
        return;
    }
    compressed(s, &literals, &distances);
}

int burn_inflate(const unsigned char *in, int64_t in_bytes, unsigned char *out, int64_t out_bytes) {
    stream s = {in, in_bytes, 0, out, out_bytes, 0, 0, 0, 0};
    int last = 0;
    while (!last && !s.failed) {
        last = (int)take(&s, 1);
        switch (take(&s, 2)) {
        case 0:
            if (!s.failed)
                stored(&s);
            break;
        case 1:
            fixed(&s);
            break;
        case 2:
            dynamic(&s);
            break;
        default:
            s.failed = 1;
        }
    }
    return !s.failed && s.written == out_bytes;
}
