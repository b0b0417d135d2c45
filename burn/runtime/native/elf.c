/* Loads a relocatable ELF object for this machine, as LLVM writes it, into this process.
 *
 * Sections go into one mapping in three parts, each on its own pages. These are code (with a jump stub for every external
 * function, for calls out of range), read-only data (with a global offset table) and data.
 * External names are resolved only in symbols.c. The object may come from a corrupted cache file,
 * so every offset is checked before use; unsupported content is refused with the reason.
 * A table (elf_machine.h) holds the differences between machines.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_machine.h"
#include "runtime.h"

/* ELF-64, System V ABI. <elf.h> is not everywhere. */
typedef struct {
    uint8_t magic[4], bits, order, version, abi, padding[8];
    uint16_t type, machine;
    uint32_t file_version;
    uint64_t entry, programs_at, sections_at;
    uint32_t flags;
    uint16_t header_size, program_size, programs, section_size, sections, names;
} file_header;

typedef struct {
    uint32_t name, type;
    uint64_t flags, address, offset, size;
    uint32_t link, info;
    uint64_t alignment, entry_size;
} section_header;

typedef struct {
    uint32_t name;
    uint8_t info, other;
    uint16_t section;
    uint64_t value, size;
} symbol;

typedef struct {
    uint64_t offset, info;
    int64_t addend;
} relocation;

enum { RELOCATABLE = 1 };
enum { SYMTAB = 2, RELA = 4, NOBITS = 8, REL = 9, INIT_ARRAY = 14, FINI_ARRAY = 15, PREINIT_ARRAY = 16 };
enum { WRITE = 1, ALLOC = 2, EXECUTE = 4, TLS = 0x400 };
enum { UNDEFINED = 0, FIRST_RESERVED = 0xff00, ABSOLUTE = 0xfff1 };
enum { WEAK = 2, TYPE_TLS = 6 };
enum { R_NONE = 0 };
enum { CODE, READ_ONLY, DATA, PARTS };
static const uint64_t LIMIT = (uint64_t)1 << 30; /* of the file and the image: 32-bit displacements reach across it */

#if defined(BURN_ELF_MACHINE) /* for tests, which look at another machine's code and do not run it */
static const elf_machine *const machine = &BURN_ELF_MACHINE;
#elif defined(__x86_64__)
static const elf_machine *const machine = &burn_elf_x86_64;
#elif defined(__aarch64__)
static const elf_machine *const machine = &burn_elf_aarch64;
#else
static const elf_machine *const machine = NULL;
#endif

struct burn_image {
    uint8_t *base;
    uint64_t size;
    uint64_t ends[PARTS]; /* of each part, page-aligned */
    /* defined functions, for burn_image_symbol */
    uint64_t defined;
    struct {
        uint64_t name; /* offset in names */
        void *address;
    } *functions;
    char *names;
};

typedef struct {
    const uint8_t *file;
    uint64_t file_size;
    uint64_t section_count;
    section_header *sections;
    uint64_t *placed; /* per section: offset in the image; UINT64_MAX for those not loaded */
    uint64_t symbol_count;
    symbol *symbols;
    const char *names;
    uint64_t names_size;
    uint64_t *values; /* per symbol: its address */
    uint64_t stubs, got; /* offsets in the image; entry i is symbol i's */
    burn_image *image;
    char *error;
    size_t error_size;
} loader;

static int refuse(loader *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(l->error, l->error_size, format, arguments);
    va_end(arguments);
    return 0;
}

static int within(uint64_t offset, uint64_t size, uint64_t limit) { return offset <= limit && size <= limit - offset; }

static uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

static const char *name_of(const loader *l, uint32_t offset) {
    return offset < l->names_size ? l->names + offset : ""; /* read_symbols saw the table end with a zero */
}

/* A table of the file copied out of it: the file promises no alignment. */
static void *copy(loader *l, uint64_t offset, uint64_t count, size_t size) {
    if (count > l->file_size / size || !within(offset, count * size, l->file_size)) {
        refuse(l, "a table of %llu entries reaches beyond the end of the object", (unsigned long long)count);
        return NULL;
    }
    void *table = malloc(count ? count * size : 1);
    if (!table)
        refuse(l, "out of memory");
    else
        memcpy(table, l->file + offset, count * size);
    return table;
}

