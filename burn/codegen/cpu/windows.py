"""Computes small windows of several neighbouring results together: depthwise convolutions, pooling.

One result at a time loads every element once for each window that contains it, with a weight and a bounds check. For
neighbouring results the accumulators stay in registers: a weight is loaded once for all of them, and an element
once for all windows that contain it. For elements outside, another address is read. `AdjacentWindows.of` recognises such
kernels, and window_sums.py prints them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as indices_of
from math import gcd, prod
from operator import mul

from burn.codegen.cpu.heuristics.windows import (
    BLOCK,
    fetches_windows,
    is_window,
    pairs_rows,
    reads_lines,
    unrolled_loops,
    windows_in_pair,
    windows_together,
)
from burn.codegen.cpu.spans import span_of
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, LoopVar, atoms, coefficient, exact_div, product, substitute
from burn.dialect.types import DTYPES
from burn.kernels.body import (
    Const,
    Convert,
    Fetched,
    Load,
    LoopKernel,
    Scalar,
    Stage,
    Where,
    loop_atoms,
    own_dims,
    walk,
)

SUMS = ("float32", "float64", "int32")
"""Element types of the accumulators."""

KINDS = ("sum", "max", "min")


@dataclass(frozen=True)
class AdjacentWindows:
    """`count` iterations of the parallel loop `loop` are computed together, and the last `unrolled` loops of the window are
    unrolled.

    - `block`: iterations of the last loop that are unrolled together, if it is long and there is one unrolled loop; 0 for all
    - `slides`: for each unrolled loop, if neighbouring windows overlap along it
    - `steps`: how each moving node (`split_nodes`) advances, see `_Steps`
    - `masked`: loads are guarded along `loop`, so that iterations past its end may be computed but not stored
    - `even`: there are none
    - `inner`: windows away from the border have code without guards
    - `chains`: accumulators that keep the multiply-add units busy
    - `pair`: two iterations of another parallel loop are also computed together
    - `fetches`: results, and elements of the next windows, are prefetched
    """

    loop: str
    count: int
    unrolled: int
    block: int
    slides: tuple[bool, ...]
    steps: tuple[_Steps, ...]
    masked: bool
    even: bool
    inner: bool
    chains: int
    pair: Pair | None = None
    fetches: bool = False

    @staticmethod
    def of(
        kernel: LoopKernel, lane: LoopVar, lanes: int, target: Target, step: int = 0, vectors: int = 1
    ) -> AdjacentWindows | None:
        """step: vectors start at its multiples. vectors: those of `lanes`."""
        first, *later = kernel.stages
        if lanes == 1 or kernel.column_reductions or kernel.parallel[-1:] != (lane,) or not later:
            return None
        if first.order != "parallel" or first.writes or lane in first.loops or not first.loops:
            return None
        if any(s.loops or s.reductions or s.order != "parallel" for s in later):
            return None
        if any(r.kind not in KINDS or r.dtype not in SUMS for r in first.reductions):
            return None
        if any(map(_reads_indices, walk(*(r.body for r in first.reductions)))):
            return None  # an index is a scalar, and a moving load a vector
        if not all(_is_plain(guard, lane, step, lanes) for guard in guards_of(first)):
            return None
        others = [v for v in reversed(kernel.parallel[:-1]) if v.extent != 1]
        sharing = (
            v for v in others if split_nodes(first, v)[0] and any(_relation(first, v, w)[0] for w in first.loops)
        )
        loop = next(sharing, others[0] if others else None)
        if loop is None:
            return None
        sliding, channels = zip(*(_relation(first, loop, v) for v in first.loops), strict=True)
        extents = [v.extent for v in first.loops]
        alike = _is_broadcast(first, loop, lane, step, lanes)
        if not (is_window(extents) or (any((*sliding, *channels)) and split_nodes(first, loop)[0])):
            return None
        unrolled = unrolled_loops(extents, sliding, channels, alike)
        block = BLOCK if not unrolled and sliding[-1] else 0
        unrolled = 1 if block else unrolled
        window = block or product([v.extent for v in first.loops[-unrolled:]])
        if not unrolled or not isinstance(window, int):
            return None
        steps = _movement(first, loop, first.loops[-unrolled:])
        pair = None if block else Pair.of(kernel, lane, loop, unrolled, target)
        masked = _is_masked(first, loop)
        if pair is None:
            count = windows_together(loop.extent, window, masked and alike, vectors, target)
        else:
            inner = zip(extents[-unrolled:], sliding[-unrolled:], strict=True)
            taps = prod(n for n, slides in inner if slides and isinstance(n, int))
            count = windows_in_pair(loop.extent, taps, target)
        if steps is None or count < 2:  # a loop without iterations has none together
            return None
        even = isinstance(loop.extent, int) and loop.extent % count == 0
        return AdjacentWindows(
            loop.name,
            count,
            unrolled,
            block,
            tuple(sliding[-unrolled:]),
            steps,
            masked,
            even,
            _has_corners(first, (loop, *first.loops)) and _some_inside(first, loop, count),
            target.costs.chains,
            pair,
            not block and fetches_windows(kernel, target),
        )

    def strides(self, kernel: LoopKernel) -> set[int]:
        """The distances in memory of neighbouring windows, and of neighbouring elements and weights of a window. If they are
        constants, one register has the address of a row; otherwise LLVM keeps an address for each of its elements, mostly in
        memory."""
        stage = kernel.stages[0]
        loops = [v for v in kernel.parallel if v.name == self.loop] + list(stage.loops[-self.unrolled :])
        nodes = walk(*(scalar for s in kernel.stages for scalar in s.scalars))
        offsets = [node.offset for node in nodes if isinstance(node, Load)]
        offsets += [write.offset for s in kernel.stages for write in s.writes]
        found = {coefficient(offset, v) for offset in offsets for v in loops}
        return {step for step in found if isinstance(step, int)}

    def elements(self, kernel: LoopKernel) -> int:
        """The elements that windows computed together load in one lane, weights included."""
        stage = kernel.stages[0]
        still, moving = split_nodes(stage, next(v for v in kernel.parallel if v.name == self.loop))
        extents = [v.extent if isinstance(v.extent, int) else 0 for v in stage.loops]
        outer, inner = extents[: len(extents) - self.unrolled], extents[len(extents) - self.unrolled :]
        weights = prod(extents) * len(still)
        if self.pair is not None:
            outer[[v.name for v in stage.loops].index(self.pair.row)] += self.pair.shift
        return weights + prod(outer) * len(self._reached(len(moving), inner))

    def reads_lines(self, kernel: LoopKernel, lane: LoopVar, target: Target) -> bool:
        """True if two vectors of lanes are computed together (`heuristics.windows.reads_lines`). Rows in pairs leave no registers
        for them."""
        loop = next(v for v in kernel.parallel if v.name == self.loop)
        loads = [load for load in map(load_of, split_nodes(kernel.stages[0], loop)[1]) if load is not None]
        if self.block or self.pair is not None or any(coefficient(load.offset, lane) != 1 for load in loads):
            return False
        steps = {(coefficient(load.offset, loop), DTYPES[load.dtype].size) for load in loads}
        elements = self.elements(kernel) + self.accumulators
        return all(isinstance(step, int) and reads_lines(step * size, elements, target) for step, size in steps)

    def shared(self, kernel: LoopKernel) -> float:
        """The elements that the windows of a row load in one iteration of the loops that are not unrolled, for each of their
        multiply-adds. It is 1 if windows have no elements in common, or if sizes are open or 0."""
        stage = kernel.stages[0]
        inner = [v.extent if isinstance(v.extent, int) else 0 for v in stage.loops[-self.unrolled :]]
        if 0 in inner:
            return 1.0
        return len(self._reached(1, inner)) / (self.count * prod(inner))

    @property
    def accumulators(self) -> int:
        """The windows that are computed together."""
        return self.count * (1 if self.pair is None else 2)

    def _reached(self, nodes: int, inner: Sequence[int]) -> set[tuple[int, tuple[int, ...]]]:
        """The different elements of the first so many moving nodes under windows with these unrolled extents."""
        return {
            (number, tuple(sum(map(mul, step, at)) for step in steps))
            for number, steps in zip(range(nodes), self.steps, strict=False)
            for at in indices_of(range(self.count), *map(range, inner))
        }


@dataclass(frozen=True)
class Pair:
    """Two iterations of a parallel loop `loop`. The window of the second is that of the first, `shift` iterations of the window's
    loop `row` further on, which is not unrolled. `even`: the loop has an even number of iterations."""

    loop: str
    row: str
    shift: int
    even: bool

    @staticmethod
    def of(kernel: LoopKernel, lane: LoopVar, neighbours: LoopVar, unrolled: int, target: Target) -> Pair | None:
        """None if no loop has such windows, or two of them do not pay. neighbours: the loop that `AdjacentWindows` is about."""
        stage = kernel.stages[0]
        still, moving = split_nodes(stage, neighbours)
        others = [v for v in reversed(kernel.parallel) if v not in (lane, neighbours) and v.extent != 1]
        for row, loop in indices_of(reversed(stage.loops[:-unrolled]), others):
            taps = row.extent
            if not isinstance(taps, int) or any(loop in loop_atoms(dim) for node in still for dim in _offsets(node)):
                continue
            shift = _shift(moving, loop, row)
            if shift is not None and pairs_rows(taps, shift, target):
                return Pair(loop.name, row.name, shift, isinstance(loop.extent, int) and loop.extent % 2 == 0)
        return None


def _shift(moving: Sequence[Scalar], loop: LoopVar, row: LoopVar) -> int | None:
    """The iterations of the window's loop `row` that move every node as far as one of the parallel loop does."""
    dims = [dim for node in moving for dim in _offsets(node)]
    pairs = [(coefficient(dim, loop), coefficient(dim, row)) for dim in dims]
    steps = [(a, b) for a, b in pairs if a is not None and b is not None]
    moves = len(steps) == len(pairs) and any(step != (0, 0) for step in steps)
    if not moves or not isinstance(row.extent, int):
        return None
    return next((n for n in range(1, row.extent) if all(a == product([n, b]) for a, b in steps)), None)


