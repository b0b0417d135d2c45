/* AArch64's relocations (ELF for the Arm 64-bit Architecture). An instruction holds a part of an address: four moves
 * build 64 bits; ADRP takes a distance in pages of 4 KiB, and the next instruction the offset in the page. */
#include "elf_machine.h"

#define DATA(type, from, bytes, range) {type, OF_SYMBOL, from, bytes, 0, 8 * (bytes), 0, range, 0}
#define MOVE(type, part, range) {type, OF_SYMBOL, FROM_ZERO, 4, 16 * (part), 16, 5, range, 0}
#define LOW(type, of, scale) {type, of, FROM_ZERO, 4, scale, 12 - (scale), 10, ANY, 1}
#define PAGE(type, of, range) {type, of, FROM_PAGE, 4, 12, 21, SPLIT_FIELD, range, 0}
#define JUMP(type, of, bits, at) {type, of, FROM_PLACE, 4, 2, bits, at, SIGNED, 1}

static const elf_relocation relocations[] = {
    DATA(257, FROM_ZERO, 8, ANY),     /* R_AARCH64_ABS64 */
    DATA(258, FROM_ZERO, 4, EITHER),  /* ABS32 */
    DATA(259, FROM_ZERO, 2, EITHER),  /* ABS16 */
    DATA(260, FROM_PLACE, 8, ANY),    /* PREL64 */
    DATA(261, FROM_PLACE, 4, EITHER), /* PREL32 */
    DATA(262, FROM_PLACE, 2, EITHER), /* PREL16 */
    MOVE(263, 0, UNSIGNED),           /* MOVW_UABS_G0 */
    MOVE(264, 0, ANY),                /* MOVW_UABS_G0_NC */
    MOVE(265, 1, UNSIGNED),           /* MOVW_UABS_G1 */
    MOVE(266, 1, ANY),                /* MOVW_UABS_G1_NC */
    MOVE(267, 2, UNSIGNED),           /* MOVW_UABS_G2 */
    MOVE(268, 2, ANY),                /* MOVW_UABS_G2_NC */
    MOVE(269, 3, ANY),                /* MOVW_UABS_G3 */
    JUMP(273, OF_SYMBOL, 19, 5),      /* LD_PREL_LO19 */
    {274, OF_SYMBOL, FROM_PLACE, 4, 0, 21, SPLIT_FIELD, SIGNED, 0}, /* ADR_PREL_LO21 */
    PAGE(275, OF_SYMBOL, SIGNED),     /* ADR_PREL_PG_HI21 */
    PAGE(276, OF_SYMBOL, ANY),        /* ADR_PREL_PG_HI21_NC */
    LOW(277, OF_SYMBOL, 0),           /* ADD_ABS_LO12_NC */
    LOW(278, OF_SYMBOL, 0),           /* LDST8_ABS_LO12_NC */
    JUMP(279, OF_SYMBOL, 14, 5),      /* TSTBR14 */
    JUMP(280, OF_SYMBOL, 19, 5),      /* CONDBR19 */
    JUMP(282, OF_CALLED, 26, 0),      /* JUMP26 */
    JUMP(283, OF_CALLED, 26, 0),      /* CALL26 */
    LOW(284, OF_SYMBOL, 1),           /* LDST16_ABS_LO12_NC */
    LOW(285, OF_SYMBOL, 2),           /* LDST32_ABS_LO12_NC */
    LOW(286, OF_SYMBOL, 3),           /* LDST64_ABS_LO12_NC */
    LOW(299, OF_SYMBOL, 4),           /* LDST128_ABS_LO12_NC */
    JUMP(309, OF_SLOT, 19, 5),        /* GOT_LD_PREL19 */
    PAGE(311, OF_SLOT, SIGNED),       /* ADR_GOT_PAGE */
    LOW(312, OF_SLOT, 3),             /* LD64_GOT_LO12_NC */
    DATA(314, FROM_PLACE, 4, SIGNED), /* PLT32 */
};

const elf_machine burn_elf_aarch64 = {
    .name = "AArch64",
    .number = 183,
    .stub = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6}, /* ldr x16, 8 bytes from here; br x16 */
    .stub_bytes = 8,
    .count = sizeof relocations / sizeof *relocations,
    .relocations = relocations,
};
