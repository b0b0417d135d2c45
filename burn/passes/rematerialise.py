"""Cheap values that are wanted again much later are computed again there, where that takes less memory than to keep them.

In training, what the way back needs of the way forward lives from one to the other. Of the values that pointwise ops make of one
product (both factors of an activation's slope, say), one is enough: the product's result, or what alone reads it (with a bias),
from which the others follow. They are computed again in front of their late readers, which take them into their kernels.

A value whose late readers are not pointwise (a product reads its operand from memory) is kept all the same. What follows from
inputs alone, such as a table of angles, is left as it is: it is small, or costly. Runs in front of `fuse`, behind all that merges
equal ops.
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
from burn.passes.again import read_late
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

PRODUCTS = ("conv", "dot_general", "packed_conv", "packed_dot", "join_tiles")
"""Ops whose kernels do what is pointwise behind them on the way."""


@register
@dataclass(frozen=True)
class Rematerialise:
    """`far` ops later counts as late; a value of fewer than `least` bytes is kept, and one that takes more than `chain` ops."""

    name: ClassVar[str] = "rematerialise"
    far: int = 32
    least: int = 65536
    chain: int = 16

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            _Block(self, program.block).run()


@dataclass(frozen=True)
class _Way:
    """How a value is computed again: its ops in their order, and the values that it is computed from, without those that are
    there anyway."""

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
        kept |= {v for v in late if self._replaces_product(v)}
        groups: dict[frozenset[ir.Value], list[ir.Value]] = defaultdict(list)
        ways: dict[ir.Value, _Way] = {}
        for value in late:
            if value in kept or not isinstance(op_of(value), Pointwise) or _bytes(value) < self.options.least:
                continue
            way = self._way(value, kept)
            if way is not None and way.sources:
                ways[value] = way
                groups[way.sources].append(value)
        held = kept | {v for v in late if v not in ways}
        chosen: list[ir.Value] = []
        for sources, values in groups.items():
            if sum(_bytes(s) for s in sources - held) < sum(map(_bytes, values)):
                chosen += values
        firsts = {value: self._home(late[value][0]) or 0 for value in chosen}
        new: dict[ir.Value, ir.Value] = {}
        for value in sorted(chosen, key=firsts.__getitem__):
            self._again(value, ways[value], late[value], new)

    def _late(self, value: ir.Value, made: int | None) -> list[Op]:
        """The ops of this block that read a value much later, in their order; none where a nested block reads it."""
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

    def _replaces_product(self, value: ir.Value) -> bool:
        """Whether a pointwise value is all that anything reads of a product: with it there is no need of the product's result."""
        op = op_of(value)
        if not isinstance(op, Pointwise) or _bytes(value) < self.options.least:
            return False
        large = [x for x in op.operation.operands if _bytes(x) > _bytes(value) // 8]
        product = is_named(large[0], *PRODUCTS) if len(large) == 1 else None
        return product is not None and len(list(large[0].uses)) == 1

    def _home(self, op: Op) -> int | None:
        """Where an op is in this block; None for one in a nested block."""
        return self.position.get(op.operation.results[0]) if len(op.operation.results) else len(self.ops)

    def _readers(self, value: ir.Value) -> Iterator[Op]:
        for use in value.uses:
            op = use.owner.opview if isinstance(use.owner, ir.Operation) else use.owner
            if isinstance(op, Op):
                yield op

    def _way(self, value: ir.Value, kept: set[ir.Value]) -> _Way | None:
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
        return _Way(tuple(steps.values()), frozenset(sources)) if len(steps) <= self.options.chain else None

    def _again(self, value: ir.Value, way: _Way, readers: list[Op], new: dict[ir.Value, ir.Value]) -> None:
        """Computes a value again in front of its first late reader. What it is computed from is read behind barriers, so that
        fusion does not take the ops back to where they were; these wait for nothing, so that the product whose result is combined
        with what is computed again may take it in. new: what stands for values there, found and added to."""
        first = readers[0]
        with first.operation.location, ir.InsertionPoint(first.operation):
            for step in way.steps:
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
    """About how much memory a value takes."""
    return estimate(type_of(value).bytes)
