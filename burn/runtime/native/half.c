/* The conversions that LLVM calls when the CPU has no instruction for them (compiler-rt's names and rounding: to
 * nearest even).
 *
 * The x86-64 and AArch64 calling conventions pass a half or bfloat in the low 16 bits of a floating-point register.
 * Declared as `float`, it uses just that register with any C11 compiler.
 * WebAssembly passes it in an integer: there the compiler's own conversions are linked instead.
 */
#include "half.h"

#ifndef __wasm__
#include <string.h>

static float in_register(uint16_t bits) {
    uint32_t word = bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t from_register(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return (uint16_t)word;
}

/* To a 16-bit format with `exponent_bits` and `mantissa_bits`, rounded once. */
static uint16_t narrow(double value, int exponent_bits, int mantissa_bits) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & (((uint64_t)1 << 52) - 1);
    int largest = (1 << exponent_bits) - 1;
    uint16_t infinity = (uint16_t)(largest << mantissa_bits);
    if (exponent == 0x7ff) {
        if (!mantissa)
            return sign | infinity;
        return (uint16_t)(sign | infinity | 1 << (mantissa_bits - 1) | mantissa >> (52 - mantissa_bits));
    }
    if (exponent == 0)
        return sign; /* a subnormal double is far below either format's smallest number */
    int rebiased = exponent - 1023 + (largest >> 1);
    if (rebiased >= largest)
        return sign | infinity;
    int shift = 52 - mantissa_bits;
    uint64_t significand = mantissa | (uint64_t)1 << 52;
    if (rebiased <= 0) {
        shift += 1 - rebiased;
        if (shift > 53)
            return sign;
    }
    uint64_t kept = significand >> shift, half = (uint64_t)1 << (shift - 1);
    uint64_t rest = significand & (((uint64_t)1 << shift) - 1);
    kept += rest > half || (rest == half && (kept & 1));
    if (rebiased > 0) /* the implicit one is in `kept`; a carry out of the mantissa raises the exponent as it should */
        kept += (uint64_t)(rebiased - 1) << mantissa_bits;
    return (uint16_t)(sign | kept);
}

float burn_truncdfhf2(double value) { return in_register(narrow(value, 5, 10)); }
float burn_truncsfhf2(float value) { return in_register(narrow(value, 5, 10)); }
float burn_truncdfbf2(double value) { return in_register(narrow(value, 8, 7)); }
float burn_truncsfbf2(float value) { return in_register(narrow(value, 8, 7)); }

float burn_extendhfsf2(float value) {
    uint16_t bits = from_register(value);
    uint32_t sign = (uint32_t)(bits >> 15) << 31, exponent = bits >> 10 & 31, mantissa = bits & 1023, word;
    float result;
    if (exponent == 31)
        word = sign | 0x7f800000u | mantissa << 13 | (mantissa ? 1u << 22 : 0);
    else if (exponent)
        word = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        result = (float)mantissa * 0x1p-24f; /* subnormal: exact */
        return sign ? -result : result;
    }
    memcpy(&result, &word, sizeof result);
    return result;
}
#endif