static int read_sections(loader *l) {
    file_header header;
    if (l->file_size < sizeof header || l->file_size > LIMIT)
        return refuse(l, "%llu bytes is no object file's size", (unsigned long long)l->file_size);
    memcpy(&header, l->file, sizeof header);
    if (memcmp(header.magic, "\177ELF", 4) != 0 || header.bits != 2 || header.order != 1)
        return refuse(l, "not a 64-bit little-endian ELF object");
    if (!machine)
        return refuse(l, "code is not loaded on machines of this kind");
    if (header.type != RELOCATABLE || header.machine != machine->number)
        return refuse(l, "not a relocatable %s object (type %d, machine %d)", machine->name, header.type, header.machine);
    if (header.section_size != sizeof(section_header) || header.sections == 0 || header.sections >= FIRST_RESERVED)
        return refuse(l, "%d section headers of %d bytes", header.sections, header.section_size);
    l->section_count = header.sections;
    l->sections = copy(l, header.sections_at, l->section_count, sizeof *l->sections);
    return l->sections != NULL;
}

static int read_symbols(loader *l) {
    for (uint64_t i = 0; i < l->section_count; i++) {
        const section_header *table = &l->sections[i];
        if (table->type != SYMTAB)
            continue;
        if (l->symbols)
            return refuse(l, "more than one symbol table");
        if (table->entry_size != sizeof(symbol) || table->link >= l->section_count)
            return refuse(l, "malformed symbol table");
        const section_header *names = &l->sections[table->link];
        if (names->type == NOBITS || names->size == 0 || !within(names->offset, names->size, l->file_size) ||
            l->file[names->offset + names->size - 1] != 0)
            return refuse(l, "malformed table of names");
        l->names = (const char *)l->file + names->offset;
        l->names_size = names->size;
        l->symbol_count = table->size / sizeof(symbol);
        l->symbols = copy(l, table->offset, l->symbol_count, sizeof *l->symbols);
        if (!l->symbols)
            return 0;
    }
    return l->symbols ? 1 : refuse(l, "no symbol table");
}

static int part_of(const section_header *section) {
    return section->flags & EXECUTE ? CODE : section->flags & WRITE ? DATA : READ_ONLY;
}

static int lay_out_sections(loader *l) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0;
    l->placed = malloc(l->section_count * sizeof *l->placed);
    if (!l->placed)
        return refuse(l, "out of memory");
    for (int part = 0; part < PARTS; part++) {
        for (uint64_t i = 0; i < l->section_count; i++) {
            const section_header *section = &l->sections[i];
            if (part == 0)
                l->placed[i] = UINT64_MAX;
            if (!(section->flags & ALLOC) || part_of(section) != part || section->size == 0)
                continue;
            uint64_t alignment = section->alignment ? section->alignment : 1;
            if (section->flags & TLS)
                return refuse(l, "thread-local data is not supported");
            if (section->type == INIT_ARRAY || section->type == FINI_ARRAY || section->type == PREINIT_ARRAY)
                return refuse(l, "static constructors and destructors are not supported");
            if (alignment & (alignment - 1) || alignment > page)
                return refuse(l, "a section's alignment is %llu", (unsigned long long)alignment);
            if (section->type != NOBITS && !within(section->offset, section->size, l->file_size))
                return refuse(l, "a section reaches beyond the end of the object");
            at = align_up(at, alignment);
            if (section->size > LIMIT || at + section->size > LIMIT)
                return refuse(l, "the program is larger than %llu bytes", (unsigned long long)LIMIT);
            l->placed[i] = at;
            at += section->size;
        }
        if (part == CODE) {
            l->stubs = align_up(at, ELF_STUB_BYTES);
            at = l->stubs + l->symbol_count * ELF_STUB_BYTES;
        } else if (part == READ_ONLY) {
            l->got = align_up(at, 8);
            at = l->got + l->symbol_count * 8;
        }
        at = align_up(at, page);
        if (at > LIMIT)
            return refuse(l, "the program is larger than %llu bytes", (unsigned long long)LIMIT);
        l->image->ends[part] = at;
    }
    l->image->size = at ? at : page;
    void *base = mmap(NULL, l->image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return refuse(l, "out of memory for %llu bytes of code and data", (unsigned long long)l->image->size);
    l->image->base = base;
    for (uint64_t i = 0; i < l->section_count; i++)
        if (l->placed[i] != UINT64_MAX && l->sections[i].type != NOBITS)
            memcpy(l->image->base + l->placed[i], l->file + l->sections[i].offset, l->sections[i].size);
    return 1;
}

