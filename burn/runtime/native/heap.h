/* The heap of a run: strings and lists, which any number of tensors may refer to.
 *
 * A string is an immutable, interned record of its run (or its program, for constants). An
 * element of a string tensor is a 64-bit word: the record's address, or 0 for the empty string. So strings are equal if
 * their words are equal, and kernels copy and compare them as integers.
 *
 * A sequence is an immutable list of tensors; an optional is a list of one or none. A value of either kind is a scalar,
 * the list's address. All of it lives until the run ends.
 */
#ifndef BURN_HEAP_H
#define BURN_HEAP_H

#include <stdint.h>

#include "runtime.h"

/* ---- memory that is given back all at once ----------------------------------------------------------------------- */
typedef struct burn_heap {
    struct burn_heap_block *blocks;
    char *next;
    int64_t left;
} burn_heap;

void *burn_heap_new(burn_heap *heap, int64_t bytes); /* 64-byte aligned from 64 bytes on, else 8; NULL: none left */
void burn_heap_clear(burn_heap *heap);

/* ---- strings ----------------------------------------------------------------------------------------------------- */
typedef struct burn_text {
    int64_t bytes;
    uint64_t hash;
    const struct burn_text *next; /* in the same slot */
    char data[];                  /* UTF-8 */
} burn_text;

/* The strings of a run, or of a program's constants, which a run's table has as its base. */
typedef struct burn_texts {
    burn_heap heap;
    const struct burn_texts *base;
    const burn_text **slots;
    int64_t slot_count, count;
} burn_texts;

typedef struct burn_span {
    const char *data;
    int64_t bytes;
} burn_span;

static inline burn_span burn_text_span(int64_t word) {
    const burn_text *text = (const burn_text *)(uintptr_t)word;
    return text ? (burn_span){text->data, text->bytes} : (burn_span){"", 0};
}

/* The word of a string. False when memory is exhausted. */
int burn_text_intern(burn_texts *texts, burn_span span, int64_t *word);
void burn_texts_clear(burn_texts *texts);

/* A string tensor outside of runs: where each element starts and the last one ends (64-bit offsets from the first
 * string's first byte), then the bytes of all. `unpack` fills in the words and returns a burn_status; `pack` returns
 * memory of burn_memory_new, or NULL. */
int32_t burn_text_unpack(burn_texts *texts, const void *packed, int64_t bytes, int64_t count, int64_t *words);
void *burn_text_pack(const int64_t *words, int64_t count, int64_t *bytes);

/* ---- lists ------------------------------------------------------------------------------------------------------- */
typedef struct burn_item {
    const void *data;
    int64_t dtype, bytes, rank; /* burn_dtype (lib_keys.h) */
    int64_t dims[];
} burn_item;

/* Lists that grew out of each other share their items: the latest may append to them in place. */
typedef struct burn_items {
    int64_t room, used;
    const burn_item *at[];
} burn_items;

typedef struct burn_list {
    int64_t count;
    burn_items *items;
} burn_list;

/* A list's word; 0 is the empty list. Each returns a burn_status. */
int32_t burn_list_insert(burn_heap *heap, int64_t list, int64_t position, const burn_item *item, int64_t *result);
int32_t burn_list_erase(burn_heap *heap, int64_t list, int64_t position, int64_t *result);
static inline int64_t burn_list_count(int64_t list) {
    return list ? ((const burn_list *)(uintptr_t)list)->count : 0;
}
static inline const burn_item *burn_list_item(int64_t list, int64_t position) {
    return ((const burn_list *)(uintptr_t)list)->items->at[position];
}
/* An item over `data`, which is copied if `copy`; NULL when memory is exhausted. */
burn_item *burn_item_new(burn_heap *heap, int64_t dtype, int64_t rank, const int64_t *dims, const void *data,
                         int64_t bytes, int copy);

/* ---- a run's inputs and outputs ---------------------------------------------------------------------------------- */
/* Converts between a caller's values (see burn_kind in runtime.h) and those of compiled code. */
int32_t burn_value_in(burn_texts *texts, burn_kind kind, const burn_input *given, burn_input *made);
int32_t burn_value_out(burn_kind kind, burn_output *output);

/* ---- run.c ------------------------------------------------------------------------------------------------------- */
burn_texts *burn_run_texts(burn_run *run); /* and their heap */

#endif
