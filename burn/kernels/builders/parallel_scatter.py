"""Conflict-free scatter: applies all updates in parallel, after finding the updates of every element.

Colliding updates are those that may have one target: all tuples of a `scatter_nd`, or those along the axis of a
`scatter_elements`. A few candidates are compared with every element (`_ParallelScatter.compared`). Many are sorted by target
(`ranks.py`). The updates of an element then have consecutive ranks, and the element combines them (`_ParallelScatter.ranked`).
Updates with one target may be many: a kernel before that combines each piece of `PIECE` such updates. The result does not
depend on timing: the bits are always the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.control import Group
from burn.dialect.dims import Dim, LoopVar, ceildiv, dim_max, dim_min, floordiv, product
from burn.dialect.indexing import ScatterElements
from burn.dialect.op import full_name
from burn.dialect.types import DTYPES, type_of
from burn.kernels.body import Apply, Const, Convert, Index, LoopKernel, Reduced, Reduction, Scalar, Stage, Where, Write
from burn.kernels.body import identity as nothing
from burn.kernels.builders.builder import Builder, Call, accumulate_type, anchor_of, convert, loop_index, loops
from burn.kernels.builders.digits import ranks_of
from burn.kernels.builders.ranks import ORDER, Keys, Ranks
from burn.kernels.builders.split_reduction import split_reduction
from burn.kernels.lower import Indices, delinear, linear
from burn.kernels.preferences import Preferences, Sorting

FEW = 8
"""Numbers of candidates up to this are compared with every element."""

FEW_TARGETS = 4
"""Up to so many targets, all updates are summed for each of them: the runs of updates with one target are long."""

KINDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}
"""The reductions that combine updates."""

PIECE = 64
"""The number of updates that one iteration combines before others read the result."""

ENDS, STARTS, PIECES = range(3)
"""Buffers shared by the kernels, by number.

- ENDS: for each target the rank after its last update; 0 for a target without updates. One more element holds nothing.
- STARTS: the same for the rank of its first update. Not if the last write wins.
- PIECES: the combined updates of each piece of `PIECE` ranks, if these have one target. Not if the last write wins.

