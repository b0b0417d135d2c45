"""Rematerialises cheap values that are read again much later, if that takes less memory than keeping them.

In training, values of the forward pass that the backward pass reads stay alive in between. One of the pointwise values
derived from a matmul (both factors of an activation's slope, say) is enough: the matmul's result, or its only reader
(with a bias). The others are recomputed before their late readers, which fuse them into their kernels.

A value with a late reader that is not pointwise (a matmul reads its operand from memory) is kept anyway. Values that
depend on inputs alone, such as a table of angles, do not change: they are small, or expensive. Runs before `fuse`,
after all passes that merge equal ops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.dims import estimate
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.query import is_named, op_of
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.sketch import read_late

MATMULS = ("conv", "dot_general", "packed_conv", "packed_dot", "join_tiles", "join_axis")
"""Ops whose kernels fuse pointwise ops after them."""


@register
@dataclass(frozen=True)
class Rematerialise:
    """A reader at least `far` ops later is late. Values of fewer than `least` bytes, and those that take more than
    `chain` ops, are kept."""

    name: ClassVar[str] = "rematerialise"
    far: int = 32
    least: int = 65536
    chain: int = 16

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            _Block(self, program.block).run()


@dataclass(frozen=True)
class _Recomputation:
    """The recomputation of a value: its ops in order, and their source values, except for those in memory anyway."""

    steps: tuple[Op, ...]
    sources: frozenset[ir.Value]


class _Block:
    def __init__(self, options: Rematerialise, block: ir.Block) -> None:
        self.options, self.block = options, block
        self.ops = [o.opview for o in block.operations if isinstance(o.opview, Op)]
        self.position = {op.operation.results[0]: i for i, op in enumerate(self.ops) if len(op.operation.results)}

    def run(self) -> None:
        late = {
            v: users for op in self.ops for v in op.operation.results if (users := self._late(v, self.position.get(v)))
        }
        kept = {v for v, users in late.items() if not all(isinstance(u, Pointwise) for u in users)}
        kept |= {v for v in late if self._replaces_matmul(v)}
        groups: dict[frozenset[ir.Value], list[ir.Value]] = defaultdict(list)
        recomputations: dict[ir.Value, _Recomputation] = {}
        for value in late:
            if value in kept or not isinstance(op_of(value), Pointwise) or _bytes(value) < self.options.least:
                continue
            recomputation = self._recomputation(value, kept)
            if recomputation is not None and recomputation.sources:
                recomputations[value] = recomputation
                groups[recomputation.sources].append(value)
        held = kept | {v for v in late if v not in recomputations}
        chosen: list[ir.Value] = []
        for sources, values in groups.items():
            if sum(_bytes(s) for s in sources - held) < sum(map(_bytes, values)):
                chosen += values
        firsts = {value: self._home(late[value][0]) or 0 for value in chosen}
        new: dict[ir.Value, ir.Value] = {}
        for value in sorted(chosen, key=firsts.__getitem__):
            self._recompute(value, recomputations[value], late[value], new)

    def _late(self, value: ir.Value, made: int | None) -> list[Op]:
        """The ops of this block that read a value much later, in order; empty if a nested block reads it."""
        if made is None:
            return []
        found: dict[int, Op] = {}
        for op in self._readers(value):
            home = self._home(op)
            if home is None:  # in a nested region: it is read from memory
                return []
            if home - made > self.options.far:
                found[home] = op
        return [found[i] for i in sorted(found)]

    def _replaces_matmul(self, value: ir.Value) -> bool:
        """True if a pointwise value is the only reader of a matmul: keeping it makes the matmul's result unnecessary."""
        op = op_of(value)
        if not isinstance(op, Pointwise) or _bytes(value) < self.options.least:
            return False
        large = [x for x in op.operation.operands if _bytes(x) > _bytes(value) // 8]
        matmul = is_named(large[0], *MATMULS) if len(large) == 1 else None
        return matmul is not None and len(list(large[0].uses)) == 1

    def _home(self, op: Op) -> int | None:
        """The index of an op in this block; None for one in a nested block."""
        return self.position.get(op.operation.results[0]) if len(op.operation.results) else len(self.ops)

    def _readers(self, value: ir.Value) -> Iterator[Op]:
        for use in value.uses:
            op = use.owner.opview if isinstance(use.owner, ir.Operation) else use.owner
            if isinstance(op, Op):
                yield op

    def _recomputation(self, value: ir.Value, kept: set[ir.Value]) -> _Recomputation | None:
        steps: dict[ir.Value, Op] = {}
        sources: set[ir.Value] = set()
        few = _bytes(value) // 8

        def walk(v: ir.Value) -> None:
            op = op_of(v)
            if v in steps or op is None or op.has(Trait.CONSTANT) or len(steps) > self.options.chain:
                return
            again = v == value or v not in kept
            if again and v in self.position and (isinstance(op, Pointwise) or op.has(Trait.VIEW)) and _bytes(v) > few:
                for operand in op.operation.operands:
                    walk(operand)
                steps[v] = op
            elif _bytes(v) > few:
                sources.add(v)

        walk(value)
        return _Recomputation(tuple(steps.values()), frozenset(sources)) if len(steps) <= self.options.chain else None

    def _recompute(
        self, value: ir.Value, recomputation: _Recomputation, readers: list[Op], new: dict[ir.Value, ir.Value]
    ) -> None:
        """Recomputes a value before its first late reader. The source values are read behind barriers, so that fusion
        does not move the ops back. These barriers wait for nothing, so that a matmul can fuse the recomputed values
        into its epilogue. new: the replacements of values, extended here."""
        first = readers[0]
        with first.operation.location, ir.InsertionPoint(first.operation):
            for step in recomputation.steps:
                if step.operation.results[0] in new:
                    continue
                for operand in step.operation.operands:
                    if operand not in new and _is_computed(operand):
                        new[operand] = read_late(operand)
                copy = step.operation.clone()
                for i, operand in enumerate(step.operation.operands):
                    copy.operands[i] = new.get(operand, operand)
                new[step.operation.results[0]] = copy.results[0]
        for reader in readers:
            for i, operand in enumerate(reader.operation.operands):
                if operand == value:
                    reader.operation.operands[i] = new[value]


def _is_computed(value: ir.Value) -> bool:
    op = op_of(value)
    return op is not None and not op.has(Trait.CONSTANT)


def _bytes(value: ir.Value) -> int:
    """An estimate of a value's memory."""
    return estimate(type_of(value).bytes)