_Steps = tuple[tuple[int, ...], ...]
"""How the offset of a moving node, and each index of its guard, advances with the parallel loop and with each unrolled loop.
Nodes that advance by equal amounts in all of them read the same element."""


def split_nodes(stage: Stage, loop: LoopVar) -> tuple[list[Scalar], list[Scalar]]:
    """The loads that do not depend on `loop`, and those that do, with their guards: always in the same order."""
    guards = guards_of(stage)
    behind = {id(load_of(guard)) for guard in guards}
    nodes = walk(*(r.body for r in stage.reductions))
    loads = [node for node in nodes if isinstance(node, Load) and id(node) not in behind]
    still = [node for node in loads if loop not in loop_atoms(node.offset)]
    return [*still], [*guards, *(node for node in loads if loop in loop_atoms(node.offset))]


def _reads_indices(node: Scalar) -> bool:
    """True if an index of the node is read from data."""
    return any(isinstance(atom, Fetched) for dim in own_dims(node) for atom in atoms(dim))


def _offsets(node: Scalar) -> list[Dim]:
    """The offset of a load, or of a guarded load and the indices of its guard."""
    load = load_of(node)
    assert load is not None
    return [load.offset, *(index for index, _ in (node.ranges if isinstance(node, Where) else ()))]


def _movement(stage: Stage, loop: LoopVar, unrolled: Sequence[LoopVar]) -> tuple[_Steps, ...] | None:
    """The steps of every moving node; None if one of them is not constant, or nothing moves."""
    found = [[_steps(dim, (loop, *unrolled)) for dim in _offsets(node)] for node in split_nodes(stage, loop)[1]]
    known = [tuple(step for step in steps if step is not None) for steps in found]
    complete = all(len(a) == len(b) for a, b in zip(found, known, strict=True))
    return tuple(known) if found and complete else None


