"""Merges matmuls of one row operand with constant weights of few bits: queries, keys and values become one matmul.

A short matmul with a few rows takes as long as its launch. Large weights stay apart, because ops after a matmul are part of its
kernel: a slice of a merged one would separate them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.blocks import BlockDot
from burn.dialect.dims import estimate
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
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
    for operation in block.operations:
        op = operation.opview
        if isinstance(op, Op) and isinstance(op, BlockDot) and estimate(type_of(op.weight).elements) <= MOST:
            if not all(map(constant, filter(None, (op.weight, op.scale, op.zero)))):
                continue
            dtypes = tuple(None if v is None else type_of(v).dtype for v in (op.weight, op.scale, op.zero))
            found.setdefault((op.x, op.bits, op.block, *dtypes), []).append(op)
    return [_without_meeting(members) for members in found.values()]


def _without_meeting(members: list[Op]) -> list[Op]:
    """The ops without those whose results a pointwise op combines, as in a gated layer. One kernel computes both matmuls and that
    op (`fusion/contractions.py`), which slices of a merged result would separate."""
    if len(members) == 1:
        return members
    users = [_pointwise_users(op) for op in members]
    shared = Counter(user for each in users for user in each)
    return [op for op, each in zip(members, users, strict=True) if all(shared[user] == 1 for user in each)]


def _pointwise_users(op: Op) -> set[ir.Operation]:
    """The pointwise ops that read an op's result at the same index, directly or through others."""
    shape, found, todo = type_of(op.operation.results[0]).shape, set(), [op.operation]
    while todo:
        for use in todo.pop().results[0].uses:
            user = use.owner.opview
            if not isinstance(user, Pointwise) or user.operation in found:
                continue
            if type_of(user.operation.results[0]).shape == shape:
                found.add(user.operation)
                todo.append(user.operation)
    return found


def _hoist(value: ir.Value, first: Op) -> None:
    """Moves the ops of its block that compute a constant before the op `first`."""
    op = op_of(value)
    if op is None or op.operation.block != first.operation.block:
        return
    if not op.operation.is_before_in_block(first.operation):
        for operand in op.operation.operands:
            _hoist(operand, first)
        op.operation.move_before(first.operation)


def _merge(members: list[Op]) -> None:
    first = members[0]
    for op in members[1:]:
        for value in filter(None, (op.weight, op.scale, op.zero)):
            _hoist(value, first)
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
