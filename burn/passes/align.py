"""Pads odd rows of matmul operands and results, so that each row starts at an aligned address.

The scores of 50,257 tokens in half precision start at odd addresses, and a GPU then reads two bytes at a time. Matmuls
cannot prefetch, and row-wise kernels take several times as long. If a matmul's result feeds another matmul (a language
model's head in training), the pass pads its rows. The rhs gets columns of zeros, and pointwise ops also compute the
padding. For other readers the padding is neutral: a reduction along a row reads its identity there, a matmul adds
zeros, and all others read rows without padding. If no matmul reads the result, its rows are read once and stay unpadded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.adjoint.marks import Barrier
from burn.dialect.contraction import DotGeneral
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, is_named, op_of
from burn.dialect.shape import Reshape
from burn.dialect.types import DTYPES, type_of
from burn.kernels.body import identity
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

WORD = 16
"""Bytes that a GPU thread reads at once; rows aligned to them stay unpadded."""

UNIT = 64
"""Padded rows are a multiple of this many elements, so that matmul tiles are full."""


@register
@dataclass(frozen=True)
class Align:
    """Rows of fewer than `least` elements stay unpadded: the padding would be too large a part."""

    name: ClassVar[str] = "align"
    least: int = 2048

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Op) and self._is_odd(op) and _is_multiplied(op.operation.results[0]):
                        _Rows(block, op).run()
            erase_dead(program.block)

    def _is_odd(self, op: Op) -> bool:
        """True for a matmul whose rows have a static, unaligned length, which is the number of columns of its rhs."""
        if not isinstance(op, DotGeneral) or _columns(op) is None:
            return False
        result = type_of(op.operation.results[0])
        length = result.shape[-1]
        size = DTYPES[result.dtype].size
        return isinstance(length, int) and length >= self.least and length * size % WORD != 0


def _columns(dot: Op) -> int | None:
    """The axis of the rhs that is the result's last one."""
    free = [a for a in range(type_of(dot.rhs).rank) if a not in (*dot.rhs_batch, *dot.rhs_contract)]
    return free[-1] if free else None


def _is_multiplied(value: ir.Value) -> bool:
    """True if a matmul reads rows computed elementwise from these."""
    length, todo, seen = type_of(value).shape[-1], [value], set()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        for use in v.uses:
            user = use.owner.opview if isinstance(use.owner, ir.Operation) else use.owner
            if not isinstance(user, Op):
                continue
            if isinstance(user, DotGeneral):
                return True
            if isinstance(user, Pointwise | Reshape | Barrier):
                todo += [r for r in user.operation.results if type_of(r).shape[-1:] == (length,)]
    return False


