/* Library code that compiled programs call for operators that are not loops over elements (sort, unique ...). The
 * functions are in lib_*.c; each is declared here and has its line in symbols.c. They allocate through burn_rt_alloc,
 * whose memory is freed with the run, and report through burn_rt_fail.
 *
 * `dtype` is a burn_dtype (lib_keys.h). Tensors are dense; [outer, n, inner] is a tensor seen from one of its axes.
 * A result whose length depends on the data is allocated by the function, which returns the length, or -1 for a run that
 * has failed; the others return the run's status. If another thread writes to a function's inputs meanwhile, the
 * results are undefined, but it accesses only its own memory.
 */
#ifndef BURN_LIB_H
#define BURN_LIB_H

#include "burn_rt.h"

int32_t burn_lib_sort(burn_run *run, int64_t dtype, int64_t outer, int64_t n, int64_t inner, int64_t descending,
                      const void *x, void *values, int64_t *indices);
/* The elements at the positions [start, start + size) of every sorted row, 0 <= start <= n - size: [outer, size, inner]. */
int32_t burn_lib_partial_sort(burn_run *run, int64_t dtype, int64_t outer, int64_t n, int64_t inner, int64_t descending,
                              int64_t start, int64_t size, const void *x, void *values, int64_t *indices);
int64_t burn_lib_nonzero(burn_run *run, int64_t dtype, int64_t rank, const int64_t *dims, const void *x,
                         int64_t **indices);
int64_t burn_lib_unique(burn_run *run, int64_t dtype, int64_t by_value, int64_t outer, int64_t n, int64_t inner,
                        const void *x, int64_t *inverse, void **values, int64_t **first, int64_t **counts);
/* `nodes`: their number, a power of two. `used`: the features that they read. `outcomes`: those of all inner nodes, or 0.
 * `members` are [sets, width] values of x's type; `sets` is 0 if there are none. See lib_trees.c. */
int32_t burn_lib_tree_leaves(burn_run *run, int64_t dtype, int64_t rows, int64_t features, int64_t trees, int64_t nodes,
                             int64_t depth, int64_t used, int64_t outcomes, int64_t sets, int64_t width, const void *x,
                             const void *table, const int32_t *roots, const void *members, int32_t *leaves);
int64_t burn_lib_non_max_suppression(burn_run *run, int64_t dtype, int64_t form, int64_t batches, int64_t classes, int64_t n,
                                     const void *boxes, const void *scores, const int64_t *maximum, const double *limit,
                                     int64_t bounded, const double *threshold, int64_t **picked);

/* Strings: words as in heap.h. */
int32_t burn_lib_text_concat(burn_run *run, int64_t count, const int64_t *a, const int64_t *b, int64_t *joined);
int32_t burn_lib_text_case(burn_run *run, int64_t count, const int64_t *x, int64_t rows, const int32_t *table,
                        int64_t *changed);
int64_t burn_lib_text_split(burn_run *run, int64_t count, int64_t most, const int64_t *x, const int64_t *delimiter,
                            int64_t *counts, int64_t **pieces);
int32_t burn_lib_text_find(burn_run *run, int64_t count, const int64_t *x, int64_t key_count, const int64_t *keys,
                        int64_t *indices);
int32_t burn_lib_text_rank(burn_run *run, int64_t count, const int64_t *x, int64_t *ranks);
int32_t burn_lib_text_match(burn_run *run, int64_t count, const int64_t *x, int64_t words, const int64_t *code,
                         uint8_t *matches);
int64_t burn_lib_text_tokens(burn_run *run, int64_t count, int64_t least, int64_t between, int64_t words, const int64_t *x,
                             const int64_t *code, int64_t *counts, int64_t **tokens);
int32_t burn_lib_text_write(burn_run *run, int64_t dtype, int64_t count, const void *x, int64_t *texts);
/* The pixels of an image file's bytes, and the height and the width. `form`: 0 RGB, 1 BGR, 2 one channel of grey. */
void *burn_lib_image_decode(burn_run *run, int64_t site, int64_t form, int64_t bytes, const void *data, int64_t *sizes);
int32_t burn_lib_list_insert(burn_run *run, int64_t site, const int64_t *list, int64_t has_position,
                             const int64_t *position, int64_t dtype, int64_t rank, const int64_t *dims,
                             const void *data, int64_t bytes, int64_t *result);
int32_t burn_lib_list_erase(burn_run *run, int64_t site, const int64_t *list, int64_t has_position,
                            const int64_t *position, int64_t *result);
int32_t burn_lib_list_length(burn_run *run, const int64_t *list, int64_t *length);
void *burn_lib_list_at(burn_run *run, int64_t site, const int64_t *list, int64_t has_position, const int64_t *position,
                       int64_t dtype, int64_t rank, int64_t *dims);
void *burn_lib_list_concat(burn_run *run, int64_t site, const int64_t *list, int64_t stack, int64_t axis, int64_t dtype,
                           int64_t rank, int64_t *dims);
int32_t burn_lib_list_split(burn_run *run, int64_t site, int64_t dtype, int64_t rank, const int64_t *dims, int64_t axis,
                            int64_t keep, int64_t count, const int64_t *sizes, const char *x, int64_t *result);
/* See lib_debug.c: `words` are `count` tensors. `results`: how many of the first tensors the op made, of the others. */
int32_t burn_lib_debug_print(burn_run *run, int64_t site, int64_t bytes, const char *text, int64_t count,
                             const int64_t *words);
int32_t burn_lib_debug_call(burn_run *run, int64_t site, int64_t function, int64_t count, const int64_t *words);
int32_t burn_lib_check_finite(burn_run *run, int64_t site, int64_t infinite, int64_t results, int64_t count,
                              const int64_t *words);
/* See lib_custom.c. `function`: an int (const burn_custom_call *); `attributes`: a table (burn_custom.h). */
int32_t burn_lib_custom(burn_run *run, int64_t site, const void *function, const void *attributes, int64_t inputs,
                        int64_t outputs, const int64_t *words);
/* The host's function of a number. */
int32_t burn_lib_custom_host(burn_run *run, int64_t site, int64_t function, int64_t inputs, int64_t outputs,
                             const int64_t *words);
/* A collective of the processes of a mesh: see lib_collective.c. `kind`: burn_collective_kind. `number`: the reduction, or the root of
 * a broadcast. `groups`: `ranks` ranks, one group of `size` after another. `words`: `count` tensors, burn_collective_tensor. */
int32_t burn_lib_collective(burn_run *run, int64_t site, int64_t kind, int64_t number, int64_t size, int64_t ranks,
                            const int64_t *groups, int64_t count, const int64_t *words);
int32_t burn_lib_text_read(burn_run *run, int64_t site, int64_t dtype, int64_t count, const int64_t *x, void *numbers);

#endif
