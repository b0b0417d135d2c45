"""Joins matmuls of one row operand with weights that are inputs of the program: queries, keys and values become one matmul.

For models that are trained, before their derivatives are taken. A weight's gradient has a few tiles and a large depth. One such
matmul leaves most of a GPU idle, and the joined one does not. The gradient of the row operand is one matmul too, instead of a sum
of three, and the biases' gradients are one sum. The weights are joined by the kernel that rounds them to half precision.

Large weights stay apart: they fill the device, and a slice of the joined result separates a matmul from ops behind it. Layers
that widen stay apart too, because their results are often combined at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.contraction import DotGeneral
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Add, Cast
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import HALF_DTYPES, type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

MOST = 1 << 22
"""Elements of a weight that is joined, at most: 256 tiles of 128 by 128, which fill any GPU of today."""

TOGETHER = 4
"""The most weights of a joined matmul: a decoder's layers all read the encoder's result."""


@dataclass(frozen=True)
class _Linear:
    """A matmul with a weight, and the sum with a bias behind it, if there is one."""

    dot: Op
    add: Op | None
    bias: ir.Value | None

    @property
    def result(self) -> ir.Value:
        return (self.add or self.dot).operation.results[0]

    @property
    def width(self) -> int:
        return type_of(self.dot.operation.results[0]).shape[-1]  # type: ignore[return-value]  # `_linear` checked it


@register
@dataclass(frozen=True)
class JoinDots:
    """See the module's docstring."""

    name: ClassVar[str] = "join_dots"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            for members in _siblings(program.block):
                _join(members)


def _siblings(block: ir.Block) -> Iterator[list[_Linear]]:
    """Matmuls that differ only in their weights' columns, in order."""
    found: dict[tuple[object, ...], list[_Linear]] = {}
    for operation in block.operations:
        op = operation.opview
        if isinstance(op, DotGeneral) and (linear := _linear(op)) is not None:
            dtype = type_of(op.operation.results[0]).dtype
            found.setdefault((op.lhs, tuple(op.rhs_contract), dtype), []).append(linear)
    for members in found.values():
        for start in range(0, len(members), TOGETHER):
            if len(run := members[start : start + TOGETHER]) > 1:
                yield run


def _linear(op: DotGeneral) -> _Linear | None:
    x, weight = type_of(op.lhs), type_of(op.rhs)
    if weight.dtype not in HALF_DTYPES or weight.rank != 2 or not _is_rounded_input(op.rhs):
        return None
    if list(op.lhs_contract) != [x.rank - 1] or op.lhs_batch or len(op.rhs_contract) != 1:
        return None
    depth, width = weight.shape[op.rhs_contract[0]], weight.shape[1 - op.rhs_contract[0]]
    if not isinstance(depth, int) or not isinstance(width, int) or width > depth or width * depth > MOST:
        return None
    result = op.operation.results[0]
    users = [user for use in result.uses if not _is_dead(user := use.owner.opview)]
    if len(users) == 1 and isinstance(add := users[0], Add):
        bias = add.rhs if add.lhs == result else add.lhs
        if type_of(bias).shape == (width,) and type_of(bias).dtype == weight.dtype and _is_rounded_input(bias):
            return _Linear(op, add, bias)
    return _Linear(op, None, None)


def _is_dead(op: ir.OpView) -> bool:
    return isinstance(op, Cast) and not list(op.operation.results[0].uses)


def _is_rounded_input(value: ir.Value) -> bool:
    op = op_of(value)
    return isinstance(op, Cast) and op_of(op.x) is None


def _join(members: Sequence[_Linear]) -> None:
    first = members[0].dot
    with first.operation.location, ir.InsertionPoint(first.operation):
        axis = 1 - first.rhs_contract[0]
        whole = ops.dot_general(first.lhs, _joined([m.dot.rhs for m in members], axis), **first.attrs)
        if any(m.bias is not None for m in members):
            dtype = type_of(first.rhs).dtype
            biases = [m.bias or ops.full(shape=(m.width,), dtype=dtype, value=0.0) for m in members]
            whole = ops.add(whole, _joined(biases, 0))
        rank, start = type_of(whole).rank, 0
        for member in members:
            shape = type_of(member.result).shape
            starts = (*(0,) * (rank - 1), start)
            part = ops.slice(whole, starts=starts, sizes=shape, steps=(1,) * rank)
            start += member.width
            member.result.replace_all_uses_with(part)
    for member in members:
        for op in filter(None, (member.add, member.dot)):
            for use in [u.owner for u in op.operation.results[0].uses]:
                use.operation.erase()  # casts without readers
            op.operation.erase()


def _joined(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Rounded inputs as one tensor. Later ones are rounded again here, as their casts may come after this op."""
    again = [ops.cast(op.x, **op.attrs) if isinstance(op := op_of(v), Cast) else v for v in values]
    return ops.concat(again, axis=axis)
