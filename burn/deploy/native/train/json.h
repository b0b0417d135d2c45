/* As much JSON as checkpoints need: a growing text, and a walk over the members of an object in memory that ends with a null byte. */
#ifndef BURN_JSON_H
#define BURN_JSON_H

#include <stddef.h>
#include <stdint.h>

/* `failed` is set once memory is out; the text is then not complete. */
typedef struct burn_text {
    char *data;
    size_t length, capacity;
    int failed;
} burn_text;

void burn_text_add(burn_text *text, const char *format, ...);
void burn_text_bytes(burn_text *text, const void *data, size_t bytes);
/* A string in quotes. plain: every character beyond ASCII is escaped, as Python's json.dumps does. */
void burn_text_string(burn_text *text, const char *string, int plain);

/* A member of an object, or an item of an array: the text of its key (with quotes; NULL in an array) and of its value. */
typedef struct burn_member {
    const char *key, *key_end, *value, *value_end;
} burn_member;

/* Moves to the next member. *at: the text of an object or array at first, then a position in it. 1: `member` is one, 0: there are no
 * more, -1: malformed. */
int burn_json_next(const char **at, burn_member *member);
/* A string without quotes and escapes, in memory of malloc. 1; 0: it is none; -1: memory is out. *made is NULL then. */
int burn_json_string(const char *begin, const char *end, char **made);
int burn_json_is(const char *begin, const char *end, const char *string); /* whether it is this string, without escapes */
/* A number that is at least 0. 0: it is none. */
int burn_json_number(const char *begin, const char *end, uint64_t *number);

#endif
