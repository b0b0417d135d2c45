/* The thread pool behind burn_rt_launch.
 *
 * One launch at a time uses the pool's workers; a concurrent caller runs its kernel alone. A launch is
 * published by opening a gate. Awake workers enter, take ranges until none is left, and leave. The caller
 * does the same, closes the gate and waits for the workers inside. So a worker that wakes late finds the gate closed at no
 * cost, and no launch waits for a sleeping thread. Workers spin for tens of microseconds (the gap between
 * two calls of a network), then sleep. During a run they spin longer, through kernels with one thread or a late
 * end, because waking takes as long as many kernels.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "run.h"
#include "system.h"

enum {
    FIRST_PIECE = 256,     /* of a range: its first piece, by which it is seen whether the rest takes long */
    PARTS_PER_THREAD = 32, /* of a launch; no range is smaller than one of these */
    MAX_THREADS = 1024,
    WAKE_FAN_OUT = 4,      /* a woken worker wakes this many more: each costs its waker some microseconds */
};
static const int64_t SPIN_NS = 40000, SPIN_IN_RUN_NS = 1000000, PIECE_NS = 20000000;
static const int SPINS_BEFORE_YIELD = 4000;

/* The gate: launch number << 32 | OPEN | number of workers inside. */
#define OPEN ((uint64_t)1 << 31)
#define INSIDE (OPEN - 1)

static struct {
    _Alignas(64) _Atomic uint64_t gate;
    _Alignas(64) _Atomic int64_t open; /* portions with ranges left */
    /* The launch: written by the caller before it opens the gate, read by those who entered. */
    _Alignas(64) burn_run *run;
    burn_kernel kernel;
    const int64_t *args;
    int64_t count, least, grain; /* iterations: of all, of a range at least, and of a piece of a range */
    int64_t portions;
    int is_whole;         /* a portion is one range */
    _Atomic int32_t cpu;  /* that the caller runs on, -1 if unknown */
    /* Who works. */
    _Alignas(64) atomic_flag taken;   /* a launch, or a change of the number of threads, is under way */
    _Atomic int32_t runs;             /* of programs, that are under way */
    _Atomic int32_t born;             /* workers that have begun: each has a number */
    _Atomic int32_t threads;          /* wanted, the caller included; 0 until first asked for */
    int32_t started;                  /* workers that exist; guarded by `taken` */
    burn_thread handles[MAX_THREADS];
    _Atomic int32_t stopping;
    _Alignas(64) _Atomic int32_t asleep;
    _Atomic int32_t to_wake; /* sleepers that this launch could use and that are not woken yet */
    _Atomic uint32_t rings;  /* changes whenever sleepers are woken */
    struct {
        _Alignas(64) _Atomic uint64_t ranges; /* launch number << 32 | ranges of the portion that were taken */
    } taken_of[MAX_THREADS];
} pool = {.taken = ATOMIC_FLAG_INIT};

/* ---- sleep and wake ---------------------------------------------------------------------------------------------- */

static void ring(int32_t count) {
    atomic_fetch_add(&pool.rings, 1);
    burn_wake(&pool.rings, count);
}

