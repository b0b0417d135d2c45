/* See system.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getcpu, sets of CPUs */
#endif
#include "system.h"

#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#if defined(_WIN32)
/* ---- Windows ------------------------------------------------------------------------------------------------------- */
#include <windows.h>

#include <malloc.h>

void burn_lock_take(burn_lock *lock) { AcquireSRWLockExclusive((PSRWLOCK)lock); }
void burn_lock_give(burn_lock *lock) { ReleaseSRWLockExclusive((PSRWLOCK)lock); }

static BOOL CALLBACK call(PINIT_ONCE once, PVOID task, PVOID *unused) {
    (void)once, (void)unused;
    ((const burn_task *)task)->main();
    return TRUE;
}

void burn_once_call(burn_once *once, void (*function)(void)) {
    burn_task task = {function};
    InitOnceExecuteOnce((PINIT_ONCE)once, call, &task, NULL);
}

int burn_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    (void)before, (void)parent, (void)child;
    return 1;
}

static DWORD WINAPI thread_main(LPVOID task) {
    ((const burn_task *)task)->main();
    return 0;
}

int burn_thread_start(burn_thread *thread, const burn_task *task) {
    *thread = CreateThread(NULL, 0, thread_main, (void *)(uintptr_t)task, 0, NULL);
    return *thread != NULL;
}

void burn_thread_join(burn_thread *thread) {
    WaitForSingleObject(*thread, INFINITE);
    CloseHandle(*thread);
}

void burn_yield(void) { SwitchToThread(); }
int32_t burn_cpu_now(void) { return -1; }
void burn_avoid_cpu(burn_placement *placement, int32_t cpu) { (void)placement, (void)cpu; }

/* One lock and one condition for all who sleep. WaitOnAddress would need a library that not everyone links. */
static SRWLOCK asleep = SRWLOCK_INIT;
static CONDITION_VARIABLE bell = CONDITION_VARIABLE_INIT;

void burn_sleep_while(_Atomic uint32_t *word, uint32_t seen) {
    AcquireSRWLockExclusive(&asleep);
    while (atomic_load(word) == seen)
        SleepConditionVariableSRW(&bell, &asleep, INFINITE, 0);
    ReleaseSRWLockExclusive(&asleep);
}

void burn_wake(_Atomic uint32_t *word, int32_t count) {
    (void)word;
    AcquireSRWLockExclusive(&asleep); /* who has looked at the word sleeps by now */
    ReleaseSRWLockExclusive(&asleep);
    for (int32_t i = 0; i < count; i++)
        WakeConditionVariable(&bell);
}

void burn_sleepers_forget(void) {}

void *burn_aligned_new(int64_t bytes) { return _aligned_malloc((size_t)bytes, BURN_ALIGNMENT); }
void burn_aligned_free(void *memory) { _aligned_free(memory); }

void *burn_pages_new(int64_t bytes) {
    return VirtualAlloc(NULL, (size_t)bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void burn_pages_free(void *pages, int64_t bytes) {
    (void)bytes;
    VirtualFree(pages, 0, MEM_RELEASE);
}

int burn_pages_deny(void *pages, int64_t bytes) {
    DWORD before;
    return VirtualProtect(pages, (size_t)bytes, PAGE_NOACCESS, &before) != 0;
}

int64_t burn_clock_ns(void) {
    LARGE_INTEGER now, second;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&second);
    int64_t whole = now.QuadPart / second.QuadPart, rest = now.QuadPart % second.QuadPart;
    return whole * 1000000000 + rest * 1000000000 / second.QuadPart;
}

#elif defined(__wasm__)
/* ---- WebAssembly: memory that grows, and a clock that the host lends ------------------------------------------------ */
#include <time.h>

/* Programs are made by one thread. */
void burn_once_call(burn_once *once, void (*function)(void)) {
    if (!*once)
        function();
    *once = 1;
}

int burn_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    (void)before, (void)parent, (void)child;
    return 1;
}

void burn_yield(void) {}
int32_t burn_cpu_now(void) { return -1; }
void burn_avoid_cpu(burn_placement *placement, int32_t cpu) { (void)placement, (void)cpu; }
void burn_sleepers_forget(void) {}

#ifdef __wasm_atomics__
/* JavaScript has instantiated the module in several workers, over one memory. A page's main thread must not sleep, so locks,
 * which are held for a few instructions, spin. */
enum { INSTANCES = 64, UNUSED = 0, WAITING = 1 };
static _Atomic uint32_t instances[INSTANCES]; /* state of each: `UNUSED`, `WAITING`, or the address of its task */

void burn_lock_take(burn_lock *lock) {
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        ;
}

void burn_lock_give(burn_lock *lock) { atomic_flag_clear_explicit(lock, memory_order_release); }

void burn_instance_main(int32_t number) {
    _Atomic uint32_t *own = &instances[number % INSTANCES];
    for (;;) {
        uint32_t task = WAITING;
        atomic_store(own, WAITING);
        while ((task = atomic_load(own)) == WAITING)
            burn_sleep_while(own, WAITING);
        ((const burn_task *)(uintptr_t)task)->main();
    }
}

int burn_thread_start(burn_thread *thread, const burn_task *task) {
    for (*thread = 0; *thread < INSTANCES; ++*thread) {
        uint32_t waiting = WAITING;
        if (atomic_compare_exchange_strong(&instances[*thread], &waiting, (uint32_t)(uintptr_t)task)) {
            burn_wake(&instances[*thread], 1);
            return 1;
        }
    }
    return 0;
}

