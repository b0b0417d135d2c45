"""An estimate of a block in which some values are recomputed for the backward pass instead of kept: the order of its
ops, and the peak of live memory.

A training block has a turning point: the op with the most live memory, where the forward pass ends. Values that are
defined before and read after it are kept. A value that is not kept is recomputed before its first reader after the
turning point, from kept and recomputed values, and lives until its last reader. Nothing is computed three times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from burn.dialect import ops
from burn.dialect.control import defined_symbols
from burn.dialect.dims import Dim
from burn.dialect.locations import AGAIN, source_name
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import is_named
from burn.dialect.reduction import Reduce
from burn.dialect.traits import Trait
from burn.dialect.types import type_of

Count = Callable[[Dim], int]
"""Evaluates a size to a number."""

NONE = -1
"""The number of a value that is not the block's own."""


@dataclass(frozen=True)
class Step:
    """An op by its number, and the values that it reads. For a recomputed op also the number of the op before which it
    runs. Recomputed values have numbers of their own (`Sketch.again`)."""

    op: int
    reads: Sequence[int]
    before: int | None = None


class Sketch:
    """Ops and values of a block as numbers, in order. kept: the values defined before the turning point and read after
    it. far: a value is in memory if a reader is at least this many ops away, because kernels are made of neighbouring
    ops."""

    def __init__(self, block: ir.Block, count: Count, far: int) -> None:
        self.far = far
        self.ops = [o.opview for o in block.operations if isinstance(o.opview, Op)]
        self._values = [v for op in self.ops for v in op.operation.results]
        self.maker = [i for i, op in enumerate(self.ops) for _ in op.operation.results]
        number = {v: n for n, v in enumerate(self._values)}
        self.results = [[number[v] for v in op.operation.results] for op in self.ops]
        self.reads = [[number.get(v, NONE) for v in op.operation.operands] for op in self.ops]
        self.bytes = [count(type_of(v).bytes) for v in self._values]
        self.work = [_work(op, count) for op in self.ops]
        self.repeats = [_repeats(op) for op in self.ops]
        self._leaf = [op.has(Trait.CONSTANT) for op in self.ops]
        self._joins = [isinstance(op, Pointwise) or op.has(Trait.VIEW) or isinstance(op, Reduce) for op in self.ops]
        self._alias = [op.has(Trait.ALIAS) for op in self.ops]
        self.pinned = {number[v] for op in self.ops for v in _read_inside(op) if v in number}
        self.outputs = {n for n in self.reads[-1] if n != NONE}
        self.peak = len(self.ops)
        plain = self.steps(())
        alive = self.alive(plain)
        self.peak = max(range(len(alive)), key=alive.__getitem__)
        self.kept = {self._root(u) for reads in self.reads[self.peak + 1 :] for u in reads if u != NONE}
        self.kept = {
            u for u in (*self.kept, *self.pinned) if self.maker[u] <= self.peak and not self._leaf[self.maker[u]]
        }

    def again(self, value: int) -> int:
        """The number of a recomputed value."""
        return value + len(self._values)

    def is_kept(self, value: int) -> bool:
        """True if a value read by a recomputed op is in memory."""
        return value < len(self._values) and not self._leaf[self.maker[value]]

    def candidates(self, least: int) -> list[int]:
        """Kept values of at least this many bytes that can be recomputed, by increasing arithmetic per byte, then in
        program order. Recomputing the first ones frees most of the kept memory."""
        late: dict[int, int] = {}
        for i in range(len(self.ops) - 1, self.peak, -1):
            late.update((self._root(u), i) for u in self.reads[i] if u != NONE)
        found = [
            u
            for u in self.kept - self.pinned - self.outputs
            if self.repeats[self.maker[u]] and self.bytes[u] >= least and late[u] - self.maker[u] > self.far
        ]
        price = {u: self._price(u) for u in found}
        return sorted(found, key=lambda u: (price[u], u))

    def _price(self, value: int) -> float:
        """Arithmetic per freed byte, to two digits."""
        made: dict[int, int] = {}
        steps = self._recomputation(value, self.kept - {value}, made, 0)
        return float(f"{sum(self.work[s.op] for s in steps) / self.bytes[value]:.1e}")

    def steps(self, dropped: Collection[int]) -> list[Step]:
        """The ops in their order if these values are dropped."""
        if not dropped:
            return [Step(i, reads) for i, reads in enumerate(self.reads)]
        kept, made, found = self.kept.difference(dropped), dict[int, int](), list[Step]()
        for i, reads in enumerate(self.reads):
            if i > self.peak:
                for u in reads:
                    found += self._recomputation(u, kept, made, i)
                reads = [made.get(u, u) for u in reads]
            found.append(Step(i, reads))
        return found

    def _recomputation(self, value: int, kept: set[int], made: dict[int, int], before: int) -> list[Step]:
        """The recomputation of a value that is read after the turning point; empty if it is available. made: the
        numbers of recomputed values, extended here."""
        found: list[Step] = []
        todo = [value]
        while todo:
            u = todo[-1]
            op = self.maker[u] if u != NONE else NONE
            there = u == NONE or u in made or op > self.peak or u in kept or not self.repeats[op]
            if there:
                todo.pop()
                continue
            if missing := [x for x in self.reads[op] if self._missing(x, kept, made)]:
                todo += missing
                continue
            todo.pop()
            reads = [made.get(x, x) for x in self.reads[op]]
            if self._alias[op] and reads == self.reads[op]:
                made[u] = u
                continue
            made.update((r, self.again(r)) for r in self.results[op])
            found.append(Step(op, reads, before))
        return found

    def _missing(self, value: int, kept: set[int], made: dict[int, int]) -> bool:
        if value == NONE or value in made or value in kept:
            return False
        return self.maker[value] <= self.peak and self.repeats[self.maker[value]]

    def alive(self, steps: Sequence[Step]) -> list[int]:
        """The live bytes at each step, without the program's outputs. Values that fuse into nearby pointwise kernels
        are never in memory."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        stored: set[int] = set()
        alias: dict[int, int] = {}
        for at, step in enumerate(steps):
            for u in step.reads:
                if u != NONE:
                    root = alias.get(u, u)
                    last[root] = at
                    if not self._joins[step.op] or at - first[root] > self.far:
                        stored.add(root)
            for u in self.results[step.op]:
                made = u if step.before is None else self.again(u)
                first[made] = at
                if self._alias[step.op] and step.reads[0] != NONE:
                    alias[made] = alias.get(step.reads[0], step.reads[0])
        changes = [0] * (len(steps) + 1)
        for u in stored - self.outputs:
            plain = u if u < len(self._values) else u - len(self._values)
            if not self._leaf[self.maker[plain]]:
                changes[first[u]] += self.bytes[plain]
                changes[last[u] + 1] -= self.bytes[plain]
        return list(accumulate(changes[:-1]))

    def _root(self, value: int) -> int:
        """The value whose memory a value shares."""
        while value not in self.pinned and self._alias[self.maker[value]] and self.reads[self.maker[value]][0] != NONE:
            value = self.reads[self.maker[value]][0]
        return value


def apply(sketch: Sketch, steps: Sequence[Step]) -> None:
    """Rewrites the block according to the steps. Recomputed ops read kept values through barriers, so that fusion does
    not move them back. Their locations mark them as recomputed."""
    values = dict(enumerate(v for op in sketch.ops for v in op.operation.results))
    late: dict[int, ir.Value] = {}

    def read(number: int) -> ir.Value:
        if number not in late:
            late[number] = read_late(values[number])
        return late[number]

    for step in steps:
        op = sketch.ops[step.op]
        if step.before is None:
            for i, number in enumerate(step.reads):
                if number != NONE and number != sketch.reads[step.op][i]:
                    op.operation.operands[i] = values[number]
            continue
        with ir.InsertionPoint(sketch.ops[step.before].operation), op.operation.location:
            given = {i: read(n) if sketch.is_kept(n) else values[n] for i, n in enumerate(step.reads) if n != NONE}
            copy = op.operation.clone()
        line = op.operation.location.child_loc if isinstance(op.operation.location, ir.NameLoc) else None
        copy.location = ir.Location.name(f"{source_name(op)} {AGAIN}".strip(), line)
        for i, value in given.items():
            copy.operands[i] = value
        for number, result in zip(sketch.results[step.op], copy.results, strict=True):
            values[sketch.again(number)] = result


def read_late(value: ir.Value) -> ir.Value:
    """A value behind a barrier; for a cast to a wider type the barrier is before the cast, as in the law of barriers."""
    wide = is_named(value, "cast")
    if wide is None or type_of(wide.x).element_bytes >= type_of(value).element_bytes:
        return ops.barrier(value, value)
    return ops.cast(ops.barrier(wide.x, wide.x), dtype=wide.dtype, saturate=wide.saturate)


def _repeats(op: Op) -> bool:
    """True if an op can be recomputed."""
    return op.has(Trait.REPEATABLE) and op.PURE and not defined_symbols(op)


def _read_inside(op: Op) -> Iterator[ir.Value]:
    """The values that the regions of an op read."""
    for region in op.operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from inner.operation.operands
                if isinstance(inner.opview, Op):
                    yield from _read_inside(inner.opview)


def _work(op: Op, count: Count) -> int:
    """An estimate of an op's operations; reading or writing an element counts as one."""
    if not len(op.operation.results) or op.has(Trait.ALIAS):
        return 0
    elements = sum(count(type_of(v).elements) for v in (*op.operation.operands, *op.operation.results))
    return elements + count(op.flops())
