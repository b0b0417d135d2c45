"""PTX that multiplies weights of few bits in registers by tensor cores: `multiplication`.

A thread passes four words of a chunk (`burn.passes.block_fragments`) and its elements of up to eight rows. Numbers become half
precision without a conversion: their bits are set in a float of a known exponent, which is then subtracted. Both are exact.
Sums are in float32. Scales are applied to the sums.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

WORDS = 4
"""Words that a thread passes, and results that it gets for each column of a fragment's result: see `multiplication`."""


@dataclass(frozen=True)
class Half:
    """A type of half precision. name: in PTX. bits: of its significand. ones: two ones. base: two floats of 2^bits. To set the
    lowest bits of such a float adds an integer to it."""

    name: str
    bits: int
    ones: int
    base: int


HALF_TYPES = {"float16": Half("f16", 10, 0x3C003C00, 0x64006400), "bfloat16": Half("bf16", 7, 0x3F803F80, 0x43004300)}


@dataclass(frozen=True)
class Inline:
    """Text and operand constraints for `inline_asm_elementwise` with `pack=4`."""

    text: str
    constraints: str


def multiplication(bits: int, dtype: str, odd: bool, sums: bool) -> Inline:
    """The code for numbers of so many bits and rows of type `dtype`.

    Inputs: words, then tensors with four elements of a row each, in the order of the depth. There are four such tensors for
    4 bits, and two for 8.

    Outputs: for the even rows a tensor of sums of products, and with `sums` a tensor of the sums of the elements. With `odd` the
    same for the odd rows. A thread's four elements are for 4 bits those of the columns g and g + 8 for each half of the chunk.
    For 8 bits they are those of a column's two words, for each of these columns."""
    half = HALF_TYPES[dtype]
    tensors = (1 + odd) * (1 + sums)
    words = [f"${WORDS * tensors + i}" for i in range(WORDS)]
    rows = [f"${WORDS * (tensors + 1) + i}" for i in range(2 * (4 if bits == 4 else 2))]
    lines = [".reg .b32 n<8>;", ".reg .b32 s;", ".reg .f32 c<4>;", ".reg .f32 t<4>;", ".reg .f32 f<4>;"]
    if bits == 4:
        for part in range(2):
            lines += [line for h in range(2) for line in _numbers4(half, words[2 * part + h], 4 * h)]
            elements = [2 * part, 2 * part + 1]
            lines += _multiplied(half, rows[4 * part : 4 * part + 4], elements, odd, sums)
    else:
        for part in range(2):
            lines += [line for h in range(2) for line in _numbers8(half, words[2 * h + part], 4 * h)]
            lines += _multiplied(half, rows[2 * part : 2 * part + 2], [part, 2 + part], odd, sums)
    inputs = WORDS + len(rows)
    return Inline(
        "{ " + " ".join(lines) + " }", ",".join(["=&f"] * (WORDS * tensors) + ["r"] * inputs)
    )  # outputs are written while inputs are still read


def _multiplied(half: Half, rows: list[str], elements: list[int], odd: bool, sums: bool) -> Iterator[str]:
    """Multiplies the numbers in n0.. by two registers of rows at a time. elements: of the results, for both columns."""
    kind = f"mma.sync.aligned.m16n8k16.row.col.f32.{half.name}.{half.name}.f32"
    ones = ", ".join(["s"] * 4)
    for first in range(0, len(rows), 2):
        numbers = ", ".join(f"n{i}" for i in (first, 4 + first, first + 1, 5 + first))
        by = f"{{{rows[first]}, {rows[first + 1]}}}"
        yield f"{kind} {_four('c')}, {{{numbers}}}, {by}, {_four('c') if first else ZEROS};"
        if sums:
            yield f"mov.b32 s, {half.ones:#x};"
            yield f"{kind} {_four('t')}, {{{ones}}}, {by}, {_four('t') if first else ZEROS};"
    for parity in range(1 + odd):
        for upper, element in enumerate(elements):
            at = (1 + sums) * WORDS * parity + element
            yield f"mov.f32 ${at}, c{2 * upper + parity};"
            if sums:
                yield f"mov.f32 ${at + WORDS}, t{parity};"


ZEROS = "{0f00000000, 0f00000000, 0f00000000, 0f00000000}"


def _four(name: str) -> str:
    return "{" + ", ".join(f"{name}{i}" for i in range(4)) + "}"


def _numbers4(half: Half, word: str, first: int) -> Iterator[str]:
    """Eight numbers of 4 bits as four pairs in n<first>.., from two's complement: the exclusive or with 8 adds 8."""
    for pair in range(4):
        to, source = f"n{first + pair}", word
        low = 4 if half.bits > 8 and pair % 2 else 0  # such a significand has room for a number that starts at bit 4
        if shift := 4 * pair - low:
            yield f"shr.u32 s, {word}, {shift};"
            source = "s"
        mask, base = 0x000F000F << low, half.base ^ 0x00080008 << low
        yield f"lop3.b32 {to}, {source}, {mask:#x}, {base:#x}, 0x6a;"  # (source and mask) xor base
        yield _scaled(half, to, 2.0**-low, -((1 << half.bits) * 2.0**-low + 8))


def _numbers8(half: Half, word: str, first: int) -> Iterator[str]:
    """Four numbers of 8 bits as two pairs in n<first>.. ."""
    yield f"xor.b32 s, {word}, 0x80808080;"
    if half.bits > 8:
        for pair, order in enumerate((0x5150, 0x5352)):
            to = f"n{first + pair}"
            yield f"prmt.b32 {to}, s, {half.base:#x}, {order:#x};"
            yield _scaled(half, to, 1.0, -float((1 << half.bits) + 128))
        return
    for i in range(4):  # through float32, whose significand has room
        yield "{ .reg .b32 b; " + f"prmt.b32 b, s, 0x4B000000, 0x765{i}; mov.b32 f{i}, b; }}"
        yield f"sub.f32 f{i}, f{i}, {_single(float((1 << 23) + 128))};"
    for pair in range(2):
        yield f"cvt.rn.{half.name}x2.f32 n{first + pair}, f{2 * pair + 1}, f{2 * pair};"


def _scaled(half: Half, register: str, scale: float, offset: float) -> str:
    """register = register * scale + offset, for two floats."""
    moved = f"mov.b32 m, {_pair(half, scale):#x}; mov.b32 o, {_pair(half, offset):#x};"
    return f"{{ .reg .b32 m; .reg .b32 o; {moved} fma.rn.{half.name}x2 {register}, {register}, m, o; }}"


def _pair(half: Half, value: float) -> int:
    """The bits of two equal floats."""
    (single,) = struct.unpack("<I", struct.pack("<f", value))
    bits = struct.unpack("<H", struct.pack("<e", value))[0] if half.name == "f16" else single >> 16
    return bits << 16 | bits


def _single(value: float) -> str:
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"