/* Wakes a few of those that the launch could use; each of them goes on from there. */
static void wake_some(void) {
    int32_t left = atomic_load(&pool.to_wake), count;
    do {
        if (left <= 0)
            return;
        count = left < WAKE_FAN_OUT ? left : WAKE_FAN_OUT;
    } while (!atomic_compare_exchange_weak(&pool.to_wake, &left, left - count));
    ring(count);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A launch is split into portions, one for each thread, and a thread starts with its own. So consecutive kernels read
 * data that the same core wrote. A portion is taken in ranges: half of it, half of the rest, and so on, down to ranges of the
 * minimum size. A thread that has finished its portion steals ranges of others, so a
 * thread on a slow or busy core delays the end by a small range only. */
static int find_range(int64_t portion, int64_t number, int64_t *begin, int64_t *end, int *is_last) {
    int64_t quotient = pool.count / pool.portions, remainder = pool.count % pool.portions; /* the first are one longer */
    int64_t first = portion * quotient + (portion < remainder ? portion : remainder);
    int64_t left = quotient + (portion < remainder), size = left / 2;
    while (!pool.is_whole && size > pool.least && number > 0) {
        first += size;
        left -= size;
        size = left / 2;
        number--;
    }
    if (!pool.is_whole && size > pool.least) {
        *begin = first;
        *end = first + size;
        *is_last = 0;
        return 1;
    }
    int64_t ranges = !pool.is_whole && left > pool.least ? left / pool.least : 1;
    if (number >= ranges)
        return 0;
    quotient = left / ranges;
    remainder = left % ranges;
    *begin = first + number * quotient + (number < remainder ? number : remainder);
    *end = *begin + quotient + (number < remainder);
    *is_last = number == ranges - 1;
    return 1;
}

/* The next free range of a portion, if there is one. */
static int take_range(uint32_t launch, int64_t portion, int64_t *begin, int64_t *end) {
    _Atomic uint64_t *taken = &pool.taken_of[portion].ranges;
    uint64_t seen = atomic_load_explicit(taken, memory_order_relaxed), number;
    int is_last;
    do {
        number = (uint32_t)(seen >> 32) == launch ? (uint32_t)seen : 0; /* what an earlier launch left counts as none */
        if (!find_range(portion, (int64_t)number, begin, end, &is_last))
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(taken, &seen, (uint64_t)launch << 32 | (number + 1),
                                                    memory_order_relaxed, memory_order_relaxed));
    if (is_last)
        atomic_fetch_sub_explicit(&pool.open, 1, memory_order_relaxed);
    return 1;
}

/* Runs iterations of a kernel on this thread. Long ranges are run in pieces of about PIECE_NS, between which the run can be
 * cancelled. Pieces have at least `least` iterations, because kernels have a setup cost per call. polls: this is the run's thread. */
static void run_range(burn_worker *worker, burn_kernel kernel, const int64_t *args, int64_t begin, int64_t end, int64_t least,
                      int polls) {
    int64_t size = (end - begin) / FIRST_PIECE;
    size = size < least ? least : size < 1 ? 1 : size;
    if (size > (end - begin) / 4) {
        kernel(worker, args, begin, end);
        return;
    }
    int64_t before = burn_clock_ns();
    for (int64_t next = begin + size;; next = begin + size) {
        kernel(worker, args, begin, next);
        if (next == end)
            return;
        int64_t now = burn_clock_ns(), took = now - before + 1;
        if (now - before >= PIECE_NS / FIRST_PIECE) {
            if (polls)
                burn_run_poll(worker->run, 1);
            if (burn_run_failed(worker->run))
                return;
        }
        double more = (double)size * (double)PIECE_NS / (double)took;
        begin = next;
        before = now;
        size = more >= (double)(end - begin) ? end - begin : more < (double)least ? least : more < 1 ? 1 : (int64_t)more;
        if (size > end - begin)
            size = end - begin;
    }
}

static void run_ranges(burn_worker *worker, int32_t index, uint32_t launch) {
    int64_t portions = pool.portions, begin, end;
    for (int64_t step = 0; step < portions; step++) {
        int64_t portion = (index + step) % portions;
        while (take_range(launch, portion, &begin, &end)) {
            if (burn_run_failed(pool.run))
                return;
            run_range(worker, pool.kernel, pool.args, begin, end, pool.grain, index == 0);
        }
        if (atomic_load_explicit(&pool.open, memory_order_relaxed) <= 0)
            return;
    }
}

/* A woken thread often starts on the CPU of the thread that woke it, and would run instead of the caller. */
static void leave_callers_cpu(burn_placement *placement) {
    int32_t cpu = atomic_load_explicit(&pool.cpu, memory_order_relaxed);
    if (cpu >= 0 && burn_cpu_now() == cpu)
        burn_avoid_cpu(placement, cpu);
}

static int launch_to_enter(uint64_t gate, uint32_t last) { return (gate & OPEN) && (uint32_t)(gate >> 32) != last; }

/* Returns when there is a launch other than `last`, or the pool is stopping. *slept says whether it took a nap. */
static void wait_for_launch(uint32_t last, burn_placement *placement, int *slept) {
    int64_t until = burn_clock_ns() + SPIN_NS, last_until = until + SPIN_IN_RUN_NS;
    *slept = 0;
    for (unsigned spins = 1;; spins++) {
        if (launch_to_enter(atomic_load_explicit(&pool.gate, memory_order_relaxed), last) ||
            atomic_load_explicit(&pool.stopping, memory_order_relaxed))
            return;
        relax();
        if (spins % 64)
            continue;
        int64_t now = burn_clock_ns();
        if (now > until || now > last_until)
            break;
        if (atomic_load_explicit(&pool.runs, memory_order_relaxed) > 0) {
            leave_callers_cpu(placement);
            until = now + SPIN_NS;
        }
    }
    *slept = 1;
    uint32_t heard = atomic_load(&pool.rings);
    /* A caller opens the gate and then looks for sleepers; a sleeper is counted and then looks at the gate. Both
     * orders are sequentially consistent, so one of them sees the other. */
    atomic_fetch_add(&pool.asleep, 1);
    if (!launch_to_enter(atomic_load(&pool.gate), last) && !atomic_load(&pool.stopping))
        burn_sleep_while(&pool.rings, heard);
    atomic_fetch_sub(&pool.asleep, 1);
}

static void worker_main(void) {
    burn_worker worker = {0};
    burn_placement placement = {0};
    int32_t index = 1 + atomic_fetch_add(&pool.born, 1); /* the caller is 0 */
    uint32_t last = 0;
    int slept;
    for (;;) {
        wait_for_launch(last, &placement, &slept);
        if (atomic_load_explicit(&pool.stopping, memory_order_acquire))
            break;
        if (slept) {
            wake_some(); /* before entering: the caller waits for those inside */
            leave_callers_cpu(&placement);
        }
        uint64_t gate = atomic_load_explicit(&pool.gate, memory_order_relaxed);
        int entered = 0;
        while (launch_to_enter(gate, last) && !entered)
            entered = atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1, memory_order_acquire,
                                                            memory_order_relaxed);
        if (!entered)
            continue;
        last = (uint32_t)(gate >> 32);
        worker.run = pool.run;
        run_ranges(&worker, index, last);
        atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_release);
    }
    burn_memory_free(worker.scratch);
}

