/* The functions that gpu.js provides to a module of WebAssembly: WebGPU with numbers in place of objects.
 *
 * A handle is the number of an object of JavaScript. Sizes and offsets of buffers are doubles, which hold more than 32 bits without a
 * BigInt. A list (the entries of a layout or group) is given entry by entry before the call that uses it.
 */
#ifndef BURN_PAGE_H
#define BURN_PAGE_H

#include <stdint.h>

#define BURN_PAGE(name) __attribute__((import_module("webgpu"), import_name(#name))) page_##name

typedef uint32_t page_object;

/* Numbers of `limit`, in gpu.js's order. */
enum { PAGE_STORAGE_BUFFERS, PAGE_STORAGE_BINDING, PAGE_BUFFER, PAGE_UNIFORM_ALIGNMENT, PAGE_WORKGROUPS, PAGE_WORKGROUP_MEMORY };

double BURN_PAGE(limit)(int32_t number);
int32_t BURN_PAGE(lost)(void); /* the device is lost */
void BURN_PAGE(release)(page_object object);

page_object BURN_PAGE(buffer)(uint32_t usage, double size);
void BURN_PAGE(layout_entry)(uint32_t binding, int32_t is_uniform, int32_t is_dynamic);
page_object BURN_PAGE(group_layout)(void);
page_object BURN_PAGE(pipeline_layout)(page_object group_layout);
void BURN_PAGE(group_entry)(uint32_t binding, page_object buffer, double offset, double size);
page_object BURN_PAGE(group)(page_object layout);
page_object BURN_PAGE(module)(const char *text, uint32_t length);
page_object BURN_PAGE(pipeline)(page_object layout, page_object module, const char *entry, uint32_t length);

page_object BURN_PAGE(encoder)(void);
page_object BURN_PAGE(begin_pass)(page_object encoder);
void BURN_PAGE(set_pipeline)(page_object pass, page_object pipeline);
void BURN_PAGE(set_group)(page_object pass, page_object group, uint32_t offset);
void BURN_PAGE(dispatch)(page_object pass, uint32_t x, uint32_t y, uint32_t z);
void BURN_PAGE(end_pass)(page_object pass);
void BURN_PAGE(copy)(page_object encoder, page_object from, double from_offset, page_object to, double to_offset, double size);
page_object BURN_PAGE(finish)(page_object encoder);
void BURN_PAGE(submit)(page_object commands);
void BURN_PAGE(write)(page_object buffer, double offset, const void *data, uint32_t size);

/* Writes bytes of a constant of the package, from `first` on, to a buffer. */
void BURN_PAGE(constant)(int32_t index, double first, double bytes, page_object buffer, double offset);
/* Copies `room` bytes (a multiple of 4) of a buffer after all work so far. `bytes` of them, behind `skipped`, are in the module's
 * memory at `to` when `drain` or gpu.js's own wait returns. */
void BURN_PAGE(fetch)(page_object buffer, double offset, uint32_t room, uint32_t skipped, void *to, uint32_t bytes);
/* Waits for all fetches: the module is suspended, if the browser can do that, else gpu.js throws an error. 0, or 1 if the device is
 * lost. */
int32_t BURN_PAGE(drain)(void);

#endif
