/* Blocks between pages without access, so that a kernel that reads or writes outside of a buffer ends the process where it does so.
 *
 *     | header | none | ......payload | none |    BURN_GUARD_END
 *     | header | none | payload...... | none |    BURN_GUARD_START
 *
 * With guards on, each input, constant, output, planned buffer and scratch memory of a program on the CPU is such a block. Payloads at the
 * end are aligned to their elements alone. Only the Python binding has guards (BURN_GUARDS).
 *
 * A device has no such pages. Its planned buffers share no memory, and have known bytes behind them. The host compares these after
 * each launch. Outputs and scratch memory of a device have none.
 */
#ifndef BURN_GUARDED_H
#define BURN_GUARDED_H

#include <stdint.h>

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef BURN_GUARDS
int burn_guards_are_on(void);
void *burn_guarded_new(int64_t bytes); /* NULL: no memory */
void burn_guarded_free(void *memory);
/* A block that is freed at the end of the run. */
void *burn_guarded_for_run(burn_run *run, int64_t bytes);
void burn_guarded_run_end(burn_run *run);
/* Gives each planned buffer a block. Offsets are from the result. NULL: the run has failed. */
void *burn_guarded_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets);
/* The same on a device, in one block of so many bytes: BURN_OK, BURN_NEGATIVE_SIZE or BURN_OUT_OF_MEMORY. */
burn_plan_result burn_guarded_device_plan(const int64_t *sizes, int64_t count, int64_t *offsets);
/* Writes the bytes behind planned buffers, before a run's first launch. */
void burn_guarded_device_begin(burn_run *run);
/* Fails the run if a launch wrote behind a planned buffer. */
void burn_guarded_device_look(burn_run *run, const char *kernel);
/* Copies the inputs that the run must leave as they are. */
void burn_guarded_inputs(burn_run *run);
#else
static inline int burn_guards_are_on(void) { return 0; }
static inline void *burn_guarded_new(int64_t bytes) { return (void)bytes, NULL; }
static inline void burn_guarded_free(void *memory) { (void)memory; }
static inline void burn_guarded_run_end(burn_run *run) { (void)run; }
static inline void *burn_guarded_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    return (void)run, (void)sizes, (void)count, (void)offsets, NULL;
}
static inline burn_plan_result burn_guarded_device_plan(const int64_t *sizes, int64_t count, int64_t *offsets) {
    return (void)sizes, (void)count, (void)offsets, (burn_plan_result){BURN_OK, 0};
}
static inline void burn_guarded_device_begin(burn_run *run) { (void)run; }
static inline void burn_guarded_device_look(burn_run *run, const char *kernel) { (void)run, (void)kernel; }
static inline void burn_guarded_inputs(burn_run *run) { (void)run; }
#endif

#ifdef __cplusplus
}
#endif

#endif
