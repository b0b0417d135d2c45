/* Text on the terminal of the debugger, or of qemu: ARM's semihosting. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H
#include <stdint.h>

static inline void semihosting(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static inline void print(const char *text) { semihosting(4, text); }

static inline void print_number(int32_t number) {
    char text[12], *at = text + 11;
    uint32_t left = number < 0 ? 0u - (uint32_t)number : (uint32_t)number;
    *at = 0;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0)
        *--at = '-';
    print(at);
}

static inline void leave(void) { semihosting(0x18, (const void *)0x20026); }

#endif
