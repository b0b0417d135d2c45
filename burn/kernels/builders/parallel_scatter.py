"""Conflict-free scatter: applies all updates in parallel, after finding the updates of every element.

Colliding updates are those that may have one target: all tuples of a `scatter_nd`, or those along the axis of a
`scatter_elements`. A few candidates are compared with every element (`_ParallelScatter.compared`). For many, a kernel ranks the
updates by target in a stable order. An update's rank is the number of updates with a lesser target or an earlier one
with the same target. The updates of an element then have consecutive ranks; one iteration combines them, and the
element reads the result (`_ParallelScatter.ranked`). The result does not depend on timing: the bits are always the same. Targets
are checked once; ranks and what is found by them are in range by construction.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.control import Group
from burn.dialect.dims import Dim, LoopVar, product
from burn.dialect.indexing import ScatterElements
from burn.dialect.op import full_name
from burn.dialect.types import DTYPES, type_of
from burn.kernels.body import Apply, Const, Convert, Index, LoopKernel, Reduced, Reduction, Scalar, Stage, Where, Write
from burn.kernels.body import identity as nothing
from burn.kernels.builders.builder import Builder, Call, accumulate_type, anchor_of, convert, loop_index, loops
from burn.kernels.builders.split_reduction import split_reduction
from burn.kernels.lower import Indices, delinear, linear
from burn.kernels.preferences import Preferences

FEW = 8
"""Numbers of candidates up to this are compared with every element."""

FEW_TARGETS = 4
"""Up to so many targets, all updates are summed for each of them: the runs of updates with one target are long."""

KINDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}
"""The reductions that combine updates."""

KEYS, ORDER, RUNS, SLOTS, TOTALS = range(5)
"""Buffers shared by the kernels.

