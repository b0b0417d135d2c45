"""Constant right-hand sides of contractions are rearranged once, at compile time, into the panels that a matrix kernel reads.

Packing is written as ordinary ops on the constant (transpose, pad, reshape); `fold` computes them. Convolutions must be
channels-last by then (`layout`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.codegen.builders.matrix import matrix_type
from burn.dialect import ops
from burn.dialect.dims import Dim, ceildiv
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, type_of
from burn.passes.cleanup import blocks, erase_dead
from burn.passes.constants import Constants
from burn.passes.pipeline import register

MIN_GROUP_CHANNELS = 4
"""Channels a group needs for the matrix kernel to pay; below that (depthwise) the channels themselves are the vector."""


@register
@dataclass(frozen=True)
class Pack:
    """`vector-bytes` is the width of the target's vectors: a panel is two of them wide."""

    name: ClassVar[str] = "pack"
    vector_bytes: int = 64

    def run(self, program: Program) -> None:
        constant = Constants()
        with context():
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Op) and op.OP_NAME in _PACKERS and op.columns is None:
                        self._pack(op, constant)
            erase_dead(program.block)

    def _pack(self, op: Op, constant: Constants) -> None:
        """What is replaced stays behind without uses, so that what `constant` remembers of a value holds."""
        with op.operation.location, ir.InsertionPoint(op.operation):
            packed = _PACKERS[op.OP_NAME](self, op, constant)
        if packed is not None:
            op.operation.results[0].replace_all_uses_with(packed)

    def width(self, columns: int, dtype: str) -> int:
        """Two vectors of sums, which are of type `dtype`, or one where that holds every column (or wastes far less)."""
        lanes = self.vector_bytes // DTYPES[dtype].size
        one, two = -(-columns // lanes) * lanes, -(-columns // (2 * lanes)) * 2 * lanes
        return lanes if columns <= lanes or two > 1.5 * one else 2 * lanes


def _panels(matrix: ir.Value, batch: int, width: int) -> ir.Value:
    """[batch.., k.., n] -> [batch.., panels, k.., width]."""
    type_ = type_of(matrix)
    *head, columns = type_.shape
    assert isinstance(columns, int)
    panels = ceildiv(columns, width)
    if columns % width:
        zero = ops.full(shape=(), dtype=type_.dtype)
        high: list[Dim] = [0] * (type_.rank - 1) + [panels * width - columns]
        matrix = ops.pad(matrix, zero, low=(0,) * type_.rank, high=tuple(high))
    split = ops.reshape(matrix, shape=(*head, panels, width))
    rank = type_.rank + 1
    order = (*range(batch), rank - 2, *range(batch, rank - 2), rank - 1)
    return ops.transpose(split, permutation=order)


def _pack_dot(pack: Pack, op: Op, constant: Constants) -> ir.Value | None:
    rhs, summed = type_of(op.rhs), matrix_type(op)
    free = [a for a in range(rhs.rank) if a not in (*op.rhs_batch, *op.rhs_contract)]
    if summed is None or len(free) != 1:
        return None
    if not op.rhs_contract:
        return None
    if not rhs.is_static or not constant(op.rhs) or rhs.shape[free[0]] == 0:
        return _columns_last(op, free[0])
    columns = rhs.shape[free[0]]
    assert isinstance(columns, int)
    batch, depth = len(op.rhs_batch), len(op.rhs_contract)
    ordered = ops.transpose(op.rhs, permutation=(*op.rhs_batch, *op.rhs_contract, free[0]))
    packed = _panels(ordered, batch, pack.width(columns, summed))
    attrs = op.attrs | {
        "rhs_batch": tuple(range(batch)),
        "rhs_contract": tuple(range(batch + 1, batch + 1 + depth)),
        "columns": columns,
    }
    return ops.dot_general(op.lhs, packed, **attrs)


def _columns_last(op: Op, column: int) -> ir.Value | None:
    """A right side that is computed: its columns become its last axis. Whether that moves data is for fusion to see."""
    order = (*op.rhs_batch, *op.rhs_contract, column)
    if order == tuple(range(len(order))):
        return None
    batch, depth = len(op.rhs_batch), len(op.rhs_contract)
    attrs = op.attrs | {"rhs_batch": tuple(range(batch)), "rhs_contract": tuple(range(batch, batch + depth))}
    return ops.dot_general(op.lhs, ops.transpose(op.rhs, permutation=order), **attrs)


def _pack_conv(pack: Pack, op: Op, constant: Constants) -> ir.Value | None:
    weight, summed = type_of(op.weight), matrix_type(op)
    if op.layout != "last" or summed is None:
        return None
    if not weight.is_static or not constant(op.weight) or 0 in weight.shape:
        return None
    channels, outputs = weight.shape[-2:]
    assert isinstance(channels, int) and isinstance(outputs, int)
    if op.groups > 1 and channels < MIN_GROUP_CHANNELS:
        return None
    spatial = weight.shape[:-2]
    each = outputs // op.groups
    rank = len(spatial) + 3
    split = ops.reshape(op.weight, shape=(*spatial, channels, op.groups, each))
    ordered = ops.transpose(split, permutation=(rank - 2, *range(rank - 2), rank - 1))
    packed = _panels(ordered, 1, pack.width(each, summed))
    return ops.conv(op.x, packed, **(op.attrs | {"columns": outputs}))


_PACKERS = {"dot_general": _pack_dot, "conv": _pack_conv}
