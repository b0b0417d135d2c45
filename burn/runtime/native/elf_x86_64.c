/* x86-64's relocations (System V ABI, its supplement). Fields are whole words of 32 or 64 bits. */
#include "elf_machine.h"

#define WORD(type, of, from, range) {type, of, from, 4, 0, 32, 0, range, 0}
#define LONG(type, of, from) {type, of, from, 8, 0, 64, 0, ANY, 0}

static const elf_relocation relocations[] = {
    LONG(1, OF_SYMBOL, FROM_ZERO),            /* R_X86_64_64 */
    WORD(2, OF_CALLED, FROM_PLACE, SIGNED),   /* PC32: also of calls, in code without a PLT */
    WORD(4, OF_CALLED, FROM_PLACE, SIGNED),   /* PLT32 */
    WORD(9, OF_SLOT, FROM_PLACE, SIGNED),     /* GOTPCREL */
    WORD(10, OF_SYMBOL, FROM_ZERO, UNSIGNED), /* 32 */
    WORD(11, OF_SYMBOL, FROM_ZERO, SIGNED),   /* 32S */
    LONG(24, OF_SYMBOL, FROM_PLACE),          /* PC64 */
    LONG(25, OF_SYMBOL, FROM_TABLE),          /* GOTOFF64 */
    WORD(26, OF_TABLE, FROM_PLACE, SIGNED),   /* GOTPC32 */
    LONG(27, OF_SLOT, FROM_TABLE),            /* GOT64 */
    LONG(28, OF_SLOT, FROM_PLACE),            /* GOTPCREL64 */
    LONG(29, OF_TABLE, FROM_PLACE),           /* GOTPC64 */
    LONG(31, OF_SYMBOL, FROM_TABLE),          /* PLTOFF64 */
    WORD(41, OF_SLOT, FROM_PLACE, SIGNED),    /* GOTPCRELX */
    WORD(42, OF_SLOT, FROM_PLACE, SIGNED),    /* REX_GOTPCRELX */
};

const elf_machine burn_elf_x86_64 = {
    .name = "x86-64",
    .number = 62,
    .stub = {0xff, 0x25, 0, 0, 0, 0}, /* jmp *0(%rip) */
    .stub_bytes = 6,
    .count = sizeof relocations / sizeof *relocations,
    .relocations = relocations,
};
