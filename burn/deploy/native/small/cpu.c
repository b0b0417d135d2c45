/* Checks that this CPU has the required features: BURN_NEEDS, LLVM's names between commas. The comparisons fold to
 * constants; without requirements there is no code. */
#ifdef BURN_NEEDS
#include <cpuid.h>

#include "cpu_features.h"

#define IS_NEEDED(name) (__builtin_strstr("," BURN_NEEDS ",", "," name ",") != NULL)

/* The bits that are needed of a register of CPUID. */
static inline __attribute__((always_inline)) uint32_t needed(uint32_t leaf, uint32_t subleaf, int reg) {
    uint32_t bits = 0;
#define ROW(name, its_leaf, its_subleaf, its_reg, bit, saved) \
    bits |= IS_NEEDED(name) && leaf == (its_leaf) && subleaf == (its_subleaf) && reg == (its_reg) ? 1u << (bit) : 0;
    BURN_CPU_FEATURES(ROW)
#undef ROW
    return bits;
}

static int has(uint32_t leaf, uint32_t subleaf, int reg, uint32_t bits) {
    uint32_t regs[4];
    return __get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX]) &&
           (regs[reg] & bits) == bits;
}

/* True if the operating system saves the required registers. */
static int saves_registers(void) {
    uint32_t low, high, wanted = 0;
#define ROW(name, leaf, subleaf, reg, bit, saved) wanted |= IS_NEEDED(name) ? (saved) : 0;
    BURN_CPU_FEATURES(ROW)
#undef ROW
    if (!wanted)
        return 1;
    if (!has(1, 0, ECX, 1u << 27))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & wanted) == wanted;
}

#define HAS(leaf, subleaf, reg) (!needed(leaf, subleaf, reg) || has(leaf, subleaf, reg, needed(leaf, subleaf, reg)))

static int fits_cpu(void) {
    return saves_registers() && HAS(1, 0, ECX) && HAS(7, 0, EBX) && HAS(7, 0, ECX) && HAS(7, 0, EDX) && HAS(7, 1, EAX) &&
           HAS(7, 1, EDX) && HAS(0x80000001, 0, ECX);
}
#else
static int fits_cpu(void) { return 1; }
#endif
