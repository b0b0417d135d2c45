/* The startup code of a Cortex-M4, before main: the vector table, the floating-point unit, .data and .bss. */
#include <stdint.h>

extern unsigned char stack_top[], data_begin[], data_end[], data_in_flash[], bss_begin[], bss_end[];
int main(void);

static void reset(void) {
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: full access to the floating-point unit */
    __asm__ volatile("dsb\n\tisb");
    for (volatile unsigned char *at = data_begin, *from = data_in_flash; at < data_end;)
        *at++ = *from++;
    for (volatile unsigned char *at = bss_begin; at < bss_end;)
        *at++ = 0;
    main();
    for (;;)
        ;
}

static void stuck(void) {
    for (;;)
        ;
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(uintptr_t)stack_top, reset, stuck, stuck, stuck, stuck, stuck,
};
