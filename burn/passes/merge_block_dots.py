"""Merges matmuls of one row operand with constant weights of few bits: queries, keys and values become one matmul.

A short matmul with a few rows takes as long as its launch. Large weights stay apart, because ops after a matmul are part of its
kernel: a slice of a merged one would separate them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.blocks import BlockDot
from burn.dialect.dims import estimate
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks, op_of
from burn.dialect.types import type_of
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

MOST = 8 << 20
"""Bytes of a weight that is merged, at most. A GPU reads them in about three microseconds."""


@register
@dataclass(frozen=True)
class MergeBlockDots:
    """See the module's docstring."""

    name: ClassVar[str] = "merge_block_dots"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            for block in blocks(program.block):
                for members in _siblings(block):
                    if len(members) > 1:
                        _merge(members)


def _siblings(block: ir.Block) -> list[list[Op]]:
    """Small `block_dot` ops of constant weights that differ only in the weights' columns, in order. Other weights would be joined
    in every run."""
    constant = Constants()
    found: dict[tuple[object, ...], list[Op]] = {}
    position: dict[ir.Operation, int] = {}
    for operation in block.operations:
        op = operation.opview
        position[operation.operation] = len(position)
        if isinstance(op, Op) and isinstance(op, BlockDot) and estimate(type_of(op.weight).elements) <= MOST:
            if not all(map(constant, filter(None, (op.weight, op.scale, op.zero)))):
                continue
            dtypes = tuple(None if v is None else type_of(v).dtype for v in (op.scale, op.zero))
            members = found.setdefault((op.x, op.bits, op.block, *dtypes), [])
            first = position[members[0].operation] if members else len(position)
            definitions = [d.operation for v in op.operation.operands if (d := op_of(v)) is not None]
            if all(position.get(d, -1) < first for d in definitions):  # the merged op replaces the first
                members.append(op)
    return list(found.values())


def _merge(members: list[Op]) -> None:
    first = members[0]
    with first.operation.location, ir.InsertionPoint(first.operation):
        weight, scale = (ops.concat([getattr(op, name) for op in members], axis=0) for name in ("weight", "scale"))
        zero = None if first.zero is None else ops.concat([op.zero for op in members], axis=0)
        whole = ops.block_dot(first.x, weight, scale, zero, **first.attrs)
        rank, start = type_of(whole).rank, 0
        for op in members:
            result = op.operation.results[0]
            shape = type_of(result).shape
            starts = (*(0,) * (rank - 1), start)
            result.replace_all_uses_with(ops.slice(whole, starts=starts, sizes=shape, steps=(1,) * rank))
            start += shape[-1]
    for op in members:
        op.operation.erase()
