/* Extensions of x86-64: the name in LLVM's X86.td, the CPUID bit (leaf, subleaf, register, bit), and the bits of XCR0
 * that are set if the operating system saves its registers. */
#ifndef BURN_CPU_FEATURES_H
#define BURN_CPU_FEATURES_H

enum { EAX, EBX, ECX, EDX };
enum { ANY = 0, YMM = 6, ZMM = 0xe6, TILES = 0x60000 };

/* clang-format off */
#define BURN_CPU_FEATURES(row) \
    row("sse3", 1, 0, ECX, 0, ANY) row("pclmul", 1, 0, ECX, 1, ANY) row("ssse3", 1, 0, ECX, 9, ANY) \
    row("fma", 1, 0, ECX, 12, YMM) row("cx16", 1, 0, ECX, 13, ANY) row("sse4.1", 1, 0, ECX, 19, ANY) \
    row("sse4.2", 1, 0, ECX, 20, ANY) row("movbe", 1, 0, ECX, 22, ANY) row("popcnt", 1, 0, ECX, 23, ANY) \
    row("avx", 1, 0, ECX, 28, YMM) row("f16c", 1, 0, ECX, 29, YMM) row("bmi", 7, 0, EBX, 3, ANY) \
    row("avx2", 7, 0, EBX, 5, YMM) row("bmi2", 7, 0, EBX, 8, ANY) row("avx512f", 7, 0, EBX, 16, ZMM) \
    row("avx512dq", 7, 0, EBX, 17, ZMM) row("avx512ifma", 7, 0, EBX, 21, ZMM) \
    row("avx512cd", 7, 0, EBX, 28, ZMM) row("avx512bw", 7, 0, EBX, 30, ZMM) row("avx512vl", 7, 0, EBX, 31, ZMM) \
    row("avx512vbmi", 7, 0, ECX, 1, ZMM) row("avx512vbmi2", 7, 0, ECX, 6, ZMM) row("gfni", 7, 0, ECX, 8, ANY) \
    row("vaes", 7, 0, ECX, 9, YMM) row("vpclmulqdq", 7, 0, ECX, 10, YMM) row("avx512vnni", 7, 0, ECX, 11, ZMM) \
    row("avx512bitalg", 7, 0, ECX, 12, ZMM) row("avx512vpopcntdq", 7, 0, ECX, 14, ZMM) \
    row("amx-bf16", 7, 0, EDX, 22, TILES) row("avx512fp16", 7, 0, EDX, 23, ZMM) \
    row("amx-tile", 7, 0, EDX, 24, TILES) row("amx-int8", 7, 0, EDX, 25, TILES) \
    row("avxvnni", 7, 1, EAX, 4, YMM) row("avx512bf16", 7, 1, EAX, 5, ZMM) row("avxifma", 7, 1, EAX, 23, YMM) \
    row("avxvnniint8", 7, 1, EDX, 4, YMM) row("lzcnt", 0x80000001, 0, ECX, 5, ANY)
/* clang-format on */

#endif