class _Rows:
    """One matmul's rows, followed through a block. `wide`: the padded rows of each value; `narrow`: the unpadded ones
    for other readers."""

    def __init__(self, block: ir.Block, dot: Op) -> None:
        self.block, self.dot = block, dot
        self.length: int = type_of(dot.operation.results[0]).shape[-1]  # type: ignore[assignment]  # see `_is_odd`
        self.longer = -(-self.length // UNIT) * UNIT
        self.wide: dict[ir.Value, ir.Value] = {}
        self.narrow: dict[ir.Value, ir.Value] = {}
        self.rules: dict[str, Callable[[Op], bool]] = {
            "reshape": self._reshape, "barrier": self._barrier, "reduce": self._reduce, "dot_general": self._dot_general,
        }  # fmt: skip

    def run(self) -> None:
        found = list(self.block.operations)
        first = next(i for i, o in enumerate(found) if o.operation == self.dot.operation)
        dot, axis = self.dot, _columns(self.dot)
        assert axis is not None
        with dot.operation.location, ir.InsertionPoint(dot.operation):
            self._put(dot, ops.dot_general(dot.lhs, self._padded(dot.rhs, axis), **dot.attrs))
        for operation in found[first + 1 :]:
            op = operation.opview
            if any(v in self.wide for v in operation.operands):
                with operation.operation.location, ir.InsertionPoint(operation.operation):
                    self._follow(op)

    def _follow(self, op: ir.OpView) -> None:
        if isinstance(op, Op):
            rule = self._pointwise if isinstance(op, Pointwise) else self.rules.get(op.OP_NAME)
            if rule is not None and rule(op):
                return
        operands = list(op.operation.operands)
        for i, v in enumerate(operands):
            if v in self.wide:
                op.operation.operands[i] = self._without_room(v)

    def _put(self, op: Op, made: ir.Value) -> None:
        """Padded rows for an op's result, with zeros in the padding if a matmul sums over it."""
        value = op.operation.results[0]
        summed = any(_sums(use.owner, value) for use in value.uses)
        self.wide[value] = self._masked(made, 0) if summed else made

    # ---- ops ---------------------------------------------------------------------------------------------------------------
    def _pointwise(self, op: Op) -> bool:
        if type_of(op.operation.results[0]).shape[-1:] != (self.length,):
            return False
        given = self._operands(op)
        if given is not None:
            self._put(op, type(op).build(*given, **op.attrs))
        return given is not None

    def _operands(self, op: Op) -> list[ir.Value] | None:
        found = [self._operand(v) for v in op.operation.operands]
        given = [v for v in found if v is not None]
        return given if len(given) == len(found) else None

    def _operand(self, value: ir.Value) -> ir.Value | None:
        """An operand for padded rows; None if its rows have the old length and cannot be padded."""
        if value in self.wide:
            return self.wide[value]
        shape = type_of(value).shape
        if not shape or shape[-1] == 1:
            return value
        numbers = is_named(value, "iota")
        if numbers is not None and numbers.axis % len(shape) == len(shape) - 1:
            return ops.iota(shape=(*shape[:-1], self.longer), axis=numbers.axis, dtype=numbers.dtype)
        if all(d == 1 for d in shape[:-1]):
            return self._padded(value, len(shape) - 1)
        maker = op_of(value)
        if not isinstance(maker, Pointwise) or maker.operation.block != self.block:
            return None
        given = self._operands(maker)  # for example, a token's one-hot mask
        if given is None:
            return None
        self.wide[value] = type(maker).build(*given, **maker.attrs)
        return self.wide[value]

    def _reshape(self, op: Op) -> bool:
        if op.shape[-1:] != (self.length,):
            return False
        self._put(op, ops.reshape(self.wide[op.x], shape=(*op.shape[:-1], self.longer)))
        return True

    def _barrier(self, op: Op) -> bool:
        if op.x not in self.wide or op.after in self.wide:
            return False
        self._put(op, ops.barrier(self.wide[op.x], op.after))
        return True

    def _reduce(self, op: Op) -> bool:
        x, rank = self.wide[op.x], type_of(op.x).rank
        if rank - 1 not in [a % rank for a in op.axes]:
            self._put(op, type(op).build(x, **op.attrs))
            return True
        x = self._masked(x, identity(op.kind, type_of(x).dtype))
        op.operation.results[0].replace_all_uses_with(type(op).build(x, **op.attrs))
        return True

    def _dot_general(self, op: Op) -> bool:
        operands = [op.lhs, op.rhs]
        mine = [operand in self.wide for operand in operands]
        if all(mine):
            return False
        which = mine.index(True)
        last = type_of(operands[which]).rank - 1
        batch, contract = ((op.lhs_batch, op.lhs_contract), (op.rhs_batch, op.rhs_contract))[which]
        if last in batch:
            return False
        result = op.operation.results[0]
        if last in contract:
            theirs = (op.rhs_contract, op.lhs_contract)[which][list(contract).index(last)]
            operands[1 - which] = self._padded(operands[1 - which], theirs)
            operands[which] = self.wide[operands[which]]
            result.replace_all_uses_with(ops.dot_general(*operands, **op.attrs))
            return True
        operands[which] = self.wide[operands[which]]
        made = ops.dot_general(*operands, **op.attrs)
        result.replace_all_uses_with(_first(made, type_of(result).shape))
        return True

    # ---- padding -------------------------------------------------------------------------------------------------------
    def _padded(self, value: ir.Value, axis: int) -> ir.Value:
        type_ = type_of(value)
        high = tuple(self.longer - self.length if i == axis else 0 for i in range(type_.rank))
        zero = ops.full(value=0, shape=(), dtype=type_.dtype)
        return ops.pad(value, zero, low=(0,) * type_.rank, high=high)

    def _masked(self, value: ir.Value, number: float | int | bool) -> ir.Value:
        """A value with a number in the padding."""
        type_ = type_of(value)
        positions = ops.iota(shape=(*(1,) * (type_.rank - 1), self.longer), axis=type_.rank - 1, dtype="int64")
        inside = ops.lt(positions, ops.full(value=self.length, shape=(), dtype="int64"))
        return ops.select(inside, value, ops.full(value=number, shape=(), dtype=type_.dtype))

    def _without_room(self, value: ir.Value) -> ir.Value:
        if value not in self.narrow:
            wide = self.wide[value]
            maker = op_of(wide)
            assert maker is not None
            with ir.InsertionPoint.after(maker.operation):
                self.narrow[value] = _first(wide, type_of(value).shape)
        return self.narrow[value]


def _first(value: ir.Value, shape: tuple) -> ir.Value:
    """The first elements along each axis."""
    return ops.slice(value, starts=(0,) * len(shape), sizes=shape, steps=(1,) * len(shape))


def _sums(user: ir.Operation | ir.OpView, value: ir.Value) -> bool:
    """True if a user is a matmul that sums over a value's rows."""
    op = user.opview if isinstance(user, ir.Operation) else user
    if not isinstance(op, Op) or not isinstance(op, DotGeneral):
        return False
    last = type_of(value).rank - 1
    return (op.lhs == value and last in op.lhs_contract) or (op.rhs == value and last in op.rhs_contract)