void burn_thread_join(burn_thread *thread) {
    while (atomic_load(&instances[*thread]) != WAITING)
        ;
}

void burn_sleep_while(_Atomic uint32_t *word, uint32_t seen) {
    __builtin_wasm_memory_atomic_wait32((int32_t *)(uintptr_t)word, (int32_t)seen, -1);
}

void burn_wake(_Atomic uint32_t *word, int32_t count) {
    __builtin_wasm_memory_atomic_notify((int32_t *)(uintptr_t)word, (uint32_t)count);
}
#else
void burn_lock_take(burn_lock *lock) { (void)lock; }
void burn_lock_give(burn_lock *lock) { (void)lock; }

int burn_thread_start(burn_thread *thread, const burn_task *task) {
    (void)thread, (void)task;
    return 0;
}

void burn_thread_join(burn_thread *thread) { (void)thread; }
void burn_sleep_while(_Atomic uint32_t *word, uint32_t seen) { (void)word, (void)seen; }
void burn_wake(_Atomic uint32_t *word, int32_t count) { (void)word, (void)count; }
#endif

/* The C library's memory has no lock. These two are all that kernels ask of it, and nothing else does while kernels run. */
static burn_lock memory = BURN_LOCK_NEW;

void *burn_aligned_new(int64_t bytes) {
    burn_lock_take(&memory);
    void *made = aligned_alloc(BURN_ALIGNMENT, (size_t)bytes);
    burn_lock_give(&memory);
    return made;
}

void burn_aligned_free(void *given) {
    burn_lock_take(&memory);
    free(given);
    burn_lock_give(&memory);
}

void *burn_pages_new(int64_t bytes) {
    (void)bytes;
    return NULL;
}

void burn_pages_free(void *pages, int64_t bytes) { (void)pages, (void)bytes; }
int burn_pages_deny(void *pages, int64_t bytes) { return (void)pages, (void)bytes, 0; }

int64_t burn_clock_ns(void) {
    struct timespec now;
    return timespec_get(&now, TIME_UTC) ? now.tv_sec * 1000000000ll + now.tv_nsec : 0;
}

#else
/* ---- POSIX --------------------------------------------------------------------------------------------------------- */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

void burn_lock_take(burn_lock *lock) { pthread_mutex_lock(lock); }
void burn_lock_give(burn_lock *lock) { pthread_mutex_unlock(lock); }
void burn_once_call(burn_once *once, void (*function)(void)) { pthread_once(once, function); }

int burn_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    return pthread_atfork(before, parent, child) == 0;
}

static void *thread_main(void *task) {
    ((const burn_task *)task)->main();
    return NULL;
}

int burn_thread_start(burn_thread *thread, const burn_task *task) {
    return pthread_create(thread, NULL, thread_main, (void *)(uintptr_t)task) == 0;
}

void burn_thread_join(burn_thread *thread) { pthread_join(*thread, NULL); }
void burn_yield(void) { sched_yield(); }

#ifdef __linux__
int32_t burn_cpu_now(void) { return sched_getcpu(); }

_Static_assert(sizeof(cpu_set_t) == sizeof((burn_placement *)0)->others, "a placement holds a set of CPUs");

void burn_avoid_cpu(burn_placement *placement, int32_t cpu) {
    cpu_set_t allowed;
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    /* The CPU avoided so far is allowed again, unless someone else has changed the thread's affinity since. */
    if (placement->avoided && memcmp(&allowed, placement->others, sizeof allowed) == 0)
        CPU_SET(placement->avoided - 1, &allowed);
    CPU_CLR(cpu, &allowed);
    if (CPU_COUNT(&allowed) == 0 || sched_setaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    placement->avoided = cpu + 1;
    memcpy(placement->others, &allowed, sizeof allowed);
}

/* Without a mutex: woken threads would queue for it. */
void burn_sleep_while(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void burn_wake(_Atomic uint32_t *word, int32_t count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void burn_sleepers_forget(void) {}
#else
int32_t burn_cpu_now(void) { return -1; }
void burn_avoid_cpu(burn_placement *placement, int32_t cpu) { (void)placement, (void)cpu; }

static pthread_mutex_t asleep = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;

void burn_sleep_while(_Atomic uint32_t *word, uint32_t seen) {
    pthread_mutex_lock(&asleep);
    while (atomic_load(word) == seen)
        pthread_cond_wait(&bell, &asleep);
    pthread_mutex_unlock(&asleep);
}

void burn_wake(_Atomic uint32_t *word, int32_t count) {
    (void)word;
    pthread_mutex_lock(&asleep); /* who has looked at the word sleeps by now */
    pthread_mutex_unlock(&asleep);
    for (int32_t i = 0; i < count; i++)
        pthread_cond_signal(&bell);
}

void burn_sleepers_forget(void) {
    pthread_mutex_init(&asleep, NULL);
    pthread_cond_init(&bell, NULL);
}
#endif

void *burn_aligned_new(int64_t bytes) { return aligned_alloc(BURN_ALIGNMENT, (size_t)bytes); }
void burn_aligned_free(void *memory) { free(memory); }

void *burn_pages_new(int64_t bytes) {
    void *pages = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    madvise(pages, (size_t)bytes, MADV_HUGEPAGE); /* advice: a kernel without huge pages refuses it harmlessly */
#endif
    return pages;
}

void burn_pages_free(void *pages, int64_t bytes) { munmap(pages, (size_t)bytes); }
int burn_pages_deny(void *pages, int64_t bytes) { return mprotect(pages, (size_t)bytes, PROT_NONE) == 0; }

int64_t burn_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
#endif
