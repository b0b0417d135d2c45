"""Packs weights of a few bits into panels: the words of a column are contiguous, then its scales."""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.compose import convert, number, reshape
from burn.dialect.dims import ceildiv, product
from burn.dialect.locations import current_node
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.layouts import PackedMatmul

WORD = 4
"""Contiguous bytes of a column."""


def packed(op: Op, width: Callable[[PackedMatmul], int], keep_type: bool = False) -> ir.Value:
    """A `block_dot` whose weight is packed into panels of the given width. keep_type: the kernel reads x in its own type, and not
    as float32."""
    rows, blocks, size = (_number(d) for d in type_of(op.weight).shape)
    dtype = type_of(op.x).dtype
    x = padded_row(op) if keep_type else convert(padded_row(op), "float32")
    wide = width(PackedMatmul(product(type_of(x).shape[:-1]), rows, 0, "float32", node=current_node()))
    half = 1 << (op.bits - 1)
    bytes_ = rows_filled(in_complement(op), wide)
    bytes_ = ops.reshape(bytes_, shape=(ceildiv(rows, wide), wide, blocks, size // WORD, WORD))
    weight = ops.transpose(bytes_, permutation=(0, 2, 3, 1, 4))
    zero = None if op.zero is None else ops.sub(convert(op.zero, "float32"), number(float(half), "float32"))
    parameters = [None if v is None else _parameters(v, wide) for v in (op.scale, zero)]
    return convert(ops.packed_block_dot(x, weight, *parameters, columns=rows, **op.attrs), dtype)


def in_complement(op: Op) -> ir.Value:
    """The weight of a `block_dot` with integers in two's complement. Floats stay as they are."""
    if type_of(op.weight).dtype in FLOAT_NUMBERS:
        return op.weight
    mask = sum(1 << shift + op.bits - 1 for shift in range(0, 8, op.bits))
    return ops.xor(op.weight, number(mask, "uint8"))


def padded_row(op: Op) -> ir.Value:
    """The operand x of a `block_dot`, with zeros up to the end of the last block."""
    missing = _number(type_of(op.weight).shape[1]) * op.block - _number(type_of(op.x).shape[-1])
    if not missing:
        return op.x
    last, zero = type_of(op.x).rank - 1, number(0.0, type_of(op.x).dtype)
    return ops.pad(op.x, zero, low=(0,) * (last + 1), high=(0,) * last + (missing,))


def rows_filled(x: ir.Value, width: int) -> ir.Value:
    """Pads the rows with zeros, so that panels are full."""
    type_ = type_of(x)
    missing = -_number(type_.shape[0]) % width
    if not missing:
        return x
    zero = ops.full(shape=(), dtype=type_.dtype)
    return ops.pad(x, zero, low=(0,) * type_.rank, high=(missing,) + (0,) * (type_.rank - 1))


def _parameters(x: ir.Value, width: int) -> ir.Value:
    """[n, blocks] -> [panels, blocks, width]."""
    x = rows_filled(x, width)
    rows, blocks = (_number(d) for d in type_of(x).shape)
    return ops.transpose(reshape(x, (rows // width, width, blocks)), permutation=(0, 2, 1))


def _number(dim: object) -> int:
    assert isinstance(dim, int)
    return dim