The buffers of the sort follow.
"""

Ranges = tuple[tuple[Dim, Dim], ...]


def build(group: Group, preferences: Preferences) -> list[Call]:
    """Returns an empty list if no reduction combines the elements."""
    made = _ParallelScatter(group, preferences.sorting)
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
    return made.ranked() if made.reduction == "none" or kind in ("float", "int", "uint") else []


class _ParallelScatter:
    """One scatter. `lines` are the axes that x and the updates share, `named` the indexed axes of x. `candidates` are the sizes
    that number the candidate updates of a line, and `rest` is the shape that one update writes."""

    def __init__(self, group: Group, sorting: Sorting) -> None:
        self.group, self.sorting = group, sorting
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
        own = PIECES + 1 if self.combines else STARTS
        targets = product(self.target_shape)
        bits = max(1, (targets - 1).bit_length()) if isinstance(targets, int) else 31
        keys = Keys("int32", bits, signed=False)
        ranks = ranks_of(self.group, self.high, self.count, keys, self.sorting, own)
        combined = [self._pieces(ranks)] if self.combines else []
        return [self._no_updates(), *ranks.calls(self._key), self._spans(ranks), *combined, self._read(ranks)]

    @property
    def combines(self) -> bool:
        return self.reduction != "none"

    def _kernel(self, builder: Builder, parallel: tuple[LoopVar, ...], writes: Sequence[Write], *before: Stage) -> Call:
        stages = (*before, Stage((), (), tuple(writes)))
        return builder.call(lambda buffers: LoopKernel(parallel, stages, buffers))

    def _shared(self, builder: Builder, number: int, writes: bool = False) -> int:
        lines = product(self.high)
        dtype, elements = "int32", lines * (product(self.target_shape) + 1)
        if number == PIECES:
            dtype, elements = self.dtype, lines * ceildiv(self.count, PIECE) * self.length
        return builder.shared(number, dtype, elements, "write" if writes else "read")

    def _of_target(self, line: Indices, number: Dim) -> Dim:
        """The offset of a target in ENDS or STARTS."""
        return linear((*line, number), (*self.high, product(self.target_shape) + 1))

    def _of_piece(self, line: Indices, number: Dim, rest: Indices) -> Dim:
        return linear((*line, number, *rest), (*self.high, ceildiv(self.count, PIECE), *self.rest))

    def _key(self, builder: Builder, line: Indices, candidate: Dim) -> Scalar:
        """The target of an update, as a number."""
        named = linear(self.target(builder, line, candidate), self.target_shape)
        return Convert("int32", Index("int64", named))

    def _no_updates(self) -> Call:
        builder, variables = Builder(self.group), loops((*self.high, product(self.target_shape)))
        ends = self._shared(builder, ENDS, writes=True)
        *line, number = loop_index(variables)
        return self._kernel(builder, variables, (Write(ends, self._of_target(tuple(line), number), Const("int32", 0)),))

    def _spans(self, ranks: Ranks) -> Call:
        """Writes the ranks of each target's updates. The other updates write the element that holds nothing."""
        builder, variables = Builder(self.group), loops((*self.high, self.count))
        keys, _ = ranks.sorted_buffers
        *first, rank = loop_index(variables)
        line, targets = tuple(first), product(self.target_shape)
        mine, nothing_else = (
            ranks.load(builder, keys, ranks.keys.dtype, line, rank),
            Convert("int32", Index("int64", targets)),
        )
        writes = []
        for number, beside, value in ((ENDS, rank + 1, rank + 1), (STARTS, rank - 1, rank))[: 1 + self.combines]:
            its = ranks.load(builder, keys, ranks.keys.dtype, line, beside)
            goes_on = Where("bool", ((beside, self.count),), Apply("bool", "eq", (its, mine)), Const("bool", False))
            target = builder.low.position(Apply("int32", "select", (goes_on, nothing_else, mine)), targets + 1)
            buffer = self._shared(builder, number, writes=True)
            writes.append(Write(buffer, self._of_target(line, target), Convert("int32", Index("int64", value))))
        return self._kernel(builder, variables, writes)

    def _at_rank(self, builder: Builder, ranks: Ranks, line: Indices, rank: Dim, rest: Indices) -> Scalar:
        """The update with this rank."""
        _, order = ranks.sorted_buffers
        candidate = builder.low.position(ranks.load(builder, order, ORDER, line, rank), self.count)
        return self.update(builder, line, candidate, rest)

    def _pieces(self, ranks: Ranks) -> Call:
        """Combines the updates of each piece that has one target."""
        builder, step = Builder(self.group), LoopVar("step", PIECE)
        variables = loops((*self.high, ceildiv(self.count, PIECE), *self.rest))
        low = builder.low
        here, (further,) = loop_index(variables), loop_index((step,))
        line, piece, rest = here[: len(self.lines)], here[len(self.lines)], here[len(self.lines) + 1 :]
        keys, _ = ranks.sorted_buffers
        first, last = (ranks.load(builder, keys, ranks.keys.dtype, line, piece * PIECE + n) for n in (0, PIECE - 1))
        same = Apply("int32", "select", (Apply("bool", "eq", (first, last)), Const("int32", PIECE), Const("int32", 0)))
        length = Where("int32", ((piece * PIECE + (PIECE - 1), self.count),), same, Const("int32", 0))
        kind = KINDS[self.reduction]
        none = Const(self.dtype, nothing(kind, self.dtype))
        update = convert(self._at_rank(builder, ranks, line, piece * PIECE + further, rest), self.dtype)
        body = Where(self.dtype, ((further, low.position(length, PIECE + 1)),), update, none)
        pieces = self._shared(builder, PIECES, writes=True)
        total = Write(pieces, self._of_piece(line, piece, rest), Reduced(self.dtype, "total"))
        return self._kernel(builder, variables, (total,), Stage((step,), (Reduction("total", kind, self.dtype, body),)))

    def _combining(
        self, builder: Builder, ranks: Ranks, line: Indices, start: Dim, end: Dim, rest: Indices
    ) -> tuple[Stage, Scalar]:
        """Combines the updates with ranks from `start` to `end`, which have one target. Returns the stage and its result."""
        step = LoopVar("step", self.count)
        (further,) = loop_index((step,))
        # Single updates until the first whole piece, then whole pieces, then single updates again.
        first_piece = ceildiv(start, PIECE)
        pieces = dim_max(floordiv(end, PIECE) - first_piece, 0)
        skipped = pieces * (PIECE - 1)
        along = further - (first_piece * PIECE - start)
        is_after = dim_min(dim_max(along - pieces + 1, 0), 1)
        update = self._at_rank(builder, ranks, line, start + further + is_after * skipped, rest)
        made = self._shared(builder, PIECES)
        piece = builder.low.load(made, self._of_piece(line, first_piece + along, rest))
        kind = KINDS[self.reduction]
        none = Const(self.dtype, nothing(kind, self.dtype))
        either = Where(self.dtype, ((along, pieces),), piece, convert(update, self.dtype))
        body = Where(self.dtype, ((further, end - start - skipped),), either, none)
        return Stage((step,), (Reduction("total", kind, self.dtype, body),)), Reduced(self.dtype, "total")

    def _read(self, ranks: Ranks) -> Call:
        """Combines each element with its updates."""
        builder, variables = Builder(self.group), loops(self.x.shape)
        low, here = builder.low, loop_index(variables)
        line, named, rest, shorter = self.split_index(here)
        of_target = self._of_target(line, linear(named, self.target_shape))
        old = low.at(self.op.x, here)
        last: Scalar = low.load(self._shared(builder, ENDS), of_target)
        last = Where("int32", shorter, last, Const("int32", 0)) if shorter else last
        end = low.position(last, self.count + 1)
        stages = []
        if not self.combines:
            new = self._at_rank(builder, ranks, line, end - 1, rest)
        else:
            first = low.load(self._shared(builder, STARTS), of_target)
            start = low.position(Where("int32", ((end - 1, self.count),), first, Const("int32", 0)), self.count)
            stage, total = self._combining(builder, ranks, line, start, end, rest)
            stages.append(stage)
            new = convert(Apply(self.dtype, self.reduction, (convert(old, self.dtype), total)), old.dtype)
        value = Where(old.dtype, ((end - 1, self.count),), new, old)  # others keep their bits
        return self._kernel(builder, variables, (Write(builder.out(0), linear(here, self.x.shape), value),), *stages)
