"""Weight gradients of convolutions in groups of few channels: several groups as one matmul, which keeps some blocks of it.

Each group is a matmul of a few rows and columns, which leaves most of a tensor core's tile unused and reads a few channels of
each pixel. One matmul over the channels of several groups also multiplies channels of different groups, and is faster all the
same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import HALF_DTYPES, type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops

MOST = 64
"""Channels of one matmul."""

FEW = 16
"""Channels of a group up to which the additional multiplications cost less than narrow tiles."""

DEEP = 1024
"""The least depth: the matmuls of attention, whose heads look like groups, have the depth of a head or few keys."""


@register
@dataclass(frozen=True)
class MergeGroups:
    """For targets with tensor cores. Other contractions stay."""

    name: ClassVar[str] = "merge_groups"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        return {"merged": replace_ops(program, DotGeneral, _merged)}


def _merged(op: Any) -> ir.Value | None:
    """The matmul of several groups, and its blocks on the diagonal. None for contractions of another form: groups and their
    channels are the last two axes of both operands, and everything but a window is summed."""
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    if lhs.dtype not in HALF_DTYPES or op.lhs_batch != (lhs.rank - 2,) or op.rhs_batch != (rhs.rank - 2,):
        return None
    groups, b, a = lhs.shape[-2], lhs.shape[-1], rhs.shape[-1]
    depth = product([lhs.shape[axis] for axis in op.lhs_contract])
    window = [d for axis, d in enumerate(lhs.shape[:-2]) if axis not in op.lhs_contract]
    if not (isinstance(groups, int) and isinstance(a, int) and isinstance(b, int)) or not 1 < max(a, b) <= FEW:
        return None
    if len(op.rhs_contract) != rhs.rank - 2 or lhs.rank - 1 in op.lhs_contract or min(a, b) == 1:
        return None
    if isinstance(depth, int) and depth < DEEP:
        return None
    m = max(n for n in range(1, groups + 1) if groups % n == 0 and n * max(a, b) <= MOST)
    if m == 1:
        return None
    with op.operation.location, ir.InsertionPoint(op.operation):
        left = reshape(op.lhs, (*lhs.shape[:-2], groups // m, m * b))
        right = reshape(op.rhs, (*rhs.shape[:-2], groups // m, m * a))
        found = ops.dot_general(left, right, **op.attrs)
        n = len(window)
        apart = reshape(found, (groups // m, *window, m, b, m, a))
        own = ops.eq(ops.iota(shape=(m, 1, 1, 1), axis=0), ops.iota(shape=(1, 1, m, 1), axis=2))
        block = ops.reduce(ops.select(own, apart, number_like(0, apart)), kind="sum", axes=(n + 3,))
        order = (0, n + 1, *range(1, n + 1), n + 2, n + 3)
        return reshape(transpose(block, order), type_of(op.operation.results[0]).shape)
