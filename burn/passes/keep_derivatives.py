"""Keeps derivatives of activations for the backward pass instead of the operands that they are functions of.

The backward pass of gelu(x), with x = matmul + bias, multiplies by gelu'(x). `rematerialise` keeps the matmul's result until
then, and the backward pass computes erf and an exponential again. The derivative takes the same memory, and the kernel of the
forward pass computes these functions already. So the pointwise ops that lead to the derivative move to the forward pass.

That holds if the backward pass needs one value that pointwise ops make of the matmul alone, besides those that a matmul reads
from memory anyway. A gated unit needs two, silu(x) and silu'(x), and keeps x. The derivative of tanh is a function of its
result, which is in memory. Runs before `rematerialise`, which keeps a value that is read late behind a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.dims import estimate
from burn.dialect.functions import FUNCTIONS
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.rematerialise import MATMULS
from burn.passes.sketch import read_late

EXPENSIVE = frozenset(row.name for row in FUNCTIONS if row.expensive)


@register
@dataclass(frozen=True)
class KeepDerivatives:
    """A reader at least `far` ops later is late. Results of matmuls of fewer than `least` bytes are kept."""

    name: ClassVar[str] = "keep_derivatives"
    far: int = 32
    least: int = 65536

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        """Returns the number of derivatives."""
        with context():
            return {"kept": _Block(self, program.block).run()}


@dataclass(frozen=True)
class _Derivative:
    """A value that is kept, the late ops that lead to it, the op that they follow in the forward pass, and its late readers."""

    value: ir.Value
    steps: Sequence[Op]
    after: Op
    readers: Sequence[Op]


class _Block:
    def __init__(self, options: KeepDerivatives, block: ir.Block) -> None:
        self.options = options
        self.ops = [o.opview for o in block.operations if isinstance(o.opview, Op)]
        self.position = {v: i for i, op in enumerate(self.ops) for v in op.operation.results}

    def run(self) -> int:
        matmuls = [op.operation.results[0] for op in self.ops if op.OP_NAME in MATMULS]
        large = [value for value in matmuls if _bytes(value) >= self.options.least]
        found = [derivative for value in large if (derivative := self._derivative(value)) is not None]
        for derivative in found:  # positions are those of the program before
            _keep(derivative)
        return len(found)

    def _derivative(self, matmul: ir.Value) -> _Derivative | None:
        """The derivative to keep instead of a matmul's result, or of a function of it."""
        border = self.position[matmul] + self.options.far
        functions = self._functions(matmul)
        stored, needed = set[ir.Value](), dict[ir.Value, list[Op]]()
        for value in functions:
            late = [op for op in self._readers(value) if op is None or self._at(op) > border]
            others = [op for op in late if op is None or op.operation.results[0] not in functions]
            if others and all(isinstance(op, Pointwise) for op in others):
                needed[value] = [op for op in others if op is not None]
            elif others:
                stored.add(value)
        if len(needed) != 1 or matmul in stored:
            return None
        ((value, readers),) = needed.items()
        steps = self._steps(value, functions - stored)
        late = [op for op in steps if self._at(op) > border]
        early = [op for op in steps if self._at(op) <= border and isinstance(op, Pointwise)]
        if not late or _bytes(value) > _bytes(matmul) or not any(op.OP_NAME in EXPENSIVE for op in early):
            return None
        after, own = early[-1], {op.operation.results[0] for op in late}
        operands = {x for op in late for x in op.operation.operands} - own
        if any(self.position.get(x, -1) > self._at(after) and not _is_constant(x) for x in operands):
            return None
        return _Derivative(value, late, after, sorted(readers, key=self._at))

    def _functions(self, matmul: ir.Value) -> set[ir.Value]:
        """The values that pointwise ops make of a matmul's result and small values alone, and that result."""
        few = _bytes(matmul) // 8
        found, todo = {matmul}, [matmul]
        while todo:
            for op in self._readers(todo.pop()):
                if not isinstance(op, Pointwise) or (result := op.operation.results[0]) in found:
                    continue
                if all(
                    x in found or _bytes(x) <= few for x in op.operation.operands
                ):  # else once the other one is found
                    found.add(result)
                    todo.append(result)
        return found

    def _steps(self, value: ir.Value, through: set[ir.Value]) -> list[Op]:
        """The ops that lead to a value through others, in order."""
        found: dict[int, Op] = {}
        todo = [value]
        while todo:
            at = self.position[todo.pop()]
            if at not in found:
                found[at] = self.ops[at]
                todo += [x for x in self.ops[at].operation.operands if x in through]
        return [found[at] for at in sorted(found)]

    def _at(self, op: Op) -> int:
        return self.position[op.operation.results[0]]

    def _readers(self, value: ir.Value) -> Iterator[Op | None]:
        """The ops of this block that read a value. None for an op of a nested block, and for one without results."""
        for use in value.uses:
            op = use.owner.opview if isinstance(use.owner, ir.Operation) else use.owner
            own = isinstance(op, Op) and len(op.operation.results) and op.operation.results[0] in self.position
            yield op if isinstance(op, Op) and own else None


def _keep(derivative: _Derivative) -> None:
    """Moves the ops of a derivative behind the forward pass's, with copies of their constants. Its readers read it behind a
    barrier, so that fusion does not move the ops back."""
    for op in reversed(derivative.steps):
        op.operation.move_after(derivative.after.operation)
    for op in derivative.steps:
        for i, operand in enumerate(op.operation.operands):
            constant = op_of(operand)
            if constant is not None and constant.has(Trait.CONSTANT):
                with ir.InsertionPoint(op.operation):
                    op.operation.operands[i] = constant.operation.clone().results[0]
    first = derivative.readers[0]
    with first.operation.location, ir.InsertionPoint(first.operation):
        late = read_late(derivative.value)
    for reader in derivative.readers:
        for i, operand in enumerate(reader.operation.operands):
            if operand == derivative.value:
                reader.operation.operands[i] = late


def _is_constant(value: ir.Value) -> bool:
    op = op_of(value)
    return op is not None and op.has(Trait.CONSTANT)


def _bytes(value: ir.Value) -> int:
    """An estimate of a value's memory."""
    return estimate(type_of(value).bytes)
