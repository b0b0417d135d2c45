/* numpy's files. Input is not trusted: every size and offset is checked before use.
 *
 * A .npz is a zip file (PKWARE's APPNOTE.TXT 6.3) whose members are .npy files (numpy's NEP 1), stored or deflated; with the
 * 64-bit fields that numpy writes. Not read: encrypted members, several disks, columns first, big-endian numbers.
 */
#include "npz.h"

#include "crc32.h"

#include <stdlib.h>
#include <string.h>

enum { ERROR_BYTES = 256, END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56, ENTRY_BYTES = 46, LOCAL_BYTES = 30 };
enum { MOST_COMMENT = 65535, STORED = 0, DEFLATED = 8, MOST_RATIO = 1040 }; /* deflate's best is 1032 to 1 */

static int refuse(char *error, const char *why) {
    snprintf(error, ERROR_BYTES, "%s", why);
    return 0;
}

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static int within(uint64_t offset, uint64_t size, int64_t limit) {
    return offset <= (uint64_t)limit && size <= (uint64_t)limit - offset;
}

/* ---- .npy -------------------------------------------------------------------------------------------------------- */

typedef struct text {
    const char *at, *end;
} text;

static void skip(text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t'))
        t->at++;
}

static int accept(text *t, char c) {
    skip(t);
    if (t->at == t->end || *t->at != c)
        return 0;
    t->at++;
    return 1;
}

/* A quoted word without escapes, into `word` of 32 bytes. */
static int quoted(text *t, char *word) {
    skip(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return 0;
    char quote = *t->at++;
    int length = 0;
    while (t->at < t->end && *t->at != quote && length < 31)
        word[length++] = *t->at++;
    word[length] = 0;
    return t->at < t->end && *t->at++ == quote;
}

static int word(text *t, const char *wanted) {
    size_t length = strlen(wanted);
    skip(t);
    if ((size_t)(t->end - t->at) < length || memcmp(t->at, wanted, length) != 0)
        return 0;
    t->at += length;
    return 1;
}

static int digits(text *t, int64_t *value) {
    skip(t);
    if (t->at == t->end || *t->at < '0' || *t->at > '9')
        return 0;
    for (*value = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        if (*value > (INT64_MAX - 9) / 10)
            return 0;
        *value = *value * 10 + (*t->at - '0');
    }
    return 1;
}

static int shape(text *t, burn_array *array) {
    if (!accept(t, '('))
        return 0;
    for (array->rank = 0; !accept(t, ')'); array->rank++) {
        if (array->rank == BURN_TENSOR_RANK || !digits(t, &array->dims[array->rank]))
            return 0;
        if (!accept(t, ',')) {
            array->rank++;
            return accept(t, ')');
        }
    }
    return 1;
}

/* "<f4": kind and size of an element. */
static int described(const char *descr, burn_array *array, char *error) {
    if (*descr == '>')
        return refuse(error, "its numbers are big-endian");
    if (*descr == '<' || *descr == '|' || *descr == '=')
        descr++;
    char *end = NULL;
    long item = *descr ? strtol(descr + 1, &end, 10) : 0;
    if (!end || *end || !strchr("fiubcV", *descr) || item < 1 || item > 16)
        return refuse(error, "its elements are of a type that is not read");
    array->kind = *descr;
    array->item = (int)item;
    return 1;
}

static int header(text t, burn_array *array, char *error) {
    static const char malformed[] = "the header of the array is malformed";
    char key[32], descr[32] = "";
    int columns_first = 0, seen = 0;
    if (!accept(&t, '{'))
        return refuse(error, malformed);
    while (!accept(&t, '}')) {
        if (!quoted(&t, key) || !accept(&t, ':'))
            return refuse(error, malformed);
        int ok;
        if (strcmp(key, "descr") == 0) {
            ok = quoted(&t, descr);
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            columns_first = word(&t, "True");
            ok = columns_first || word(&t, "False");
            seen |= 2;
        } else {
            ok = strcmp(key, "shape") == 0 && shape(&t, array);
            seen |= 4;
        }
        if (!ok)
            return refuse(error, strcmp(key, "descr") == 0 ? "its elements are of a type that is not read" : malformed);
        if (!accept(&t, ',')) {
            if (!accept(&t, '}'))
                return refuse(error, malformed);
            break;
        }
    }
    if (seen != 7)
        return refuse(error, malformed);
    if (columns_first && array->rank > 1)
        return refuse(error, "its columns come first (numpy.ascontiguousarray turns it)");
    return described(descr, array, error);
}

int burn_npy_read(const unsigned char *file, int64_t bytes, burn_array *array, char *error) {
    if (bytes < 10 || memcmp(file, "\x93NUMPY", 6) != 0)
        return refuse(error, "it is no .npy file");
    int long_form = file[6] >= 2;
    if (file[6] < 1 || file[6] > 3 || (long_form && bytes < 12))
        return refuse(error, "it is a .npy file of an unknown version");
    uint64_t begin = long_form ? 12 : 10, length = number(file + 8, long_form ? 4 : 2);
    if (!within(begin, length, bytes))
        return refuse(error, "its header reaches beyond its end");
    const char *at = (const char *)file + begin;
    if (!header((text){at, at + length}, array, error))
        return 0;
    int64_t total = array->item, empty = 0;
    for (int axis = 0; axis < array->rank; axis++) {
        if (array->dims[axis] == 0)
            empty = 1;
        else if (total > INT64_MAX / array->dims[axis])
            return refuse(error, "its sizes multiply to more than 64 bits hold");
        else
            total *= array->dims[axis];
    }
    array->data = file + begin + length;
    array->bytes = empty ? 0 : total;
    if (array->bytes != bytes - (int64_t)(begin + length))
        return refuse(error, "its bytes are not as many as its shape asks for");
    return 1;
}

int burn_npy_header(char *out, char kind, int item, int rank, const int64_t *dims) {
    char order = item == 1 ? '|' : '<', shape_text[400] = "";
    size_t used = 0;
    for (int axis = 0; axis < rank; axis++)
        used += (size_t)snprintf(shape_text + used, sizeof shape_text - used, "%lld%s", (long long)dims[axis],
                                 rank == 1 || axis + 1 < rank ? ", " : "");
    if (rank == 1)
        shape_text[used - 1] = 0; /* "(3,)" */
    int length = snprintf(out + 10, 500, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }", order, kind, item,
                          shape_text);
    int whole = (10 + length + 1 + 63) / 64 * 64;
    memset(out + 10 + length, ' ', (size_t)(whole - 10 - length - 1));
    out[whole - 1] = '\n';
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)((whole - 10) & 255);
    out[9] = (char)((whole - 10) >> 8);
    return whole;
}

