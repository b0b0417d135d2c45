"""The symbol table of a relocatable ELF object, for tests of the symbols in generated code."""

from __future__ import annotations

import struct

_SYMTAB = 2  # sh_type of the symbol table
_UNDEFINED = 0  # st_shndx of a symbol that another object has to define


def symbols(data: bytes) -> dict[str, bool]:
    """The names in a 64-bit little-endian object's symbol table; whether the object itself defines each.

    Layouts are those of the ELF-64 specification: the file header, section headers and symbol entries."""
    assert data[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF object"
    (table,) = struct.unpack_from("<Q", data, 40)
    entry_size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry_size) for i in range(count)]
    found: dict[str, bool] = {}
    for _, kind, _, _, offset, size, link, _, _, each in sections:
        if kind != _SYMTAB:
            continue
        names = sections[link][4]
        for slot in range(offset, offset + size, each):
            name, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, slot)
            start = names + name
            text = data[start : data.index(b"\0", start)].decode()
            if text:
                found[text] = section != _UNDEFINED
    return found