def _is_masked(stage: Stage, loop: LoopVar) -> bool:
    """True if all moving loads have a guard along `loop`."""
    return all(
        isinstance(node, Where) and any(loop in loop_atoms(index) for index, _ in node.ranges)
        for node in split_nodes(stage, loop)[1]
    )


def _relation(stage: Stage, loop: LoopVar, window: LoopVar) -> tuple[bool, bool]:
    """Two properties of a loop of the window. The first: windows at neighbouring iterations of `loop` have elements in common
    along it. The second: it stays within the elements that an iteration of `loop` advances by, such as a pixel's channels."""
    slides, within = False, True
    for node in split_nodes(stage, loop)[1]:
        steps = _steps(_offsets(node)[0], (loop, window))
        if steps is None:
            return False, False
        outer, inner = map(abs, steps)
        reach = inner * (window.extent - 1 if isinstance(window.extent, int) else outer + 1)
        slides |= inner > 0 and 0 < outer <= reach and (outer % inner == 0 or inner % outer == 0)
        within &= reach < outer
    return slides, within and not slides


def _is_broadcast(stage: Stage, loop: LoopVar, lane: LoopVar, step: int, lanes: int) -> bool:
    """True if each moving load has one element for all lanes of a vector, such as an input channel of one group."""
    offsets = [_offsets(node)[0] for node in split_nodes(stage, loop)[1]]
    spans = [span_of(offset, lane, step, step, lanes) if step else None for offset in offsets]
    return all(span is not None and not any(span.offsets) for span in spans)


