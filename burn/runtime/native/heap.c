/* Strings and lists: see heap.h. */
#include "heap.h"

#include <stdlib.h>
#include <string.h>

#include "lib_keys.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct burn_heap_block {
    struct burn_heap_block *next;
    char padding[BURN_ALIGNMENT - sizeof(void *)];
} burn_heap_block;

enum { BLOCK = 1 << 16 };

static char *new_block(burn_heap *heap, int64_t bytes) {
    if (bytes > INT64_MAX - (int64_t)sizeof(burn_heap_block))
        return NULL;
    burn_heap_block *block = burn_memory_new(bytes + (int64_t)sizeof *block);
    if (!block)
        return NULL;
    block->next = heap->blocks;
    heap->blocks = block;
    return (char *)(block + 1);
}

void *burn_heap_new(burn_heap *heap, int64_t bytes) {
    if (bytes < 0)
        return NULL;
    if (bytes >= BURN_ALIGNMENT && bytes > BLOCK / 8)
        return new_block(heap, bytes);
    int64_t alignment = bytes >= BURN_ALIGNMENT ? BURN_ALIGNMENT : 8;
    int64_t skip = heap->next ? (int64_t)(-(uintptr_t)heap->next & (uintptr_t)(alignment - 1)) : 0;
    if (!heap->next || heap->left < skip + bytes) {
        heap->next = new_block(heap, BLOCK);
        heap->left = heap->next ? BLOCK : 0;
        skip = 0;
        if (!heap->next)
            return NULL;
    }
    char *memory = heap->next + skip;
    heap->next = memory + bytes;
    heap->left -= skip + bytes;
    return memory;
}

