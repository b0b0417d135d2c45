/* See json.h. */
#include "json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int grow(burn_text *text, size_t bytes) {
    if (text->failed)
        return 0;
    const int fits = bytes <= SIZE_MAX / 4 && text->length <= SIZE_MAX / 4; /* of 32 bits */
    size_t needed = text->length + bytes + 1;
    if (fits && needed <= text->capacity)
        return 1;
    size_t capacity = needed + needed / 2 + 64;
    char *data = fits ? realloc(text->data, capacity) : NULL;
    if (!data) {
        text->failed = 1;
        return 0;
    }
    text->data = data;
    text->capacity = capacity;
    return 1;
}

void burn_text_bytes(burn_text *text, const void *data, size_t bytes) {
    if (!grow(text, bytes))
        return;
    if (bytes)
        memcpy(text->data + text->length, data, bytes);
    text->length += bytes;
    text->data[text->length] = 0;
}

void burn_text_add(burn_text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length >= 0 && grow(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
        text->length += (size_t)length;
    }
    va_end(arguments);
}

/* The character at *at, which moves behind it; a byte that is not UTF-8 stands for itself. */
static uint32_t character(const unsigned char **at) {
    const unsigned char *c = *at;
    int more = c[0] >= 0xf0 ? 3 : c[0] >= 0xe0 ? 2 : c[0] >= 0xc0 ? 1 : 0;
    uint32_t value = more ? c[0] & (0x3fu >> more) : c[0];
    for (int i = 1; i <= more; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            *at = c + 1;
            return c[0];
        }
        value = value << 6 | (c[i] & 0x3fu);
    }
    *at = c + more + 1;
    return value;
}

void burn_text_string(burn_text *text, const char *string, int plain) {
    static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const unsigned char *at = (const unsigned char *)string;
    burn_text_bytes(text, "\"", 1);
    while (*at) {
        const unsigned char *begin = at;
        const char *known = strchr(special, *at);
        uint32_t c = character(&at);
        if (known)
            burn_text_add(text, "\\%c", letters[known - special]);
        else if (c < 0x20 || (plain && c > 0x7f && c < 0x10000))
            burn_text_add(text, "\\u%04x", (unsigned)c);
        else if (plain && c >= 0x10000)
            burn_text_add(text, "\\u%04x\\u%04x", 0xd800 + (unsigned)((c - 0x10000) >> 10),
                          0xdc00 + (unsigned)((c - 0x10000) & 0x3ff));
        else
            burn_text_bytes(text, begin, (size_t)(at - begin));
    }
    burn_text_bytes(text, "\"", 1);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const char *blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

/* Behind a string, or NULL. */
static const char *behind_string(const char *at) {
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if (*at == '\\' && at[1])
            at++;
        else if ((unsigned char)*at < 0x20 || *at == '\\')
            return NULL;
    }
    return at + 1;
}

/* Behind a value, or NULL. Brackets are only counted: what is read of the inside is walked over by itself. */
static const char *behind_value(const char *at) {
    char open[DEEPEST];
    int depth = 0;
    do {
        at = blanks(at);
        if (*at == '"') {
            at = behind_string(at);
            if (!at)
                return NULL;
        } else if (*at == '{' || *at == '[') {
            if (depth == DEEPEST)
                return NULL;
            open[depth++] = *at++;
        } else if (*at == '}' || *at == ']') {
            if (!depth || open[--depth] != (*at == '}' ? '{' : '['))
                return NULL;
            at++;
        } else if (depth && (*at == ',' || *at == ':')) {
            at++;
        } else {
            size_t length = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
            if (!length)
                return NULL;
            at += length;
        }
    } while (depth);
    return at;
}

int burn_json_next(const char **at, burn_member *member) {
    const char *c = blanks(*at);
    const int is_first = *c == '{' || *c == '[';
    const char *behind = blanks(c + (*c != 0));
    if (*c == '}' || *c == ']' || (is_first && (*behind == '}' || *behind == ']')))
        return 0;
    if (!is_first && *c != ',')
        return -1;
    c = behind;
    *member = (burn_member){NULL, NULL, NULL, NULL};
    const char *end = *c == '"' ? behind_string(c) : NULL;
    if (end && *blanks(end) == ':') {
        member->key = c;
        member->key_end = end;
        c = blanks(blanks(end) + 1);
    }
    member->value = c;
    member->value_end = behind_value(c);
    if (!member->value_end)
        return -1;
    *at = member->value_end;
    return 1;
}

int burn_json_is(const char *begin, const char *end, const char *string) {
    size_t length = strlen(string);
    return begin && (size_t)(end - begin) == length + 2 && *begin == '"' && memcmp(begin + 1, string, length) == 0;
}

int burn_json_number(const char *begin, const char *end, uint64_t *number) {
    uint64_t value = 0;
    if (begin == end)
        return 0;
    for (; begin < end; begin++) {
        if (*begin < '0' || *begin > '9' || value > (UINT64_MAX - (uint64_t)(*begin - '0')) / 10)
            return 0;
        value = 10 * value + (uint64_t)(*begin - '0');
    }
    *number = value;
    return 1;
}

static int hex(const char *at, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", c = at[i] >= 'A' && at[i] <= 'F' ? (char)(at[i] + 32) : at[i];
        const char *digit = c ? strchr(digits, c) : NULL;
        if (!digit)
            return 0;
        *value = *value << 4 | (uint32_t)(digit - digits);
    }
    return 1;
}

static char *put(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *to++ = (char)((0xff00u >> (more + 1) & 0xffu) | c >> 6 * more);
    while (more-- > 0)
        *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return to;
}

int burn_json_string(const char *begin, const char *end, char **made) {
    static const char letters[] = "nrtbf", special[] = "\n\r\t\b\f";
    *made = NULL;
    if (!begin || *begin != '"')
        return 0;
    char *text = malloc((size_t)(end - begin)), *to = text;
    if (!text)
        return -1;
    for (const char *at = begin + 1; at < end - 1; at++) {
        uint32_t c, low;
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        const char *known = strchr(letters, *++at);
        if (known)
            *to++ = special[known - letters];
        else if (*at != 'u')
            *to++ = *at;
        else {
            if (!hex(at + 1, &c) || !c) {
                free(text);
                return 0;
            }
            at += 4;
            if (c >= 0xd800 && c < 0xdc00 && at[1] == '\\' && at[2] == 'u' && hex(at + 3, &low) && low >= 0xdc00 &&
                low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                at += 6;
            }
            to = put(to, c);
        }
    }
    *to = 0;
    *made = text;
    return 1;
}