/* ---- how many threads -------------------------------------------------------------------------------------------- */

/* A child of fork has none of its parent's threads. */
static void forget_threads(void) {
    atomic_fetch_and(&pool.gate, ~(OPEN | INSIDE)); /* numbers go on: portions remember by which launch they were taken */
    atomic_store(&pool.runs, 0);
    atomic_flag_clear(&pool.taken);
    atomic_store(&pool.asleep, 0);
    atomic_store(&pool.stopping, 0);
    atomic_store(&pool.born, 0);
    pool.started = 0;
    burn_sleepers_forget();
}

static void take(void) {
    while (atomic_flag_test_and_set_explicit(&pool.taken, memory_order_acquire))
        burn_yield();
}

static void give(void) { atomic_flag_clear_explicit(&pool.taken, memory_order_release); }

/* Called with the pool taken. Fewer threads than wanted is no failure: launches run on those there are. */
static void start(int32_t workers) {
    static const burn_task work = {worker_main};
    static int fork_handled;
    if (!fork_handled)
        fork_handled = burn_at_fork(NULL, NULL, forget_threads);
    /* A new worker must not mistake the launch before its birth for a fresh one: number 0 is never open. */
    while (pool.started < workers && burn_thread_start(&pool.handles[pool.started], &work))
        pool.started++;
}

