/* The machine-specific part of elf.c: computation and encoding of relocations, and far jumps.
 * A relocation is a row: the value (`of` relative to `from`, plus the addend), and the field of the
 * instruction or the data that holds it. */
#ifndef BURN_ELF_MACHINE_H
#define BURN_ELF_MACHINE_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    OF_SYMBOL, /* its address */
    OF_CALLED, /* a function's address, or its stub's where that is too far */
    OF_SLOT,   /* the address of its slot in the global offset table */
    OF_TABLE,  /* the table's */
} elf_of;

typedef enum {
    FROM_ZERO,
    FROM_PLACE, /* where the field lies */
    FROM_TABLE, /* the global offset table */
    FROM_PAGE,  /* both at the beginning of their 4 KiB */
} elf_from;

typedef enum {
    ANY,      /* bits beyond the field are left out: another instruction has them, or there are none */
    SIGNED,   /* the value must fit */
    UNSIGNED,
    EITHER,   /* one or the other */
} elf_range;

enum { SPLIT_FIELD = 0xff }; /* of `at`: the lowest two bits at bit 29, the others at bit 5 (AArch64's ADR and ADRP) */

typedef struct {
    uint32_t type;
    uint8_t of, from;
    uint8_t bytes;        /* that are read and written: 2, 4 or 8 */
    uint8_t shift, bits;  /* bits shift ... shift + bits - 1 of the value */
    uint8_t at;           /* ... become those from here on */
    uint8_t range;
    uint8_t exact;        /* bits of the value below `shift` must be 0 */
} elf_relocation;

enum { ELF_STUB_BYTES = 16 };

typedef struct {
    const char *name; /* for messages */
    uint16_t number;  /* in an ELF header */
    uint8_t stub[8];  /* code that jumps to the address that stands behind `stub_bytes` of it, anywhere in memory */
    uint8_t stub_bytes;
    size_t count;
    const elf_relocation *relocations;
} elf_machine;

extern const elf_machine burn_elf_x86_64, burn_elf_aarch64;

#endif