def guards_of(stage: Stage) -> list[Where]:
    return [node for node in walk(*(r.body for r in stage.reductions)) if isinstance(node, Where)]


def _has_corners(stage: Stage, loops: Sequence[LoopVar]) -> bool:
    """True if guards exist that advance with every step of each loop."""
    steps = [coefficient(index, v) for guard in guards_of(stage) for index, _ in guard.ranges for v in loops]
    return bool(steps) and all(isinstance(step, int) and step >= 0 for step in steps)


def _some_inside(stage: Stage, loop: LoopVar, count: int) -> bool:
    """True if guards along `loop` hold for all elements of `count` windows from a multiple of it on, or may if sizes are open.
    Images of 14 pixels, for example, have a border in each of two times seven windows."""
    ranges = {pair for guard in guards_of(stage) for pair in guard.ranges if loop in loop_atoms(pair[0])}
    found = [_inside(index, extent, stage, loop, count) for index, extent in ranges]
    known = [starts for starts in found if starts is not None]
    return not known or bool(set.intersection(*known))


def _inside(index: Dim, extent: Dim, stage: Stage, loop: LoopVar, count: int) -> set[int] | None:
    """The multiples of `count` from which on an index of so many windows is always inside; None if sizes are open."""
    start = substitute(index, dict.fromkeys((loop, *stage.loops), 0))
    step, reaches = coefficient(index, loop), [(coefficient(index, v), v.extent - 1) for v in stage.loops]
    ends = [None if by is None else product([by, last]) for by, last in reaches]
    if not all(isinstance(n, int) for n in (start, step, extent, loop.extent, *ends)):
        return None
    low, moves, limit, iterations, *reach = (n for n in (start, step, extent, loop.extent, *ends) if isinstance(n, int))
    starts = range(0, iterations, count)
    return {n for n in starts if low + moves * n >= 0 and low + moves * (n + count - 1) + sum(reach) < limit}


def _is_plain(guard: Where, lane: LoopVar, step: int, lanes: int) -> bool:
    """True if a load of neighbouring elements, or of a span, is guarded alike in all lanes, or replaced by a constant that its
    element type has."""
    load, otherwise = load_of(guard), guard.otherwise
    if load is None or not isinstance(otherwise, Const) or guard.dtype not in SUMS:
        return False
    offset = load.offset
    read_together = coefficient(offset, lane) == 1 or (
        step > 0 and span_of(offset, lane, step, step, lanes) is not None
    )
    return (
        read_together
        and (load.dtype == guard.dtype or _has(load.dtype, otherwise.value))
        and not any(lane in loop_atoms(d) for pair in guard.ranges for d in pair)
    )


def _has(dtype: str, value: float | int | bool) -> bool:
    """True if an element type has a number exactly."""
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if value == 0 or kind not in ("int", "uint"):
        return value == 0
    low, high = (0, 2**bits - 1) if kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return isinstance(value, int) and low <= value <= high


def load_of(node: Scalar) -> Load | None:
    """The load of a load, or of a guarded one, which may be converted; None if there is another expression."""
    while isinstance(node, (Where, Convert)):
        node = node.then if isinstance(node, Where) else node.arg
    return node if isinstance(node, Load) else None


def _steps(offset: Dim, loops: Sequence[LoopVar]) -> tuple[int, ...] | None:
    """The strides of an offset along loops, divided by a common factor; None if they are not constants then."""
    strides = [coefficient(offset, v) for v in loops]
    found = [stride for stride in strides if stride is not None]
    if len(found) < len(strides):
        return None
    if not all(isinstance(stride, int) for stride in found):
        common = next(stride for stride in reversed(found) if not isinstance(stride, int))
        found = [0 if stride == 0 else exact_div(stride, common) for stride in found]  # type: ignore[misc]
    steps = [stride for stride in found if isinstance(stride, int)]
    return tuple(step // max(1, gcd(*steps)) for step in steps) if len(steps) == len(found) else None