/* Adds a name to the list of those that nothing defines. */
static void list_name(char *list, size_t size, const char *name) {
    size_t used = strlen(list);
    if (used + strlen(name) + 6 < size)
        snprintf(list + used, size - used, "%s'%.200s'", used ? ", " : "", name);
    else if (used + 5 < size && (used < 3 || strcmp(list + used - 3, "...") != 0))
        snprintf(list + used, size - used, " ...");
}

static int resolve_symbols(loader *l) {
    char missing[400] = "";
    uint8_t *base = l->image->base;
    l->values = calloc(l->symbol_count ? l->symbol_count : 1, sizeof *l->values);
    l->image->functions = malloc((l->symbol_count ? l->symbol_count : 1) * sizeof *l->image->functions);
    l->image->names = malloc(l->names_size);
    if (!l->values || !l->image->functions || !l->image->names)
        return refuse(l, "out of memory");
    memcpy(l->image->names, l->names, l->names_size);
    for (uint64_t i = 1; i < l->symbol_count; i++) {
        const symbol *s = &l->symbols[i];
        const char *name = name_of(l, s->name);
        if ((s->info & 15) == TYPE_TLS)
            return refuse(l, "thread-local data is not supported ('%.200s')", name);
        if (s->section == ABSOLUTE) {
            l->values[i] = s->value;
        } else if (s->section == UNDEFINED) {
            if (!*name)
                continue;
            uint64_t address = (uint64_t)(uintptr_t)burn_symbol_find(name);
            if (strcmp(name, "_GLOBAL_OFFSET_TABLE_") == 0)
                address = (uint64_t)(uintptr_t)(base + l->got);
            if (!address && s->info >> 4 != WEAK)
                list_name(missing, sizeof missing, name);
            l->values[i] = address;
            uint8_t *stub = base + l->stubs + i * ELF_STUB_BYTES;
            memcpy(stub, machine->stub, machine->stub_bytes);
            memcpy(stub + machine->stub_bytes, &address, sizeof address);
        } else if (s->section >= l->section_count) {
            return refuse(l, "symbol '%.200s' lies in section %d of %llu", name, s->section,
                          (unsigned long long)l->section_count);
        } else if (l->placed[s->section] != UINT64_MAX) {
            if (s->value > l->sections[s->section].size)
                return refuse(l, "symbol '%.200s' lies beyond the end of its section", name);
            l->values[i] = (uint64_t)(uintptr_t)(base + l->placed[s->section]) + s->value;
            if (part_of(&l->sections[s->section]) == CODE && s->name < l->names_size &&
                s->value < l->sections[s->section].size) {
                l->image->functions[l->image->defined].name = s->name;
                l->image->functions[l->image->defined].address = base + l->placed[s->section] + s->value;
                l->image->defined++;
            }
        }
        memcpy(base + l->got + i * 8, &l->values[i], 8);
    }
    return *missing ? refuse(l, "calls functions that the runtime does not have: %s", missing) : 1;
}

static const elf_relocation *row_of(uint64_t type) {
    for (size_t i = 0; i < machine->count; i++)
        if (machine->relocations[i].type == type)
            return &machine->relocations[i];
    return NULL;
}

static int fits(const elf_relocation *row, int64_t value) {
    unsigned reach = row->shift + row->bits;
    if (row->exact && value & (((int64_t)1 << row->shift) - 1))
        return 0;
    if (row->range == ANY || reach >= 64)
        return 1;
    int as_unsigned = (uint64_t)value < (uint64_t)1 << reach;
    int as_signed = value >= -((int64_t)1 << (reach - 1)) && value < (int64_t)1 << (reach - 1);
    return (row->range != SIGNED && as_unsigned) || (row->range != UNSIGNED && as_signed);
}

/* The field's bits replaced; little-endian, as the object is. */
static void write_field(const elf_relocation *row, uint8_t *place, uint64_t value) {
    uint64_t mask = row->bits < 64 ? ((uint64_t)1 << row->bits) - 1 : UINT64_MAX, word = 0;
    uint64_t field = value >> row->shift & mask;
    memcpy(&word, place, row->bytes);
    if (row->at == SPLIT_FIELD)
        word = (word & ~((uint64_t)3 << 29 | mask >> 2 << 5)) | (field & 3) << 29 | field >> 2 << 5;
    else
        word = (word & ~(mask << row->at)) | field << row->at;
    memcpy(place, &word, row->bytes);
}

