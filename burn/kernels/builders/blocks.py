"""Matmuls with weights of a few bits, which are unpacked and scaled when they are multiplied."""

from __future__ import annotations

from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.dims import Dim, Expr, LoopVar, floordiv, mod
from burn.dialect.op import Op
from burn.dialect.packed import FRAGMENT_COLUMNS
from burn.dialect.types import HALF_DTYPES, type_of
from burn.kernels.body import Apply, Const, Convert, Index, Scalar
from burn.kernels.builders.builder import Builder, convert, loop_index, loops
from burn.kernels.builders.operands import Operands, in_panels, packed_rhs, width_of
from burn.kernels.lower import Indices

WORD = 4
"""Contiguous bytes of a column, before those of the next column."""


def block_operands(builder: Builder, op: Op, dtype: str) -> Operands:
    """A packed `block_dot`. Its depth loops over blocks, their words, the bytes of a word, and the numbers in a byte."""
    bits, blocks = op.bits, type_of(op.scale).shape[1]
    each, words = 8 // bits, op.block * bits // 8 // WORD
    variables = loops(type_of(op.operation.results[0]).shape)
    rows, column = variables[:-1], variables[-1]
    depth = (LoopVar("block", blocks), LoopVar("word", words), LoopVar("byte", WORD), LoopVar("part", each))
    block, word, byte, part = loop_index(depth)
    read = _fragment if type_of(op.weight).rank == 6 else _word
    held, at, lowest = read(builder, op, Expr.of(column), block, block * words + word, byte, part)
    if bits < 8:
        by = Convert("uint8", Index("int64", lowest))
        held = Apply("uint8", "and", (Apply("uint8", "shift_right", (held, by)), Const("uint8", (1 << bits) - 1)))
    half, number = 1 << (bits - 1), type_of(op.weight).dtype
    if number in FLOAT_NUMBERS:
        value: Scalar = Convert(dtype, held)
    else:
        value = Convert(dtype, Apply("uint8", "xor", (held, Const("uint8", half))))
        value = Apply(dtype, "sub", (value, Const(dtype, float(half))))
    if op.zero is not None:
        value = Apply(dtype, "sub", (value, convert(builder.low.at(op.zero, at), dtype)))
    scaled = Apply(dtype, "mul", (value, convert(builder.low.at(op.scale, at), dtype)))
    narrow = type_of(op.x).dtype
    if narrow in HALF_DTYPES:  # tensor cores multiply the weight as it would be after dequantisation
        scaled = Convert(dtype, Convert(narrow, scaled))
    along = ((block * words + word) * WORD + byte) * each + part
    lhs = convert(builder.low.at(op.x, (*loop_index(rows), along)), dtype)
    return Operands((), rows, column, depth, lhs, scaled, (*loop_index(rows), Expr.of(column)))


def _word(
    builder: Builder, op: Op, column: Expr, block: Dim, word: Dim, byte: Dim, part: Dim
) -> tuple[Scalar, Indices, Dim]:
    """The byte of an element in panels of words, the index of its scale, and its lowest bit. word: in the column."""
    width = width_of(type_of(op.weight).shape[3])
    panel, lane = in_panels(column, width)
    words = op.block * op.bits // 8 // WORD
    held = packed_rhs(builder, op.weight, (panel, block, word - block * words, lane, byte), width)
    return held, (panel, block, lane), part * op.bits


def _fragment(
    builder: Builder, op: Op, column: Expr, block: Dim, word: Dim, byte: Dim, part: Dim
) -> tuple[Scalar, Indices, Dim]:
    """The same for fragments. A thread has two columns of each tile."""
    tile, within = in_panels(column, FRAGMENT_COLUMNS)
    group, upper = mod(within, 8), floordiv(within, 8)
    chunk, rest = floordiv(word, 8), mod(word, 8)  # 32 bytes of a column
    if op.bits == 4:  # a thread has a word of each half of the chunk; even numbers are its low half
        thread, number = mod(rest, 4), floordiv(rest, 4) * 2 + upper
        byte, lowest = part * 2 + floordiv(byte, 2), mod(byte, 2) * 4
    else:
        thread, number, lowest = floordiv(rest, 2), upper * 2 + mod(rest, 2), 0
    held = packed_rhs(builder, op.weight, (tile, chunk, group, thread, number, byte), FRAGMENT_COLUMNS)
    return held, (tile, block, group, upper), lowest