static void stop(void) {
    atomic_store(&pool.stopping, 1);
    ring(MAX_THREADS);
    for (int32_t i = 0; i < pool.started; i++)
        burn_thread_join(&pool.handles[i]);
    pool.started = 0;
    atomic_store(&pool.born, 0);
    atomic_store(&pool.stopping, 0);
}

int32_t burn_pool_threads_from(const char *text) {
    char *end = NULL;
    long number = text ? strtol(text, &end, 10) : 0;
    return text && end != text && *end == 0 && number >= 1 && number <= MAX_THREADS ? (int32_t)number : 0;
}

int32_t burn_pool_threads(void) {
    if (!BURN_HAS_THREADS)
        return 1;
    int32_t threads = atomic_load_explicit(&pool.threads, memory_order_relaxed);
    if (threads == 0) {
        threads = burn_pool_threads_from(getenv("BURN_NUM_THREADS"));
        if (threads == 0)
            threads = burn_cpu_cores();
        int32_t none = 0;
        if (!atomic_compare_exchange_strong(&pool.threads, &none, threads))
            threads = none;
    }
    return threads;
}

void burn_pool_set_threads(int32_t threads) {
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    take();
    stop();
    atomic_store(&pool.threads, threads);
    give();
}

void burn_pool_stop(void) {
    take();
    stop();
    give();
}

void burn_pool_run_begins(void) { atomic_fetch_add_explicit(&pool.runs, 1, memory_order_relaxed); }

void burn_pool_run_ends(void) { atomic_fetch_sub_explicit(&pool.runs, 1, memory_order_relaxed); }

/* ---- launch ------------------------------------------------------------------------------------------------------ */

void burn_pool_launch(burn_worker *caller, burn_kernel kernel, const int64_t *args, int64_t count, int64_t grain) {
    if (count <= 0)
        return;
    int32_t threads = burn_pool_threads();
    int is_whole = grain < 0;
    if (is_whole)
        grain = -grain;
    if (count <= grain || threads == 1 || count == 1 ||
        atomic_flag_test_and_set_explicit(&pool.taken, memory_order_acquire)) {
        run_range(caller, kernel, args, 0, count, is_whole ? INT64_MAX : grain, 1);
        return;
    }
    if (pool.started < threads - 1)
        start(threads - 1);
    int64_t least = count / ((int64_t)threads * PARTS_PER_THREAD);
    if (least < grain)
        least = grain;
    if (least < 1)
        least = 1;
    pool.run = caller->run;
    pool.kernel = kernel;
    pool.args = args;
    pool.count = count;
    pool.least = least;
    pool.grain = is_whole ? INT64_MAX : grain;
    pool.is_whole = is_whole;
    atomic_store_explicit(&pool.cpu, burn_cpu_now(), memory_order_relaxed);
    pool.portions = count / least < threads ? count / least : threads;
    atomic_store_explicit(&pool.open, pool.portions, memory_order_relaxed);
    uint32_t number = (uint32_t)(atomic_load_explicit(&pool.gate, memory_order_relaxed) >> 32) + 1;
    number += number == 0;
    atomic_store(&pool.gate, (uint64_t)number << 32 | OPEN);
    int32_t asleep = atomic_load(&pool.asleep);
    int64_t wanted = count / least - 1 - (pool.started - asleep); /* more than those awake can take */
    if (asleep > 0 && wanted > 0) {
        atomic_store(&pool.to_wake, wanted < asleep ? (int32_t)wanted : asleep);
        wake_some();
    }
    run_ranges(caller, 0, number);
    atomic_store_explicit(&pool.to_wake, 0, memory_order_relaxed);
    uint64_t gate = atomic_fetch_and_explicit(&pool.gate, ~OPEN, memory_order_acquire);
    for (int spins = 0; gate & INSIDE; spins++) {
        if (spins < SPINS_BEFORE_YIELD)
            relax();
        else
            burn_yield(); /* more threads than cores: let the one that we wait for run */
        gate = atomic_load_explicit(&pool.gate, memory_order_acquire);
    }
    give();
}