void burn_array_free(burn_array *array) {
    free(array->owned);
    array->owned = NULL;
}

/* ---- zip files --------------------------------------------------------------------------------------------------- */

typedef struct directory {
    uint64_t at, bytes, entries;
} directory;

static int find_directory(const unsigned char *file, int64_t bytes, directory *found) {
    for (int64_t at = bytes - END_BYTES; at >= 0 && at >= bytes - END_BYTES - MOST_COMMENT; at--) {
        const unsigned char *end = file + at;
        if (memcmp(end, "PK\5\6", 4) != 0 || number(end + 20, 2) != (uint64_t)(bytes - at - END_BYTES))
            continue;
        *found = (directory){number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
        if (found->at == 0xffffffff || found->bytes == 0xffffffff || found->entries == 0xffff) {
            const unsigned char *locator = end - LOCATOR_BYTES;
            if (at < LOCATOR_BYTES || memcmp(locator, "PK\6\7", 4) != 0)
                return 0;
            uint64_t long_at = number(locator + 8, 8);
            if (!within(long_at, END64_BYTES, bytes) || memcmp(file + long_at, "PK\6\6", 4) != 0)
                return 0;
            const unsigned char *long_end = file + long_at;
            *found = (directory){number(long_end + 48, 8), number(long_end + 40, 8), number(long_end + 32, 8)};
        }
        return within(found->at, found->bytes, bytes);
    }
    return 0;
}

typedef struct member {
    int method, encrypted;
    uint32_t crc;
    uint64_t packed, size, at;
} member;

/* The 64-bit fields of an entry: those whose 32 bits are all ones, in a fixed order. */
static int long_fields(const unsigned char *extra, uint64_t bytes, member *m) {
    uint64_t *fields[] = {&m->size, &m->packed, &m->at};
    for (uint64_t at = 0; at + 4 <= bytes;) {
        uint64_t id = number(extra + at, 2), size = number(extra + at + 2, 2), used = 0;
        at += 4;
        if (size > bytes - at)
            return 0;
        for (int i = 0; id == 1 && i < 3; i++) {
            if (*fields[i] != 0xffffffff)
                continue;
            if (size - used < 8)
                return 0;
            *fields[i] = number(extra + at + used, 8);
            used += 8;
        }
        at += size;
    }
    return 1;
}

/* A member's bytes, unpacked. */
static int unpack(const unsigned char *file, int64_t bytes, const member *m, burn_array *array, const unsigned char **data,
                  char *error) {
    if (m->encrypted)
        return refuse(error, "it is encrypted");
    if (!within(m->at, LOCAL_BYTES, bytes) || memcmp(file + m->at, "PK\3\4", 4) != 0)
        return refuse(error, "the zip file is malformed");
    uint64_t at = m->at + LOCAL_BYTES + number(file + m->at + 26, 2) + number(file + m->at + 28, 2);
    if (!within(at, m->packed, bytes))
        return refuse(error, "the zip file ends in the middle of it");
    if (m->method == STORED && m->packed == m->size)
        *data = file + at;
    else if (m->method == DEFLATED) {
        if (m->size > m->packed * MOST_RATIO)
            return refuse(error, "it claims to be larger than it can be");
        array->owned = malloc(m->size ? m->size : 1);
        if (!array->owned)
            return refuse(error, "out of memory");
        if (!burn_inflate(file + at, (int64_t)m->packed, array->owned, (int64_t)m->size))
            return refuse(error, "its compressed data is damaged");
        *data = array->owned;
    } else
        return refuse(error, "it is compressed in a way that is not read (numpy.savez and savez_compressed are)");
    if (burn_crc32(0, *data, (int64_t)m->size) != m->crc)
        return refuse(error, "its checksum is wrong");
    return 1;
}

static int is_named(const unsigned char *name, uint64_t bytes, const char *wanted) {
    size_t length = strlen(wanted);
    return bytes == length + 4 && memcmp(name, wanted, length) == 0 && memcmp(name + length, ".npy", 4) == 0;
}

int burn_npz_read(const unsigned char *file, int64_t bytes, const char *name, burn_array *array, char *error) {
    directory found;
    if (!find_directory(file, bytes, &found))
        return refuse(error, "the zip file is malformed or cut off");
    const unsigned char *entry = file + found.at, *end = entry + found.bytes;
    for (uint64_t i = 0; i < found.entries; i++) {
        if (end - entry < ENTRY_BYTES || memcmp(entry, "PK\1\2", 4) != 0)
            return refuse(error, "the zip file's directory is malformed");
        uint64_t names = number(entry + 28, 2), extra = number(entry + 30, 2), comment = number(entry + 32, 2);
        if ((uint64_t)(end - entry) < ENTRY_BYTES + names + extra + comment)
            return refuse(error, "the zip file's directory is malformed");
        if (!name || is_named(entry + ENTRY_BYTES, names, name)) {
            member m = {(int)number(entry + 10, 2), entry[8] & 1, (uint32_t)number(entry + 16, 4),
                        number(entry + 20, 4), number(entry + 24, 4), number(entry + 42, 4)};
            if (!long_fields(entry + ENTRY_BYTES + names, extra, &m) || m.size > INT64_MAX || m.packed > INT64_MAX / MOST_RATIO)
                return refuse(error, "the zip file's directory is malformed");
            const unsigned char *data = NULL;
            *array = (burn_array){0};
            if (unpack(file, bytes, &m, array, &data, error) && burn_npy_read(data, (int64_t)m.size, array, error))
                return 1;
            burn_array_free(array);
            return 0;
        }
        entry += ENTRY_BYTES + names + extra + comment;
    }
    return -1;
}

void burn_npz_names(const unsigned char *file, int64_t bytes, char *text, size_t size) {
    directory found;
    *text = 0;
    if (!find_directory(file, bytes, &found))
        return;
    const unsigned char *entry = file + found.at, *end = entry + found.bytes;
    for (size_t used = 0; end - entry >= ENTRY_BYTES && used < size;) {
        uint64_t names = number(entry + 28, 2), behind = number(entry + 30, 2) + number(entry + 32, 2);
        if ((uint64_t)(end - entry) < ENTRY_BYTES + names + behind)
            return;
        const char *name = (const char *)entry + ENTRY_BYTES;
        int is_npy = names > 4 && memcmp(name + names - 4, ".npy", 4) == 0;
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)names - 4 * is_npy, name);
        entry += ENTRY_BYTES + names + behind;
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void store(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* The 26 bytes from the version on that a local header and a directory entry share. Long sizes are in an extra
 * field; the date is zip's first day, so that equal arrays make equal files. */
static void common(unsigned char *at, uint32_t crc, uint64_t names, uint64_t extra) {
    store(at, 45, 2);
    store(at + 2, 0x800, 2); /* names in UTF-8 */
    store(at + 4, STORED, 2);
    store(at + 6, 0, 2);
    store(at + 8, 0x21, 2);
    store(at + 10, crc, 4);
    store(at + 14, 0xffffffff, 4);
    store(at + 18, 0xffffffff, 4);
    store(at + 22, names, 2);
    store(at + 24, extra, 2);
}

int burn_npz_write(FILE *file, int count, const char *const *names, const burn_array *arrays) {
    enum { EXTRA = 4 + 24 };
    uint64_t *offsets = calloc((size_t)count + 1, sizeof *offsets);
    uint32_t *sums = calloc((size_t)count + 1, sizeof *sums);
    uint64_t at = 0;
    int ok = offsets && sums;
    for (int i = 0; i < count && ok; i++) {
        char head[512];
        int head_bytes = burn_npy_header(head, arrays[i].kind, arrays[i].item, arrays[i].rank, arrays[i].dims);
        uint64_t length = strlen(names[i]), size = (uint64_t)head_bytes + (uint64_t)arrays[i].bytes;
        unsigned char local[LOCAL_BYTES + EXTRA] = "PK\3\4", *extra = local + LOCAL_BYTES;
        offsets[i] = at;
        sums[i] = burn_crc32(burn_crc32(0, head, head_bytes), arrays[i].data, arrays[i].bytes);
        common(local + 4, sums[i], length + 4, EXTRA - 8);
        store(extra, 1, 2);
        store(extra + 2, 16, 2);
        store(extra + 4, size, 8);
        store(extra + 12, size, 8);
        ok = length < 60000 && fwrite(local, 1, LOCAL_BYTES, file) == LOCAL_BYTES &&
             fprintf(file, "%s.npy", names[i]) >= 0 && fwrite(extra, 1, EXTRA - 8, file) == EXTRA - 8 &&
             fwrite(head, 1, (size_t)head_bytes, file) == (size_t)head_bytes &&
             (!arrays[i].bytes || fwrite(arrays[i].data, 1, (size_t)arrays[i].bytes, file) == (size_t)arrays[i].bytes);
        at += LOCAL_BYTES + length + 4 + EXTRA - 8 + size;
    }
    uint64_t begin = at;
    for (int i = 0; i < count && ok; i++) {
        char head[512];
        uint64_t size = (uint64_t)burn_npy_header(head, arrays[i].kind, arrays[i].item, arrays[i].rank, arrays[i].dims) +
                        (uint64_t)arrays[i].bytes;
        unsigned char entry[ENTRY_BYTES + EXTRA] = "PK\1\2", *extra = entry + ENTRY_BYTES;
        store(entry + 4, 45, 2);
        common(entry + 6, sums[i], strlen(names[i]) + 4, EXTRA);
        store(entry + 42, 0xffffffff, 4);
        store(extra, 1, 2);
        store(extra + 2, 24, 2);
        store(extra + 4, size, 8);
        store(extra + 12, size, 8);
        store(extra + 20, offsets[i], 8);
        ok = fwrite(entry, 1, ENTRY_BYTES, file) == ENTRY_BYTES && fprintf(file, "%s.npy", names[i]) >= 0 &&
             fwrite(extra, 1, EXTRA, file) == EXTRA;
        at += ENTRY_BYTES + strlen(names[i]) + 4 + EXTRA;
    }
    unsigned char end[END64_BYTES + LOCATOR_BYTES + END_BYTES] = "PK\6\6";
    unsigned char *locator = end + END64_BYTES, *last = locator + LOCATOR_BYTES;
    store(end + 4, END64_BYTES - 12, 8);
    store(end + 12, 45, 2);
    store(end + 14, 45, 2);
    store(end + 24, (uint64_t)count, 8);
    store(end + 32, (uint64_t)count, 8);
    store(end + 40, at - begin, 8);
    store(end + 48, begin, 8);
    memcpy(locator, "PK\6\7", 4);
    store(locator + 8, at, 8);
    store(locator + 16, 1, 4);
    memcpy(last, "PK\5\6", 4);
    store(last + 8, 0xffff, 2);
    store(last + 10, 0xffff, 2);
    store(last + 12, 0xffffffff, 4);
    store(last + 16, 0xffffffff, 4);
    ok = ok && fwrite(end, 1, sizeof end, file) == sizeof end;
    free(offsets);
    free(sums);
    return ok;
}