- KEYS: the target of each update.
- ORDER: the updates by rank.
- RUNS: by rank, the number of updates with the same target, stored at the first of them.
- SLOTS: for each target the rank of its first update, counted from 1. If the last write wins: of its last update.
- TOTALS: the combined updates.
"""

Ranges = tuple[tuple[Dim, Dim], ...]


def build(group: Group, preferences: Preferences) -> list[Call]:
    """Returns an empty list if sequential updates are better: too many candidates, or no reduction combines their
    elements."""
    made = _ParallelScatter(group)
    if isinstance(made.count, int) and made.count <= FEW:
        return [made.compared()]
    kind = DTYPES[made.x.dtype].kind
    targets = product(made.target_shape)
    if (
        made.reduction in KINDS
        and made.named
        and not made.elements
        and isinstance(targets, int)
        and targets <= FEW_TARGETS
    ):
        return split_reduction(made.swept(), preferences, downwards=True)
    rows = made.length if isinstance(made.length, int) else 1
    if isinstance(made.count, int) and made.count > preferences.scatter_collisions * max(1, rows):
        return []
    return made.ranked() if made.reduction == "none" or kind in ("float", "int", "uint") else []


class _ParallelScatter:
    """One scatter. `lines` are the axes that x and the updates share, `named` the indexed axes of x. `candidates` are the sizes
    that number the candidate updates of a line, and `rest` is the shape that one update writes."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.op = anchor_of(group, "scatter")
        self.reduction: str = self.op.reduction
        self.x, indices, updates = (type_of(v) for v in (self.op.x, self.op.indices, self.op.updates))
        self.elements = isinstance(self.op, ScatterElements)
        if self.elements:
            axis = self.op.axis % self.x.rank
            self.lines = tuple(i for i in range(self.x.rank) if i != axis)
            self.candidates, self.named = (updates.shape[axis],), (axis,)
        else:
            depth = indices.shape[-1]
            assert isinstance(depth, int)
            self.lines, self.candidates, self.named = (), indices.shape[:-1], tuple(range(depth))
        self.rest = () if self.elements else self.x.shape[len(self.named) :]
        self.high = tuple(updates.shape[i] for i in self.lines)
        self.count, self.length = product(self.candidates), product(self.rest)
        self.target_shape = tuple(self.x.shape[i] for i in self.named)
        self.dtype = accumulate_type(self.x.dtype)

    def target(self, builder: Builder, line: Indices, candidate: Dim) -> list[Dim]:
        """The target index of an update, bounds-checked."""
        low, site = builder.low, full_name(self.op)
        if self.elements:
            source = low.at(self.op.indices, self._along(line, candidate))
            return [low.fetch(source, self.target_shape[0], site)]
        head = delinear(candidate, self.candidates)
        return [low.fetch(low.at(self.op.indices, (*head, k)), d, site) for k, d in enumerate(self.target_shape)]

    def update(self, builder: Builder, line: Indices, candidate: Dim, rest: Indices) -> Scalar:
        if self.elements:
            return builder.low.at(self.op.updates, self._along(line, candidate))
        return builder.low.at(self.op.updates, (*delinear(candidate, self.candidates), *rest))

    def _along(self, line: Indices, candidate: Dim) -> Indices:
        (axis,) = self.named
        return (*line[:axis], candidate, *line[axis:])

    def split_index(self, here: Indices) -> tuple[Indices, Indices, Indices, Ranges]:
        """Splits an index of x into its line, its target index and its index in the rest; the ranges limit x to lines
        with updates."""
        line, named = tuple(here[i] for i in self.lines), tuple(here[i] for i in self.named)
        shorter = tuple((p, d) for p, d, i in zip(line, self.high, self.lines, strict=True) if d != self.x.shape[i])
        return line, named, () if self.elements else here[len(self.named) :], shorter

    # ---- few candidates ------------------------------------------------------------------------------------------------
    def compared(self) -> Call:
        """Compares every element with each candidate in order."""
        assert isinstance(self.count, int)
        builder, variables = Builder(self.group), loops(self.x.shape)
        here = loop_index(variables)
        line, named, rest, shorter = self.split_index(here)
        value = old = builder.low.at(self.op.x, here)
        for candidate in range(self.count):
            mine = tuple((p - t, 1) for p, t in zip(named, self.target(builder, line, candidate), strict=True))
            new = self.update(builder, line, candidate, rest)
            new = new if self.reduction == "none" else Apply(value.dtype, self.reduction, (value, new))
            value = Where(value.dtype, mine, new, value) if mine else new
        value = Where(value.dtype, shorter, value, old) if shorter else value
        return self._kernel(builder, variables, (Write(builder.out(0), linear(here, self.x.shape), value),))

    # ---- few targets ---------------------------------------------------------------------------------------------------
    def swept(self) -> Call:
        """Combines all updates for each target, those of other targets as nothing."""
        builder, step = Builder(self.group), LoopVar("step", self.count)
        variables = loops(self.x.shape)
        here, (candidate,) = loop_index(variables), loop_index((step,))
        line, named, rest, _ = self.split_index(here)
        mine = tuple((p - t, 1) for p, t in zip(named, self.target(builder, line, candidate), strict=True))
        kind = KINDS[self.reduction]
        update = convert(self.update(builder, line, candidate, rest), self.dtype)
        body = Where(self.dtype, mine, update, Const(self.dtype, nothing(kind, self.dtype)))
        old = convert(builder.low.at(self.op.x, here), self.dtype)
        total = convert(Apply(self.dtype, self.reduction, (old, Reduced(self.dtype, "total"))), self.x.dtype)
        write = Write(builder.out(0), linear(here, self.x.shape), total)
        return self._kernel(builder, variables, (write,), Stage((step,), (Reduction("total", kind, self.dtype, body),)))

    # ---- many candidates -----------------------------------------------------------------------------------------------
    def ranked(self) -> list[Call]:
        combined = self.reduction != "none"
        return [
            self._no_slots(),
            self._keys(),
            self._ranks(),
            *([self._totals()] if combined else []),
            self._read_totals(),
        ]

    def _kernel(self, builder: Builder, parallel: tuple[LoopVar, ...], writes: Sequence[Write], *before: Stage) -> Call:
        stages = (*before, Stage((), (), tuple(writes)))
        return builder.call(lambda buffers: LoopKernel(parallel, stages, buffers))

    def _shared(self, builder: Builder, number: int, writes: bool = False) -> int:
        lines = product(self.high)
        elements = lines * (product(self.target_shape) if number == SLOTS else self.count)
        dtype, elements = (self.dtype, elements * self.length) if number == TOTALS else ("int32", elements)
        return builder.shared(number, dtype, elements, "write" if writes else "read")

    def _update_offset(self, line: Indices, number: Dim) -> Dim:
        return linear((*line, number), (*self.high, self.count))

    def _slot_offset(self, line: Indices, number: Dim) -> Dim:
        return linear((*line, number), (*self.high, product(self.target_shape)))

    def _no_slots(self) -> Call:
        builder, variables = Builder(self.group), loops((*self.high, product(self.target_shape)))
        slots = self._shared(builder, SLOTS, writes=True)
        *line, number = loop_index(variables)
        return self._kernel(
            builder, variables, (Write(slots, self._slot_offset(tuple(line), number), Const("int32", 0)),)
        )

    def _keys(self) -> Call:
        builder, variables = Builder(self.group), loops((*self.high, self.count))
        keys = self._shared(builder, KEYS, writes=True)
        *line, candidate = loop_index(variables)
        named = linear(self.target(builder, tuple(line), candidate), self.target_shape)
        key = Convert("int32", Index("int64", named))
        return self._kernel(builder, variables, (Write(keys, self._update_offset(tuple(line), candidate), key),))

    def _ranks(self) -> Call:
        builder, variables, other = Builder(self.group), loops((*self.high, self.count)), LoopVar("other", self.count)
        low, site = builder.low, full_name(self.op)
        keys = self._shared(builder, KEYS)
        *first, candidate = loop_index(variables)
        line, (theirs,) = tuple(first), loop_index((other,))
        mine, its = (low.load(keys, self._update_offset(line, p)) for p in (candidate, theirs))
        same = Convert("int32", Apply("bool", "eq", (its, mine)))
        in_front = Where("int32", ((candidate - theirs - 1, self.count),), same, Const("int32", 0))
        bodies = {"less": Convert("int32", Apply("bool", "lt", (its, mine))), "same": same, "before": in_front}
        counted = Stage((other,), tuple(Reduction(name, "sum", "int32", body) for name, body in bodies.items()))
        less, alike, before = (Reduced("int32", name) for name in bodies)
        rank = self._update_offset(line, low.fetch(_plus(less, before), self.count, site, True))
        order, runs, slots = (self._shared(builder, n, writes=True) for n in (ORDER, RUNS, SLOTS))
        is_first = Apply("bool", "eq", (before, Const("int32", 0)))
        begin = _plus(less, alike if self.reduction == "none" else Const("int32", 1))
        writes = (
            Write(order, rank, Convert("int32", Index("int64", candidate))),
            Write(runs, rank, Apply("int32", "select", (is_first, alike, Const("int32", 0)))),
            Write(slots, self._slot_offset(line, low.fetch(mine, product(self.target_shape), site, True)), begin),
        )
        return self._kernel(builder, variables, writes, counted)

    def _totals(self) -> Call:
        """The combined updates of a target, at the rank of its first update."""
        builder, step = Builder(self.group), LoopVar("step", self.count)
        variables = loops((*self.high, self.count, *self.rest))
        low, site = builder.low, full_name(self.op)
        order, runs = self._shared(builder, ORDER), self._shared(builder, RUNS)
        here, (further,) = loop_index(variables), loop_index((step,))
        line, rank, rest = here[: len(self.lines)], here[len(self.lines)], here[len(self.lines) + 1 :]
        run = low.fetch(low.load(runs, self._update_offset(line, rank)), self.count + 1, site, True)
        candidate = low.fetch(low.load(order, self._update_offset(line, rank + further)), self.count, site, True)
        kind = KINDS[self.reduction]
        none = Const(self.dtype, nothing(kind, self.dtype))
        body = Where(
            self.dtype, ((further, run),), convert(self.update(builder, line, candidate, rest), self.dtype), none
        )
        total = Write(
            self._shared(builder, TOTALS, writes=True),
            linear(here, [v.extent for v in variables]),
            Reduced(self.dtype, "total"),
        )
        return self._kernel(builder, variables, (total,), Stage((step,), (Reduction("total", kind, self.dtype, body),)))

    def _read_totals(self) -> Call:
        builder, variables = Builder(self.group), loops(self.x.shape)
        low, site = builder.low, full_name(self.op)
        here = loop_index(variables)
        line, named, rest, shorter = self.split_index(here)
        slot = low.load(self._shared(builder, SLOTS), self._slot_offset(line, linear(named, self.target_shape)))
        rank = low.fetch(slot, self.count + 1, site, True) - 1
        old = low.at(self.op.x, here)
        if self.reduction == "none":
            order = low.load(self._shared(builder, ORDER), self._update_offset(line, rank))
            new = self.update(builder, line, low.fetch(order, self.count, site, True), rest)
        else:
            where = linear((*line, rank, *rest), (*self.high, self.count, *self.rest))
            total = low.load(self._shared(builder, TOTALS), where)
            new = Apply(self.dtype, self.reduction, (convert(old, self.dtype), total))
        value = Where(old.dtype, ((rank, self.count),), convert(new, old.dtype), old)
        value = Where(old.dtype, shorter, value, old) if shorter else value
        return self._kernel(builder, variables, (Write(builder.out(0), linear(here, self.x.shape), value),))


def _plus(a: Scalar, b: Scalar) -> Scalar:
    return Apply("int32", "add", (a, b))
