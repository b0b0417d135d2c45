/* Operating system functions of the runtime: locks, threads, memory, time. For POSIX, Windows, and WebAssembly,
 * which has one thread, or with atomics the threads that JavaScript starts. No other file of the runtime depends on the
 * system, except cpu.c, which describes the machine.
 */
#ifndef BURN_SYSTEM_H
#define BURN_SYSTEM_H

#include <stdatomic.h>
#include <stdint.h>

#if defined(__wasm__)
#define BURN_HAS_PAGES 0
typedef char burn_once;
#define BURN_ONCE_NEW 0
#ifdef __wasm_atomics__
#define BURN_HAS_THREADS 1
typedef atomic_flag burn_lock;
typedef int32_t burn_thread;
#define BURN_LOCK_NEW ATOMIC_FLAG_INIT
/* The main loop of a module's instance in a worker: it waits for tasks of burn_thread_start. Each
 * instance has its own number, from 0 to 63. */
void burn_instance_main(int32_t number);
#else
#define BURN_HAS_THREADS 0
typedef char burn_lock;
typedef char burn_thread;
#define BURN_LOCK_NEW 0
#endif
#else
#define BURN_HAS_THREADS 1
#define BURN_HAS_PAGES 1
#if defined(_WIN32) /* as in <windows.h>, whose names would be in the way: all three are one pointer, and NULL when new */
typedef struct burn_lock { void *lock; } burn_lock;
typedef struct burn_once { void *once; } burn_once;
typedef void *burn_thread;
#define BURN_LOCK_NEW {0}
#define BURN_ONCE_NEW {0}
#else
#include <pthread.h>
typedef pthread_mutex_t burn_lock;
typedef pthread_once_t burn_once;
typedef pthread_t burn_thread;
#define BURN_LOCK_NEW PTHREAD_MUTEX_INITIALIZER
#define BURN_ONCE_NEW PTHREAD_ONCE_INIT
#endif
#endif

void burn_lock_take(burn_lock *lock);
void burn_lock_give(burn_lock *lock);
void burn_once_call(burn_once *once, void (*function)(void));
/* Called around a fork, in the parent and in the child; 0: that cannot be. Where processes do not fork, nothing. */
int burn_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

typedef struct burn_task {
    void (*main)(void);
} burn_task;

int burn_thread_start(burn_thread *thread, const burn_task *task); /* the task stays where it is; 0: no thread */
void burn_thread_join(burn_thread *thread);
void burn_yield(void);

/* The CPU that the calling thread runs on; -1 where the system does not tell. */
int32_t burn_cpu_now(void);
/* The CPUs that a thread may run on, less one that it avoids. */
typedef struct burn_placement {
    int32_t avoided; /* 1 + the CPU's number; 0: none */
    uint64_t others[16]; /* what is left without it, one bit for each CPU */
} burn_placement;
/* Moves the calling thread to another CPU than this one, and keeps it off this one until it avoids another. Has no effect on a thread
 * that may run on no other, and where threads have no affinity. */
void burn_avoid_cpu(burn_placement *placement, int32_t cpu);

/* Sleeps until the word is another than `seen`, and perhaps less; and wakes so many of those that sleep, once it has changed. */
void burn_sleep_while(_Atomic uint32_t *word, uint32_t seen);
void burn_wake(_Atomic uint32_t *word, int32_t count);
void burn_sleepers_forget(void); /* in the child of a fork */

/* Memory that is aligned to BURN_ALIGNMENT, of a multiple of that many bytes. */
void *burn_aligned_new(int64_t bytes);
void burn_aligned_free(void *memory);
/* Whole pages, zeroed, large ones where the system has them. NULL: there are none. */
void *burn_pages_new(int64_t bytes);
void burn_pages_free(void *pages, int64_t bytes);
int burn_pages_deny(void *pages, int64_t bytes); /* any access is a fault from here on; 0: that cannot be */

#endif
