"""Stable sorting of rows in parallel: every element computes its rank, and is written there.

The first kernel ranks the elements of short runs by comparing all pairs. Each further kernel merges a few sorted runs: an
element searches every other run for the number of elements before it. Elements of equal keys keep their order, so the
result does not depend on timing. A merge of f runs of length n takes f * log2(n) loads an element.
Targets whose kernels can rank a block sort long rows by digits instead (`digits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from burn.dialect.control import Group
from burn.dialect.dims import Dim, LoopVar, at_most, ceildiv, dim_min, floordiv, mod, product
from burn.kernels.body import (
    Apply,
    Const,
    Convert,
    Index,
    LoopKernel,
    Reduced,
    Reduction,
    Scalar,
    Stage,
    Where,
    Write,
)
from burn.kernels.builders.builder import Builder, Call, loop_index, loops
from burn.kernels.lower import Indices, linear
from burn.kernels.preferences import Sorting

ORDER = "int32"
"""The type of positions."""

BUFFERS = ((0, 3), (1, 2))
"""Shared buffers: two pairs of keys and positions. A kernel reads one pair and writes the other, and the first kernel writes keys
alone. Rows that need few kernels use the first buffers."""

KeyAt = Callable[[Builder, Indices, Dim], Scalar]
"""The key of an element, an int32 or int64, by its row and its position in the row."""


@dataclass(frozen=True)
class Ranked:
    """An element in the last kernel: its row, its rank and its position before, as an index and as a value, and its key."""

    line: Indices
    rank: Dim
    position: Dim
    order: Scalar
    key: Scalar


Writes = Callable[[Builder, Ranked], Sequence[Write]]


@dataclass(frozen=True)
class Keys:
    """Sort keys. dtype: int32 or int64. The `bits` bits from bit `shift` on decide their order; signed: the highest of these is a
    sign."""

    dtype: str
    bits: int
    shift: int = 0
    signed: bool = True


@dataclass(frozen=True)
class Ranks:
    """Rows of `count` elements each, one for each index of `lines`. first: the number of the first shared buffer."""

    group: Group
    lines: tuple[Dim, ...]
    count: Dim
    keys: Keys
    sorting: Sorting
    first: int = 0

    def calls(self, key: KeyAt, writes: Writes | None = None) -> list[Call]:
        """The kernels. The last one writes what `writes` says, or the keys and positions to the buffers `sorted_buffers`."""
        steps = list(self.steps())
        if len(steps) == 1:
            return [self._pass(key, None, 0, *steps[0], writes or self._moved(self.sorted_buffers))]
        calls = [self._keys(key)]
        for number, (run, merged) in enumerate(steps):
            last = number == len(steps) - 1
            moved = self._moved(self._pair(1 - number % 2))
            calls.append(self._pass(key, number % 2, number, run, merged, writes if last and writes else moved))
        return calls

    @property
    def sorted_buffers(self) -> tuple[int, int]:
        """The shared buffers of the sorted keys and their positions."""
        steps = len(list(self.steps()))
        return (self.first, self.first + 1) if steps == 1 else self._pair(steps % 2)

    def steps(self) -> Iterator[tuple[int, int]]:
        """For each kernel, the lengths of the sorted runs that it reads, and of those that it makes of them. 0: the whole row."""
        if isinstance(self.count, int) and self.count <= self.sorting.compared:
            yield 1, max(1, self.count)
            return
        run, fan = self.sorting.run, self.sorting.fan
        yield 1, run
        longest = self.count if isinstance(self.count, int) else self.sorting.longest
        while run < longest:
            yield run, run * fan
            run *= fan
        if not isinstance(self.count, int):
            yield run, 0

    def load(self, builder: Builder, buffer: int, dtype: str, line: Indices, position: Dim) -> Scalar:
        """An element of a shared buffer, by the buffer's number."""
        shared = builder.shared(buffer, dtype, product((*self.lines, self.count)), "read")
        return builder.low.load(shared, self._offset(line, position))

    # ---- kernels -------------------------------------------------------------------------------------------------------
    def _pair(self, half: int) -> tuple[int, int]:
        keys, order = BUFFERS[half]
        return self.first + keys, self.first + order

    def _offset(self, line: Indices, position: Dim) -> Dim:
        return linear((*line, position), (*self.lines, self.count))

    def _write(self, builder: Builder, buffer: int, line: Indices, position: Dim, value: Scalar) -> Write:
        shared = builder.shared(buffer, value.dtype, product((*self.lines, self.count)), "write")
        return Write(shared, self._offset(line, position), value)

    def _moved(self, pair: tuple[int, int]) -> Writes:
        """Writes of keys and positions to a pair of shared buffers."""
        keys, order = pair

        def writes(builder: Builder, element: Ranked) -> Sequence[Write]:
            pairs = ((keys, element.key), (order, element.order))
            return [self._write(builder, buffer, element.line, element.rank, value) for buffer, value in pairs]

        return writes

    def _keys(self, key: KeyAt) -> Call:
        """Writes the keys, which the next kernel reads many times."""
        builder, variables = Builder(self.group), loops((*self.lines, self.count))
        *line, position = loop_index(variables)
        write = self._write(builder, self.first, tuple(line), position, key(builder, tuple(line), position))
        return builder.call(lambda buffers: LoopKernel(variables, (Stage((), (), (write,)),), buffers))

    def _pass(self, key: KeyAt, half: int | None, number: int, run: int, merged: int, writes: Writes) -> Call:
        """Makes sorted runs of `merged` elements of those of `run`. half: of the shared buffers that hold the keys; None if none
        does."""
        builder, variables = Builder(self.group), loops((*self.lines, self.count))
        fan = merged // run if merged else ceildiv(self.count, run)
        other = LoopVar(
            "other", dim_min(fan, ceildiv(self.count, run)) if isinstance(self.count, int) and run > 1 else fan
        )
        *head, position = loop_index(variables)
        line, (theirs,) = tuple(head), loop_index((other,))
        whole = isinstance(self.count, int) and merged > 0 and self.count % merged == 0
        base: Dim = 0 if merged == 0 or at_most(self.count, merged) else floordiv(position, merged) * merged
        keys, orders = self._pair(half or 0)

        def at(index: Dim) -> Scalar:
            return key(builder, line, index) if half is None else self.load(builder, keys, self.keys.dtype, line, index)

        mine = at(position)

        def before(index: Dim, first: Dim, second: Dim) -> Scalar:
            """True if the element at an index comes before this one. It wins a tie if first < second."""
            its = at(index)
            le, lt = (Apply("bool", function, (its, mine)) for function in ("le", "lt"))
            return Where("bool", ((second - first - 1, self.count),), le, lt)

        def inside(index: Dim, value: Scalar) -> Scalar:
            return value if whole else Where(ORDER, ((index, self.count),), value, Const(ORDER, 0))

        if run == 1:
            index = base + theirs
            body = inside(index, Convert(ORDER, before(index, index, position)))
        else:
            own = floordiv(position - base, run)
            body = self._search(builder, base + theirs * run, run, lambda index: before(index, theirs, own), inside)
            body = Where(ORDER, ((theirs - own, 1),), Convert(ORDER, Index("int64", mod(position, run))), body)
        counted = Stage((other,), (Reduction("rank", "sum", ORDER, body),))
        rank = base + builder.low.position(Reduced(ORDER, "rank"), self.count)
        if number == 0:
            order: Scalar = Convert(ORDER, Index("int64", position))
            source = position
        else:
            order = self.load(builder, orders, ORDER, line, position)
            source = builder.low.position(order, self.count)
        made = Stage((), (), tuple(writes(builder, Ranked(line, rank, source, order, mine))))
        return builder.call(lambda buffers: LoopKernel(variables, (counted, made), buffers))

    def _search(
        self,
        builder: Builder,
        start: Dim,
        run: int,
        before: Callable[[Dim], Scalar],
        inside: Callable[[Dim, Scalar], Scalar],
    ) -> Scalar:
        """The number of elements of a sorted run of `run` elements, a power of two, that come before this one."""
        found: Scalar | None = None
        steps = [run >> n for n in range(1, run.bit_length())]
        for step in (*steps, 1):
            reached = 0 if found is None else builder.low.position(found, run)
            index = start + reached + (step - 1)
            taken = Apply(ORDER, "select", (before(index), Const(ORDER, step), Const(ORDER, 0)))
            more = inside(index, taken)
            found = more if found is None else Apply(ORDER, "add", (found, more))
        assert found is not None
        return found