/* The value of a relocation: `of` relative to `from`, plus the addend. */
static uint64_t value_of(const elf_relocation *row, uint64_t of, uint64_t table, uint64_t place) {
    static const uint64_t in_page = 4095;
    switch ((elf_from)row->from) {
    case FROM_PLACE: return of - place;
    case FROM_TABLE: return of - table;
    case FROM_PAGE: return (of & ~in_page) - (place & ~in_page);
    case FROM_ZERO: break;
    }
    return of;
}

static int relocate(loader *l, const section_header *target, uint8_t *contents, const relocation *r) {
    uint64_t type = r->info & 0xffffffff, index = r->info >> 32;
    if (type == R_NONE)
        return 1;
    if (index >= l->symbol_count)
        return refuse(l, "a relocation names symbol %llu of %llu", (unsigned long long)index,
                      (unsigned long long)l->symbol_count);
    const elf_relocation *row = row_of(type);
    if (!row)
        return refuse(l, "relocation type %llu is not supported", (unsigned long long)type);
    if (!within(r->offset, row->bytes, target->size))
        return refuse(l, "a relocation lies beyond the end of its section");
    const symbol *s = &l->symbols[index];
    uint64_t place = (uint64_t)(uintptr_t)(contents + r->offset), addend = (uint64_t)r->addend;
    uint64_t table = (uint64_t)(uintptr_t)(l->image->base + l->got);
    uint64_t stub = (uint64_t)(uintptr_t)(l->image->base + l->stubs) + index * ELF_STUB_BYTES;
    uint64_t of = row->of == OF_SLOT ? table + index * 8 : row->of == OF_TABLE ? table : l->values[index];
    uint64_t value = value_of(row, of + addend, table, place);
    if (row->of == OF_CALLED && s->section == UNDEFINED && !fits(row, (int64_t)value))
        value = value_of(row, stub + addend, table, place);
    if (!fits(row, (int64_t)value))
        return refuse(l, "'%.200s' is too far for a relocation, or at an odd place (type %llu)", name_of(l, s->name),
                      (unsigned long long)type);
    write_field(row, contents + r->offset, value);
    return 1;
}

static int apply_relocations(loader *l) {
    for (uint64_t i = 0; i < l->section_count; i++) {
        const section_header *section = &l->sections[i];
        if ((section->type != RELA && section->type != REL) || section->info >= l->section_count)
            continue;
        const section_header *target = &l->sections[section->info];
        if (l->placed[section->info] == UINT64_MAX)
            continue; /* of debugging information */
        if (section->type == REL || section->entry_size != sizeof(relocation) || target->type == NOBITS)
            return refuse(l, "malformed relocations");
        uint64_t count = section->size / sizeof(relocation);
        relocation *list = copy(l, section->offset, count, sizeof *list);
        if (!list)
            return 0;
        int ok = 1;
        uint8_t *contents = l->image->base + l->placed[section->info];
        for (uint64_t r = 0; r < count && ok; r++)
            ok = relocate(l, target, contents, &list[r]);
        free(list);
        if (!ok)
            return 0;
    }
    return 1;
}

static int protect(loader *l) {
    static const int access[PARTS] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    uint64_t begin = 0;
    for (int part = 0; part < PARTS; begin = l->image->ends[part++])
        if (l->image->ends[part] > begin &&
            mprotect(l->image->base + begin, l->image->ends[part] - begin, access[part]) != 0)
            return refuse(l, "the operating system does not allow new executable memory");
    __builtin___clear_cache((char *)l->image->base, (char *)l->image->base + l->image->ends[CODE]);
    return 1;
}

burn_image *burn_image_load(const void *object, size_t size, char *error, size_t error_size) {
    loader l = {.file = object, .file_size = size, .error = error, .error_size = error_size};
    l.image = calloc(1, sizeof *l.image);
    int ok = l.image ? 1 : refuse(&l, "out of memory");
    ok = ok && read_sections(&l) && read_symbols(&l) && lay_out_sections(&l) && resolve_symbols(&l) &&
         apply_relocations(&l) && protect(&l);
    free(l.sections);
    free(l.placed);
    free(l.symbols);
    free(l.values);
    if (ok)
        return l.image;
    burn_image_unload(l.image);
    return NULL;
}

void *burn_image_symbol(const burn_image *image, const char *name) {
    for (uint64_t i = 0; i < image->defined; i++)
        if (strcmp(image->names + image->functions[i].name, name) == 0)
            return image->functions[i].address;
    return NULL;
}

void burn_image_unload(burn_image *image) {
    if (!image)
        return;
    if (image->base)
        munmap(image->base, image->size);
    free(image->functions);
    free(image->names);
    free(image);
}
