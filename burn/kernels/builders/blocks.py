"""Matmuls with weights of a few bits, which are unpacked and scaled where they are multiplied."""

from __future__ import annotations

from burn.dialect.dims import Expr, LoopVar
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.body import Apply, Const, Convert, Index, Scalar
from burn.kernels.builders.builder import Builder, convert, loops, place
from burn.kernels.builders.sides import Sides, in_panels, right_side, width_of

WORD = 4
"""Contiguous bytes of a column, before those of the next column."""


def block_sides(builder: Builder, op: Op, dtype: str) -> Sides:
    """A packed `block_dot`. Its depth loops over blocks, their words, the bytes of a word, and the numbers in a byte."""
    weight, bits = type_of(op.weight), op.bits
    _, blocks, words, width, _ = weight.shape
    each = 8 // bits
    variables = loops(type_of(op.operation.results[0]).shape)
    rows, column = variables[:-1], variables[-1]
    depth = (LoopVar("block", blocks), LoopVar("word", words), LoopVar("byte", WORD), LoopVar("part", each))
    block, word, byte, part = place(depth)
    panel, lane = in_panels(Expr.of(column), width_of(width))
    held = right_side(builder, op.weight, (panel, block, word, lane, byte), width_of(width))
    if bits < 8:
        by = Convert("uint8", Index("int64", part * bits))
        held = Apply("uint8", "and", (Apply("uint8", "shift_right", (held, by)), Const("uint8", (1 << bits) - 1)))
    half = 1 << (bits - 1)
    value: Scalar = Convert(dtype, Apply("uint8", "xor", (held, Const("uint8", half))))
    value = Apply(dtype, "sub", (value, Const(dtype, float(half))))
    if op.zero is not None:
        value = Apply(dtype, "sub", (value, convert(builder.low.at(op.zero, (panel, block, lane)), dtype)))
    scaled = Apply(dtype, "mul", (value, convert(builder.low.at(op.scale, (panel, block, lane)), dtype)))
    along = ((block * words + word) * WORD + byte) * each + part
    lhs = convert(builder.low.at(op.x, (*place(rows), along)), dtype)
    return Sides((), rows, column, depth, lhs, scaled, (*place(rows), Expr.of(column)))
