"""Matmuls with weights of a few bits, which are unpacked and scaled when they are multiplied."""

from __future__ import annotations

from burn.dialect.dims import Expr, LoopVar
from burn.dialect.op import Op
from burn.dialect.types import HALF_DTYPES, type_of
from burn.kernels.body import Apply, Const, Convert, Index, Scalar
from burn.kernels.builders.builder import Builder, convert, loop_index, loops
from burn.kernels.builders.operands import Operands, in_panels, packed_rhs, width_of

WORD = 4
"""Contiguous bytes of a column, before those of the next column."""


def block_operands(builder: Builder, op: Op, dtype: str) -> Operands:
    """A packed `block_dot`. Its depth loops over blocks, their words, the bytes of a word, and the numbers in a byte."""
    weight, bits = type_of(op.weight), op.bits
    _, blocks, words, width, _ = weight.shape
    each = 8 // bits
    variables = loops(type_of(op.operation.results[0]).shape)
    rows, column = variables[:-1], variables[-1]
    depth = (LoopVar("block", blocks), LoopVar("word", words), LoopVar("byte", WORD), LoopVar("part", each))
    block, word, byte, part = loop_index(depth)
    panel, lane = in_panels(Expr.of(column), width_of(width))
    held = packed_rhs(builder, op.weight, (panel, block, word, lane, byte), width_of(width))
    if bits < 8:
        by = Convert("uint8", Index("int64", part * bits))
        held = Apply("uint8", "and", (Apply("uint8", "shift_right", (held, by)), Const("uint8", (1 << bits) - 1)))
    half = 1 << (bits - 1)
    value: Scalar = Convert(dtype, Apply("uint8", "xor", (held, Const("uint8", half))))
    value = Apply(dtype, "sub", (value, Const(dtype, float(half))))
    if op.zero is not None:
        value = Apply(dtype, "sub", (value, convert(builder.low.at(op.zero, (panel, block, lane)), dtype)))
    scaled = Apply(dtype, "mul", (value, convert(builder.low.at(op.scale, (panel, block, lane)), dtype)))
    narrow = type_of(op.x).dtype
    if narrow in HALF_DTYPES:  # tensor cores multiply the weight as it would be after dequantisation
        scaled = Convert(dtype, Convert(narrow, scaled))
    along = ((block * words + word) * WORD + byte) * each + part
    lhs = convert(builder.low.at(op.x, (*loop_index(rows), along)), dtype)
    return Operands((), rows, column, depth, lhs, scaled, (*loop_index(rows), Expr.of(column)))
