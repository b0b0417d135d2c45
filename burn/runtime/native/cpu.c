/* Facts about this CPU: instruction sets (by LLVM's names, after checking that the operating system saves their
 * registers), caches, and the number of cores for this process. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#endif
#ifdef _WIN32
#include <windows.h>
#else
#include <unistd.h>
#endif

#include "runtime.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

#include "cpu_features.h"

static const struct {
    const char *name;
    uint32_t leaf, subleaf;
    uint8_t reg, bit;
    uint32_t saved;
} features[] = {
#define ROW(name, leaf, subleaf, reg, bit, saved) {name, leaf, subleaf, reg, bit, saved},
    BURN_CPU_FEATURES(ROW)
#undef ROW
};

static int cpuid(uint32_t leaf, uint32_t subleaf, uint32_t regs[4]) {
    return __get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX]);
}

/* XCR0: which registers the operating system saves when it switches threads. */
static uint64_t saved_registers(void) {
    uint32_t regs[4], low, high;
    if (!cpuid(1, 0, regs) || !(regs[ECX] >> 27 & 1))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* True if this process may use tile registers. Linux grants them on request, permanently and for all threads. It refuses if
 * a thread's signal stack is too small for them. */
static int tiles_granted(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
#else
    return 0;
#endif
}

void burn_cpu_features(void (*found)(void *context, const char *feature), void *context) {
    uint64_t saved = saved_registers();
    if ((saved & TILES) == TILES && !tiles_granted())
        saved &= ~(uint64_t)TILES;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        uint32_t regs[4];
        if (cpuid(features[i].leaf, features[i].subleaf, regs) && regs[features[i].reg] >> features[i].bit & 1 &&
            (saved & features[i].saved) == features[i].saved)
            found(context, features[i].name);
    }
}

int64_t burn_cpu_cache_bytes(int level) {
    uint32_t regs[4], leaf = 4;
    /* AMD describes its caches in a leaf of its own, in Intel's format. */
    if (cpuid(0x80000001, 0, regs) && regs[ECX] >> 22 & 1)
        leaf = 0x8000001d;
    for (uint32_t i = 0; i < 16 && cpuid(leaf, i, regs) && (regs[EAX] & 31) != 0; i++) {
        int type = regs[EAX] & 31, at = regs[EAX] >> 5 & 7; /* type 1: data, 3: unified */
        if (at == level && (type == 1 || type == 3))
            return (int64_t)((regs[EBX] >> 22) + 1) * ((regs[EBX] >> 12 & 1023) + 1) * ((regs[EBX] & 4095) + 1) *
                   ((int64_t)regs[ECX] + 1);
    }
    return 0;
}

void burn_cpu_name(char name[64]) {
    memset(name, 0, 64);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t regs[4];
        if (!cpuid(0x80000002 + i, 0, regs))
            return;
        memcpy(name + 16 * i, regs, 16);
    }
    size_t length = strlen(name), lead = strspn(name, " ");
    while (length > lead && name[length - 1] == ' ')
        length--;
    memmove(name, name + lead, length - lead);
    name[length - lead] = 0;
}

#else

/* Linux's CPU features in two words (asm/hwcap.h), by LLVM's names. */
#if defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
#include <sys/auxv.h>

static const struct {
    const char *name;
    unsigned long kind;
    int bit;
} features[] = {
#ifdef __aarch64__
    {"lse", AT_HWCAP, 8},     {"fullfp16", AT_HWCAP, 10}, {"dotprod", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},
    {"i8mm", AT_HWCAP2, 13},  {"bf16", AT_HWCAP2, 14},
#else
    {"v", AT_HWCAP, 'v' - 'a'},
#endif
};

static void optional_features(void (*found)(void *context, const char *feature), void *context) {
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (getauxval(features[i].kind) >> features[i].bit & 1)
            found(context, features[i].name);
}
#else
static void optional_features(void (*found)(void *context, const char *feature), void *context) {
    (void)found, (void)context;
}
#endif

void burn_cpu_features(void (*found)(void *context, const char *feature), void *context) {
#ifdef __aarch64__
    found(context, "neon"); /* part of the base architecture */
#endif
    optional_features(found, context);
}

int64_t burn_cpu_cache_bytes(int level) {
#ifdef _SC_LEVEL1_DCACHE_SIZE /* glibc's */
    static const int names[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    long bytes = level >= 1 && level <= 3 ? sysconf(names[level]) : 0;
    return bytes > 0 ? bytes : 0;
#else
    (void)level;
    return 0;
#endif
}

void burn_cpu_name(char name[64]) { memset(name, 0, 64); }
#endif

/* ---- cores ------------------------------------------------------------------------------------------------------- */

#ifdef __linux__
static int read_line(const char *path, char *line, int size) {
    FILE *file = fopen(path, "r");
    int ok = file && fgets(line, size, file);
    if (file)
        fclose(file);
    return ok;
}

/* A container's share of CPU time, in whole CPUs; `most` when there is no limit. */
static int32_t quota(int32_t most) {
    char line[128], period_line[64];
    long long allowed = 0, period = 0;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line))
        sscanf(line, "%lld %lld", &allowed, &period); /* "max 100000" reads as no number: no limit */
    else if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line) &&
             read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period_line, sizeof period_line)) {
        sscanf(line, "%lld", &allowed);
        sscanf(period_line, "%lld", &period);
    }
    if (allowed <= 0 || period <= 0)
        return most;
    long long cpus = (allowed + period - 1) / period;
    return cpus < most ? (int32_t)cpus : most;
}

int32_t burn_cpu_cores(void) {
    cpu_set_t allowed, seen;
    CPU_ZERO(&allowed);
    CPU_ZERO(&seen);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        return quota(online > 0 ? (int32_t)online : 1);
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        char path[96], line[128];
        int first = cpu; /* of the hyper-threads on this core: "0,64" or "0-1" */
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        if (read_line(path, line, sizeof line) && isdigit((unsigned char)line[0]))
            sscanf(line, "%d", &first);
        if (first >= 0 && first < CPU_SETSIZE)
            CPU_SET(first, &seen);
    }
    int32_t cores = CPU_COUNT(&seen);
    return quota(cores > 0 ? cores : 1);
}
#elif defined(_WIN32)
int32_t burn_cpu_cores(void) {
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION *all = NULL;
    DWORD bytes = 0;
    int32_t cores = 0;
    if (!GetLogicalProcessorInformation(NULL, &bytes) && GetLastError() == ERROR_INSUFFICIENT_BUFFER)
        all = malloc(bytes);
    if (all && GetLogicalProcessorInformation(all, &bytes))
        for (size_t i = 0; i < bytes / sizeof *all; i++)
            cores += all[i].Relationship == RelationProcessorCore;
    free(all);
    return cores > 0 ? cores : 1;
}
#elif defined(__wasm__)
int32_t burn_cpu_cores(void) { return 1; }
#else
int32_t burn_cpu_cores(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int32_t)online : 1;
}
#endif
