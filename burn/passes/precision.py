"""Mixed precision: matmuls, convolutions and attention compute in half precision, and so do the pointwise ops between them.

Norms, softmax, sums, exponentials, losses and ops without a trait (`LOW_PRECISION`, `FOLLOWS_PRECISION`) stay in float32, and
so do the program's inputs and outputs. A result in half precision has two forms, itself and a cast to float32; a reader takes the
one that it computes in, and of a sum with a float32 operand the wider one counts, as in PyTorch's autocast. Constants are cast by
ops that `fold` runs while compiling. Branches and loops take and give float32.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.contraction import DotGeneral
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Mul
from burn.dialect.program import Program
from burn.dialect.query import splat
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.errors import CompileError
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

FULL = "float32"
LARGEST = {"bfloat16": 3.38e38, "float16": 65504.0}
"""The half types, and what is no infinity in them."""


@register
@dataclass(frozen=True)
class Precision:
    """`to`: "bfloat16" or "float16". Takes programs of composites; float64 and what is in halves already stays as it is."""

    name: ClassVar[str] = "precision"
    to: str = "bfloat16"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        if self.to not in LARGEST:
            raise CompileError(f"precision{{to={self.to}}}: halves are {' and '.join(LARGEST)}")
        narrow(program, self.to)


def narrow(program: Program, dtype: str, parameters: Iterable[ir.Value] = ()) -> None:
    """What the pass does. parameters: values that are rounded where they meet halves, as constants are."""
    with context():
        narrowing = _Narrowing(dtype)
        narrowing.constants.update(parameters)
        narrowing.look_ahead(program.block)
        narrowing.block(program.block)


class _Narrowing:
    """wanted: results that something in halves reads, in the end; constants: what follows from constants alone; made: by the
    float32 form of a value that halves made, that half; cast: halves of others, made when one was wanted."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.wanted: set[ir.Value] = set()
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
            if op.has(Trait.LOW_PRECISION) or (op.has(Trait.FOLLOWS_PRECISION) and results[0] in self.wanted):
                self.wanted.update(operation.operation.operands)

    def block(self, block: ir.Block) -> None:
        for operation in list(block.operations):
            op = operation.opview
            if not isinstance(op, Op):
                continue
            pure = op.PURE and not op.REGIONS and not op.OP_NAME.startswith("random")
            if pure and all(v in self.constants for v in operation.operation.operands):
                self.constants.update(operation.operation.results)
                continue
            for region in operation.operation.regions:  # what is made in there is not seen outside
                self.made, self.cast = self.made.new_child(), self.cast.new_child()
                for inner in region.blocks:
                    self.block(inner)
                self.made, self.cast = self.made.parents, self.cast.parents
            if any(type_of(v).dtype == FULL for v in operation.operation.results) and self._narrows(op):
                self._rebuild(op)

    def _narrows(self, op: Op) -> bool:
        if op.has(Trait.LOW_PRECISION):
            return op.attrs.get("dtype") is None
        if not op.has(Trait.FOLLOWS_PRECISION) or op.attrs.get("kind", "max") not in ("max", "min"):
            return False
        wide = [v for v in op.operation.operands if type_of(v).dtype == FULL]
        if op.operation.results[0] not in self.wanted:
            return False  # nobody reads the half of it
        square = isinstance(op, Mul) and len(set(wide)) == 1  # a norm's, as a rule: it may not fit
        return (
            not square
            and any(v in self.made for v in wide)
            and all(v in self.made or self._is_constant(v) for v in wide)
        )

    def _is_constant(self, value: ir.Value) -> bool:
        """Whether it is a constant whose elements the type holds, which is taken for granted where they are not written here."""
        number = splat(value)
        return value in self.constants and (number is None or abs(number) <= LARGEST[self.dtype] or abs(number) == inf)

    def _rebuild(self, op: Op) -> None:
        operation = op.operation
        attrs = op.attrs
        with operation.location, ir.InsertionPoint(operation):
            args = [[self._half(v) for v in a] if isinstance(a, list) else self._half(a) for a in op.args]
            if isinstance(op, DotGeneral) and operation.results[0] not in self.wanted:
                attrs["dtype"] = FULL  # the sums are, before they are rounded
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
