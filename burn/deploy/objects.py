"""Relocatable objects as LLVM's ExecutionEngine writes them for x86-64, made fit for linking: `linkable`.

The engine's code is to run where it was made: addresses are loaded as numbers of 64 bits, which a shared library cannot have in
its code. They become distances from the instruction, which is as fast. The entry of every program is called the same; in a
binary with two of them each needs a name of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from burn.errors import CompileError

MACHINES = ("x86_64",)
"""Architectures whose objects `linkable` supports."""

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SECTIONS_AT, _SECTION_COUNT = 40, 60  # in an ELF header of 64 bits
_RELOCATION = struct.Struct("<QQq")
_SYMTAB, _RELA = 2, 4
_WRITE, _EXECUTE, _MERGE = 1, 4, 0x30
_R_64, _R_PC32, _R_PLT32 = 1, 2, 4
_HIDDEN = 2
_FIELD = 4  # bytes of a distance, which counts from behind it
_SIZE = 5  # of a section's fields: name, type, flags, address, offset, size
_OFFSET = 4


def linkable(code: bytes, old: str, new: str, called: Callable[[str], str] = str) -> bytes:
    """An object that any linker takes into any binary, its entry `old` called `new`, and what it calls as `called` says."""
    return renamed(position_independent(code), old, new, called)


def position_independent(code: bytes) -> bytes:
    """An object whose code has no addresses as numbers: `movabs $address, %register`, which is how large code loads every one,
    becomes `lea distance(%rip), %register` and three bytes of nothing. Tables of addresses become data, which a loader may
    write to."""
    made = bytearray(code)
    headers = list(_headers(code))
    for position, fields in headers:
        fields[
            2
        ] &= ~_MERGE  # a distance counts from behind its field, where a linker that merges would look for a constant
        _SECTION.pack_into(made, position, *fields)
    for _, fields in headers:
        if fields[1] != _RELA:
            continue
        position, target = headers[fields[7]]
        if not target[2] & _EXECUTE:
            target[2] |= _WRITE
            _SECTION.pack_into(made, position, *target)
            continue
        for at in range(fields[_OFFSET], fields[_OFFSET] + fields[_SIZE], _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(code, at)
            if info & 0xFFFFFFFF == _R_64:
                _relative(made, target[_OFFSET] + offset)
                kind = _R_PC32 if _is_local(code, info >> 32) else _R_PLT32
                _RELOCATION.pack_into(made, at, offset + 1, info >> 32 << 32 | kind, addend - _FIELD)
    return bytes(made)


def _relative(made: bytearray, operand: int) -> None:
    """Rewrites the instruction whose operand of 64 bits lies there: its distance then lies one byte further."""
    prefix, opcode = made[operand - 2], made[operand - 1]
    if prefix not in (0x48, 0x49) or opcode & 0xF8 != 0xB8:
        raise CompileError("the code cannot be linked", [f"an address at byte {operand} is no operand of movabs"])
    register = opcode & 7
    made[operand - 2 : operand + 8] = bytes(
        [0x48 | (prefix & 1) << 2, 0x8D, register << 3 | 5, *bytes(4), 0x0F, 0x1F, 0x00]
    )


def _is_local(code: bytes, symbol: int) -> bool:
    """True if a symbol is defined in the object."""
    table, _ = _table(code)
    return _SYMBOL.unpack_from(code, table[_OFFSET] + symbol * _SYMBOL.size)[3] != 0


def renamed(code: bytes, old: str, new: str, called: Callable[[str], str] = str) -> bytes:
    """An ELF object with `old` replaced by `new` in symbols' names, which become hidden. `called` renames undefined
    symbols. The string table moves to the end, followed by the new names."""
    made = bytearray(code)
    table_at, fields, names = _names(code)
    for position, name, section in _symbols(code):
        if section and old in name:  # the engine adds functions of its own, by names like the entry's
            struct.pack_into("<I", made, position, len(names))
            made[position + 5] = _HIDDEN
            names += name.replace(old, new).encode() + b"\0"
        elif not section and called(name) != name:
            struct.pack_into("<I", made, position, len(names))
            names += called(name).encode() + b"\0"
    fields[_OFFSET], fields[_SIZE] = len(made), len(names)
    _SECTION.pack_into(made, table_at, *fields)
    return bytes(made) + names


def asked_for(code: bytes) -> frozenset[str]:
    """The names that an ELF object leaves to others to define."""
    return frozenset(name for _, name, section in _symbols(code) if section == 0 and name)


def _headers(code: bytes) -> Iterator[tuple[int, list[int]]]:
    (at,) = struct.unpack_from("<Q", code, _SECTIONS_AT)
    (count,) = struct.unpack_from("<H", code, _SECTION_COUNT)
    for index in range(count):
        position = at + index * _SECTION.size
        yield position, list(_SECTION.unpack_from(code, position))


def _table(code: bytes) -> tuple[list[int], list[tuple[int, list[int]]]]:
    headers = list(_headers(code))
    return next(fields for _, fields in headers if fields[1] == _SYMTAB), headers


def _names(code: bytes) -> tuple[int, list[int], bytes]:
    """Where the header of symbols' names lies, its fields, and the names."""
    symbols, headers = _table(code)
    position, fields = headers[symbols[6]]
    return position, fields, code[fields[_OFFSET] : fields[_OFFSET] + fields[_SIZE]]


def _symbols(code: bytes) -> Iterator[tuple[int, str, int]]:
    """Each symbol's offset, name and section (0: undefined)."""
    table, _ = _table(code)
    names = _names(code)[2]
    for position in range(table[_OFFSET], table[_OFFSET] + table[_SIZE], _SYMBOL.size):
        at, _, _, section, _, _ = _SYMBOL.unpack_from(code, position)
        yield position, names[at : names.index(b"\0", at)].decode(), section