void burn_heap_clear(burn_heap *heap) {
    while (heap->blocks) {
        burn_heap_block *block = heap->blocks;
        heap->blocks = block->next;
        burn_memory_free(block);
    }
    *heap = (burn_heap){0};
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

/* FNV-1a over 8 bytes at a time, then mixed. */
static uint64_t hash_of(burn_span span) {
    uint64_t hash = 0xCBF29CE484222325 ^ (uint64_t)span.bytes;
    int64_t at = 0;
    for (; at + 8 <= span.bytes; at += 8) {
        uint64_t word;
        memcpy(&word, span.data + at, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    for (; at < span.bytes; at++)
        hash = (hash ^ (unsigned char)span.data[at]) * 0x100000001B3;
    return hash ^ hash >> 29;
}

static const burn_text *find(const burn_texts *texts, burn_span span, uint64_t hash) {
    if (!texts->slot_count)
        return NULL;
    const burn_text *text = texts->slots[hash & (uint64_t)(texts->slot_count - 1)];
    while (text && (text->hash != hash || text->bytes != span.bytes ||
                    memcmp(text->data, span.data, (size_t)span.bytes) != 0))
        text = text->next;
    return text;
}

static int more_slots(burn_texts *texts) {
    int64_t count = texts->slot_count ? 2 * texts->slot_count : 64;
    const burn_text **slots = calloc((size_t)count, sizeof *slots);
    if (!slots)
        return 0;
    for (int64_t slot = 0; slot < texts->slot_count; slot++)
        for (burn_text *text = (burn_text *)texts->slots[slot], *next; text; text = next) {
            next = (burn_text *)text->next;
            const burn_text **bucket = &slots[text->hash & (uint64_t)(count - 1)];
            text->next = *bucket;
            *bucket = text;
        }
    free(texts->slots);
    texts->slots = slots;
    texts->slot_count = count;
    return 1;
}

int burn_text_intern(burn_texts *texts, burn_span span, int64_t *word) {
    *word = 0;
    if (!span.bytes)
        return 1;
    uint64_t hash = hash_of(span);
    const burn_text *known = texts->base ? find(texts->base, span, hash) : NULL;
    if (!known)
        known = find(texts, span, hash);
    if (!known) {
        if (texts->count >= texts->slot_count && !more_slots(texts))
            return 0;
        burn_text *text = span.bytes <= INT64_MAX - (int64_t)sizeof *text
                              ? burn_heap_new(&texts->heap, (int64_t)sizeof *text + span.bytes)
                              : NULL;
        if (!text)
            return 0;
        const burn_text **bucket = &texts->slots[hash & (uint64_t)(texts->slot_count - 1)];
        *text = (burn_text){span.bytes, hash, *bucket};
        memcpy(text->data, span.data, (size_t)span.bytes);
        *bucket = text;
        texts->count++;
        known = text;
    }
    *word = (int64_t)(uintptr_t)known;
    return 1;
}

void burn_texts_clear(burn_texts *texts) {
    burn_heap_clear(&texts->heap);
    free(texts->slots);
    *texts = (burn_texts){.base = texts->base};
}

int32_t burn_text_unpack(burn_texts *texts, const void *packed, int64_t bytes, int64_t count, int64_t *words) {
    int64_t head = burn_lib_bytes(count + 1, sizeof(int64_t));
    if (count < 0 || bytes < head)
        return BURN_BAD_TEXT;
    const char *first = (const char *)packed + head;
    for (int64_t i = 0; i < count; i++) {
        int64_t ends[2];
        memcpy(ends, (const char *)packed + i * (int64_t)sizeof(int64_t), sizeof ends);
        if (ends[0] < 0 || ends[1] < ends[0] || ends[1] > bytes - head)
            return BURN_BAD_TEXT;
        if (!burn_text_intern(texts, (burn_span){first + ends[0], ends[1] - ends[0]}, &words[i]))
            return BURN_OUT_OF_MEMORY;
    }
    return BURN_OK;
}

void *burn_text_pack(const int64_t *words, int64_t count, int64_t *bytes) {
    int64_t head = burn_lib_bytes(count + 1, sizeof(int64_t)), total = head;
    for (int64_t i = 0; i < count; i++) {
        int64_t own = burn_text_span(words[i]).bytes;
        if (total > INT64_MAX - own)
            return NULL;
        total += own;
    }
    char *packed = burn_memory_new(total);
    if (!packed)
        return NULL;
    int64_t end = 0;
    for (int64_t i = 0; i <= count; i++) {
        memcpy(packed + i * (int64_t)sizeof end, &end, sizeof end);
        if (i < count) {
            burn_span span = burn_text_span(words[i]);
            memcpy(packed + head + end, span.data, (size_t)span.bytes);
            end += span.bytes;
        }
    }
    *bytes = total;
    return packed;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static burn_items *new_items(burn_heap *heap, int64_t room) {
    int64_t bytes = burn_lib_bytes(room, sizeof(const burn_item *));
    burn_items *items = bytes < INT64_MAX - 64 ? burn_heap_new(heap, (int64_t)sizeof *items + bytes) : NULL;
    if (items)
        *items = (burn_items){room, 0};
    return items;
}

static int32_t new_list(burn_heap *heap, int64_t count, burn_items *items, int64_t *result) {
    burn_list *list = burn_heap_new(heap, sizeof *list);
    if (!list)
        return BURN_OUT_OF_MEMORY;
    *list = (burn_list){count, items};
    *result = (int64_t)(uintptr_t)list;
    return BURN_OK;
}

int32_t burn_list_insert(burn_heap *heap, int64_t list, int64_t position, const burn_item *item, int64_t *result) {
    int64_t count = burn_list_count(list);
    burn_items *old = list ? ((const burn_list *)(uintptr_t)list)->items : NULL;
    if (position < 0)
        position += count;
    if (position < 0 || position > count)
        return BURN_INDEX_OUT_OF_RANGE;
    if (old && position == count && old->used == count && count < old->room) {
        old->at[old->used++] = item;
        return new_list(heap, count + 1, old, result);
    }
    burn_items *items = new_items(heap, 4 + count + count / 2);
    if (!items)
        return BURN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++)
        items->at[i + (i >= position)] = old->at[i];
    items->at[position] = item;
    items->used = count + 1;
    return new_list(heap, count + 1, items, result);
}

int32_t burn_list_erase(burn_heap *heap, int64_t list, int64_t position, int64_t *result) {
    int64_t count = burn_list_count(list);
    if (position < 0)
        position += count;
    if (position < 0 || position >= count)
        return BURN_INDEX_OUT_OF_RANGE;
    burn_items *old = ((const burn_list *)(uintptr_t)list)->items;
    if (position == count - 1)
        return new_list(heap, count - 1, old, result);
    burn_items *items = new_items(heap, count);
    if (!items)
        return BURN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count - 1; i++)
        items->at[i] = old->at[i + (i >= position)];
    items->used = count - 1;
    return new_list(heap, count - 1, items, result);
}

burn_item *burn_item_new(burn_heap *heap, int64_t dtype, int64_t rank, const int64_t *dims, const void *data,
                         int64_t bytes, int copy) {
    burn_item *item = burn_heap_new(heap, (int64_t)sizeof *item + rank * (int64_t)sizeof *dims);
    if (!item)
        return NULL;
    void *own = copy ? burn_heap_new(heap, bytes < BURN_ALIGNMENT ? BURN_ALIGNMENT : bytes) : NULL;
    if (copy && !own)
        return NULL;
    if (copy && bytes)
        memcpy(own, data, (size_t)bytes);
    *item = (burn_item){copy ? own : data, dtype, bytes, rank};
    if (rank)
        memcpy(item->dims, dims, (size_t)rank * sizeof *dims);
    return item;
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

static int64_t elements_of(int64_t rank, const int64_t *dims) {
    int64_t count = 1;
    for (int64_t axis = 0; axis < rank; axis++)
        count = burn_lib_bytes(count, dims[axis]);
    return count;
}

static burn_kind inside(burn_kind kind) { return (burn_kind){kind.dtype, kind.depth - 1}; }

int32_t burn_value_in(burn_texts *texts, burn_kind kind, const burn_input *given, burn_input *made) {
    *made = *given;
    if (kind.depth == 0) {
        if (kind.dtype != BURN_TEXT)
            return BURN_OK;
        made->donated = 0; /* what the program writes is not the caller's */
        int64_t count = elements_of(given->rank, given->dims), bytes = burn_lib_bytes(count, sizeof(int64_t));
        int64_t *words = burn_heap_new(&texts->heap, bytes < BURN_ALIGNMENT ? BURN_ALIGNMENT : bytes);
        if (!words)
            return BURN_OUT_OF_MEMORY;
        made->data = words;
        made->bytes = bytes;
        return burn_text_unpack(texts, given->data, given->bytes, count, words);
    }
    int64_t *word = burn_heap_new(&texts->heap, BURN_ALIGNMENT);
    if (!word)
        return BURN_OUT_OF_MEMORY;
    *word = 0;
    const burn_input *elements = given->data;
    for (int64_t i = 0; i < given->dims[0]; i++) {
        burn_input element;
        int32_t status = burn_value_in(texts, inside(kind), &elements[i], &element);
        if (status != BURN_OK)
            return status;
        int64_t dtype = kind.depth > 1 ? BURN_LIST : kind.dtype, rank = kind.depth > 1 ? 0 : element.rank;
        const burn_item *item = burn_item_new(&texts->heap, dtype, rank, element.dims, element.data, element.bytes, 0);
        status = item ? burn_list_insert(&texts->heap, *word, i, item, word) : BURN_OUT_OF_MEMORY;
        if (status != BURN_OK)
            return status;
    }
    *made = (burn_input){.data = word, .bytes = sizeof *word};
    return BURN_OK;
}

static int32_t item_out(burn_kind kind, const burn_item *item, burn_output *output) {
    *output = (burn_output){.bytes = item->bytes, .rank = item->rank, .taken_from = -1};
    if (item->rank)
        memcpy(output->dims, item->dims, (size_t)item->rank * sizeof *item->dims);
    output->data = burn_memory_new(item->bytes);
    if (!output->data)
        return BURN_OUT_OF_MEMORY;
    if (item->bytes)
        memcpy(output->data, item->data, (size_t)item->bytes);
    return burn_value_out(kind, output);
}

int32_t burn_value_out(burn_kind kind, burn_output *output) {
    if (kind.depth == 0) {
        if (kind.dtype != BURN_TEXT)
            return BURN_OK;
        int64_t *words = output->data;
        output->data = burn_text_pack(words, elements_of(output->rank, output->dims), &output->bytes);
        burn_memory_free(words);
        return output->data ? BURN_OK : BURN_OUT_OF_MEMORY;
    }
    int64_t list, count;
    memcpy(&list, output->data, sizeof list);
    burn_memory_free(output->data);
    count = burn_list_count(list);
    int64_t bytes = burn_lib_bytes(count, sizeof(burn_output));
    burn_output *elements = burn_memory_new(bytes);
    *output = (burn_output){.data = elements, .bytes = bytes, .rank = 1, .dims = {0}, .taken_from = -1};
    if (!elements)
        return BURN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        int32_t status = item_out(inside(kind), burn_list_item(list, i), &elements[i]);
        output->dims[0] = i + (elements[i].data != NULL);
        if (status != BURN_OK)
            return status;
    }
    return BURN_OK;
}

void burn_output_free(burn_kind kind, burn_output *output) {
    if (output->taken_from < 0) {
        for (int64_t i = 0; kind.depth > 0 && output->data && i < output->dims[0]; i++)
            burn_output_free(inside(kind), (burn_output *)output->data + i);
        burn_memory_free(output->data);
    }
    output->data = NULL;
}
