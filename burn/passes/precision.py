"""Mixed precision: matmuls, convolutions, attention and the pointwise ops between them compute in half precision.

Norms, softmax, sums, exponentials, losses and ops without a trait (`LOW_PRECISION`, `FOLLOWS_PRECISION`) stay in
float32, like the program's inputs and outputs. A half-precision result has two forms: itself, and a cast to float32. A
reader takes the form of its own precision; a sum with a float32 operand is float32, as in PyTorch's autocast. Ops that move or
compare elements (`MONOTONE`) give the same results before and after rounding. If half precision is all that anything reads of
them, their operands are rounded, so that no float32 images are stored. Constants are cast at compile time (`fold`). Branches and
loops keep float32 interfaces, except for carried values that only ops in half precision read. Recurrent layers are such loops:
their matmuls round the state and the weights, and the state's sums stay float32.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.contraction import DotGeneral
from burn.dialect.control import Loop
from burn.dialect.loops import body
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast, Mul
from burn.dialect.program import Program
from burn.dialect.query import splat
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.errors import CompileError
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

FULL = "float32"
LARGEST = {"bfloat16": 3.38e38, "float16": 65504.0}
"""The half-precision types, with their largest finite numbers."""

MONOTONE = frozenset(("relu", "clip", "max", "min", "window_reduce", "pad", "concat", "reshape", "transpose"))
"""Ops that commute with rounding. A window reduction does if it is a maximum or minimum."""


@register
@dataclass(frozen=True)
class Precision:
    """`to`: "bfloat16" or "float16". Expects composites; does not change float64 or values already in half precision."""

    name: ClassVar[str] = "precision"
    to: str = "bfloat16"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        if self.to not in LARGEST:
            raise CompileError(f"precision{{to={self.to}}}: half precision is {' or '.join(LARGEST)}")
        narrow(program, self.to)


def narrow(program: Program, dtype: str, parameters: Iterable[ir.Value] = ()) -> None:
    """Applies mixed precision. parameters: values that, like constants, are rounded when combined with half-precision
    operands."""
    with context():
        narrowing = _Narrowing(dtype)
        narrowing.constants.update(parameters)
        narrowing.look_ahead(program.block)
        narrowing.block(program.block)


class _Narrowing:
    """The state of the rewrite. wanted: results with half-precision readers; rounded: results that only such readers have;
    constants: values that depend on constants alone; made: the half-precision value for a float32 form; cast: half-precision
    casts of other values, created on demand."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.wanted: set[ir.Value] = set()
        self.rounded: set[ir.Value] = set()
        self.constants: set[ir.Value] = set()
        self.made: ChainMap[ir.Value, ir.Value] = ChainMap()
        self.cast: ChainMap[ir.Value, ir.Value] = ChainMap()

    def look_ahead(self, block: ir.Block) -> None:
        for operation in reversed(list(block.operations)):
            for region in operation.operation.regions:
                for inner in region.blocks:
                    self.look_ahead(inner)
            op, results = operation.opview, operation.operation.results
            if not isinstance(op, Op):
                continue
            self.rounded.update(v for v in results if self._is_rounded(v))
            if op.has(Trait.LOW_PRECISION) or (op.has(Trait.FOLLOWS_PRECISION) and results[0] in self.wanted):
                self.wanted.update(operation.operation.operands)

    def _is_rounded(self, value: ir.Value) -> bool:
        """True if all readers of a value, which were visited before, read it in half precision."""
        readers = [use.owner.operation for use in value.uses]
        return bool(readers) and all(
            isinstance(op := reader.opview, Op)
            and (_is_low(op) or (_is_monotone(op) and reader.results[0] in self.rounded))
            for reader in readers
        )

    def block(self, block: ir.Block) -> None:
        for operation in list(block.operations):
            op = operation.opview
            if not isinstance(op, Op):
                continue
            pure = op.PURE and not op.REGIONS and not op.OP_NAME.startswith("random")
            if pure and all(v in self.constants for v in operation.operation.operands):
                self.constants.update(operation.operation.results)
                continue
            for region in operation.operation.regions:  # values defined inside are not visible outside
                self.made, self.cast = self.made.new_child(), self.cast.new_child()
                for inner in region.blocks:
                    self.block(inner)
                self.made, self.cast = self.made.parents, self.cast.parents
            if isinstance(op, Loop):
                self._carry(op)
            if any(type_of(v).dtype == FULL for v in operation.operation.results) and self._narrows(op):
                self._rebuild(op)

    def _carry(self, loop: Loop) -> None:
        """Carries values in half precision that the loop reads only so, if nothing reads their last ones. The kernel that
        computes the state of a recurrent layer then rounds it."""
        first = len(loop.operation.operands) - len(loop.args[2])
        block = body(loop)
        last = list(block.operations)[-1].operation
        for number, argument in enumerate(list(block.arguments)[2:]):
            casts = [use.owner.operation.opview for use in argument.uses]
            narrow, result = type_of(argument).with_dtype(self.dtype), loop.operation.results[number]
            if type_of(argument).dtype != FULL or list(result.uses) or not casts:
                continue
            if not all(isinstance(cast, Cast) and type_of(cast.operation.results[0]) == narrow for cast in casts):
                continue
            with loop.operation.location:
                with ir.InsertionPoint(loop.operation):
                    loop.operation.operands[first + number] = self._half(loop.operation.operands[first + number])
                with ir.InsertionPoint(last):
                    last.operands[1 + number] = ops.cast(last.operands[1 + number], dtype=self.dtype)
            argument.set_type(narrow.to_mlir())
            result.set_type(type_of(result).with_dtype(self.dtype).to_mlir())
            for cast in casts:
                cast.operation.results[0].replace_all_uses_with(argument)
                cast.operation.erase()

    def _narrows(self, op: Op) -> bool:
        if op.has(Trait.LOW_PRECISION):
            return _is_low(op)
        if not op.has(Trait.FOLLOWS_PRECISION) or op.attrs.get("kind", "max") not in ("max", "min"):
            return False
        wide = [v for v in op.operation.operands if type_of(v).dtype == FULL]
        if op.operation.results[0] not in self.wanted:
            return False  # nothing reads it in half precision
        if _is_monotone(op) and op.operation.results[0] in self.rounded:
            return True
        square = isinstance(op, Mul) and len(set(wide)) == 1  # usually of a norm, and may overflow
        return (
            not square
            and any(v in self.made for v in wide)
            and all(v in self.made or self._is_constant(v) for v in wide)
        )

    def _is_constant(self, value: ir.Value) -> bool:
        """True for a constant whose elements the type can hold (assumed if they are not in the IR)."""
        number = splat(value)
        return value in self.constants and (number is None or abs(number) <= LARGEST[self.dtype] or abs(number) == inf)

    def _rebuild(self, op: Op) -> None:
        operation = op.operation
        attrs = op.attrs
        with operation.location, ir.InsertionPoint(operation):
            args = [[self._half(v) for v in a] if isinstance(a, list) else self._half(a) for a in op.args]
            if isinstance(op, DotGeneral) and operation.results[0] not in self.wanted:
                attrs["dtype"] = FULL  # accumulates in float32 before rounding
            result = op.build(*args, **attrs)
            assert isinstance(result, ir.Value)
            if type_of(result).dtype == FULL:
                wide = result
            else:
                wide = ops.cast(result, dtype=FULL)
                self.made[wide] = result
        operation.results[0].replace_all_uses_with(wide)
        operation.erase()

    def _half(self, value: Any) -> Any:
        if value is None or type_of(value).dtype != FULL:
            return value
        for known in (self.made, self.cast):
            if value in known:
                return known[value]
        memo: MutableMapping[ir.Value, ir.Value] = self.cast
        memo[value] = ops.cast(value, dtype=self.dtype)
        return memo[value]


def _is_monotone(op: Op) -> bool:
    """True for an op that commutes with rounding."""
    return op.OP_NAME in MONOTONE and op.attrs.get("kind", "max") in ("max", "min")


def _is_low(op: Op) -> bool:
    """True for an op that is computed in half precision whatever its operands' type is."""
    return op.has(Trait.LOW_PRECISION) and op.attrs.get("dtype") is None
