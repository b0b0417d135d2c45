"""Which matmuls are gradients of a convolution's weight that tensor maps can describe: `pixels`.

The depth is the pixels of a batch. The lhs is an image under windows: an index into it is a sum of a pixel and a tap. A map of
the image has five axes: batch, row, tap, column and channel. Rows of the window advance along the map's rows. The taps of a
window's row have an axis of their own, with overlapping strides, so that a box that overhangs the last column is zero for every
tap. If the image is padded along its columns, taps advance along columns instead, and boxes must not overhang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burn.codegen.triton.functions import narrowed
from burn.codegen.triton.tensor_maps import ALIGNED
from burn.dialect.dims import Atom, Dim, LoopVar, Symbol, coefficient, exact_div, substitute
from burn.dialect.types import HALF_DTYPES
from burn.kernels.body import Const, ContractionKernel, Load, Where, loop_atoms
from burn.kernels.rewrite import fetches

MULTIPLE = ALIGNED // 2
"""Strides and starts are multiples of this many elements of half precision."""


@dataclass(frozen=True)
class Boxed:
    """A tensor that is copied box by box: where it starts in its buffer, and its axes. The last axis is contiguous."""

    buffer: int
    begin: Dim
    sizes: tuple[Dim, ...]
    strides: tuple[Dim, ...]


@dataclass(frozen=True)
class Pixels:
    """A weight's gradient. row, tap: the loops over rows of the window and over taps of a row; channel, column: over channels of
    the image and over outputs; along: over images, their rows and their columns. None for loops that a kernel lacks.

    moves: steps along the map's rows for a row of pixels and for a row of the window, and the first row. Then steps along the
    axis of taps and along columns for a tap, and the first column.
    is_ring: rows of the window read neighbouring rows of pixels. is_whole: boxes must divide a row of pixels."""

    kernel: ContractionKernel
    row: LoopVar | None
    tap: LoopVar | None
    channel: LoopVar
    along: tuple[LoopVar | None, LoopVar | None, LoopVar]
    image: Boxed
    cotangent: Boxed
    moves: tuple[Dim, Dim, Dim, Dim, Dim, Dim]
    is_ring: bool
    is_whole: bool

    @property
    def column(self) -> LoopVar:
        return self.kernel.column

    @property
    def counts(self) -> tuple[Dim, Dim, Dim, Dim]:
        """Rows of the window, taps of a row, channels and outputs."""
        rows, taps = (1 if loop is None else loop.extent for loop in (self.row, self.tap))
        return rows, taps, self.channel.extent, self.column.extent


def pixels(kernel: ContractionKernel, values: Mapping[str, Dim]) -> Pixels | None:
    """values: the values of the kernel's sizes. None for another kernel."""
    narrow = narrowed((kernel.lhs, kernel.rhs), kernel.dtype, HALF_DTYPES)
    if narrow is None or fetches(kernel) or any(v.extent != 1 for v in kernel.batch):
        return None
    left, right = narrow
    ranges: tuple[tuple[Dim, Dim], ...] = ()
    if isinstance(left, Where) and isinstance(left.otherwise, Const) and left.otherwise.value == 0:
        left, ranges = left.then, left.ranges
    if not isinstance(left, Load) or not isinstance(right, Load):
        return None
    return _Reader(kernel, left, right, ranges, {Symbol(name): value for name, value in values.items()}).read()


class _Reader:
    def __init__(
        self,
        kernel: ContractionKernel,
        left: Load,
        right: Load,
        ranges: Sequence[tuple[Dim, Dim]],
        known: Mapping[Atom, Dim],
    ) -> None:
        self.kernel, self.left, self.right, self.known = kernel, left, right, known
        self.ranges = list(ranges)
        self.rows, self.depth = ([v for v in loops if v.extent != 1] for loops in (kernel.rows, kernel.depth))

    def read(self) -> Pixels | None:
        channels = [v for v in self.rows if self._step(v) == 1]
        taps = [v for v in self.rows if v not in channels]
        if len(channels) != 1 or len(taps) > 2 or not 1 <= len(self.depth) <= 3 or len(taps) + len(self.depth) < 2:
            return None
        along = self._pixel_loops(taps)
        if along is None or not self._is_linear():
            return None
        n, h, w = along
        down = self._down(h, taps)
        across = None if down is None else self._across(w, [v for v in taps if v != down[0]])
        if down is None or across is None:
            return None
        row, unit, height, h_moves = down
        tap, (taps_size, taps_step), width, w_moves = across
        w_step = self._step(w)
        n_step = w_step if n is None else self._step(n)
        begin = self._rest(self.left) - h_moves[2] * unit - w_moves[2] * w_step
        image = Boxed(
            self.left.buffer,
            begin,
            (1 if n is None else n.extent, height, taps_size, width, channels[0].extent),
            (n_step, unit, taps_step, w_step),
        )
        cotangent = self._cotangent(n, h, w)
        if cotangent is None or not all(map(self._is_aligned, (image, cotangent))):
            return None
        ring = h is not None and row is not None and h_moves[0] == h_moves[1] == 1
        moves = (*h_moves, *w_moves)
        whole = (tap is not None and w_moves[1] != 0) or w_moves[2] != 0
        return Pixels(self.kernel, row, tap, channels[0], along, image, cotangent, moves, ring, whole)

    # ---- indices -------------------------------------------------------------------------------------------------------------
    def _step(self, loop: LoopVar, load: Load | None = None) -> Dim:
        """The elements between two iterations of a loop, which an index is linear in."""
        found = coefficient((load or self.left).offset, loop)
        return 0 if found is None else found

    def _is_linear(self) -> bool:
        """True if the indices into both operands are linear in all loops."""
        return all(
            coefficient(load.offset, loop) is not None and not _has_loops(self._step(loop, load))
            for load in (self.left, self.right)
            for loop in (*self.rows, *self.depth, self.kernel.column)
        ) and not any(_has_loops(self._rest(load)) for load in (self.left, self.right))

    def _rest(self, load: Load) -> Dim:
        """The index of the first element."""
        every: dict[Atom, Dim] = dict.fromkeys(
            (*self.kernel.rows, *self.kernel.depth, *self.kernel.batch, self.kernel.column), 0
        )
        return substitute(load.offset, every)

    def _same(self, a: Dim, b: Dim) -> bool:
        return substitute(a - b, self.known) == 0

    def _value(self, dim: Dim) -> Dim:
        return substitute(dim, self.known)

    def _is_aligned(self, boxed: Boxed) -> bool:
        parts = [self._value(part) for part in (boxed.begin, *boxed.strides)]
        return all(part == 0 or exact_div(part, MULTIPLE) is not None for part in parts)

    # ---- loops ---------------------------------------------------------------------------------------------------------------
    def _pixel_loops(self, taps: Sequence[LoopVar]) -> tuple[LoopVar | None, LoopVar | None, LoopVar] | None:
        """The loops over images, rows and columns. Of two loops the outer one is over rows if the image is padded along it, or if
        a tap advances like it."""
        match self.depth:
            case [n, h, w]:
                return n, h, w
            case [outer, w]:
                padded = any(coefficient(index, outer) != 0 for index, _ in self.ranges)
                if padded or any(self._same(self._step(v), self._step(outer)) for v in taps):
                    return None, outer, w
                return outer, None, w
            case [w]:
                return None, None, w
        return None

    def _range(self, loop: LoopVar | None) -> tuple[Dim, Dim] | None:
        """The range of indices along an axis that a loop over pixels advances along, if the image is padded there."""
        return next((r for r in self.ranges if loop is not None and coefficient(r[0], loop) not in (0, None)), None)

    def _down(
        self, h: LoopVar | None, taps: Sequence[LoopVar]
    ) -> tuple[LoopVar | None, Dim, Dim, tuple[Dim, Dim, Dim]] | None:
        """(the loop over rows of the window, the stride of the map's rows, their number, moves along them)."""
        if h is None:
            if self._range(h) is not None or len(taps) < 2:
                return None, MULTIPLE, 1, (0, 0, 0)
            return taps[0], self._step(taps[0]), taps[0].extent, (0, 1, 0)
        found = self._range(h)
        if found is None:
            row = next(
                (v for v in taps if self._same(self._step(v), self._step(h))), taps[0] if len(taps) > 1 else None
            )
            if row is None:
                return None, self._step(h), h.extent, (1, 0, 0)
            apart, within = self._step(h), self._step(row)
            if self._same(apart, within):
                unit, moves = apart, (1, 1, 0)
            elif (ratio := exact_div(self._value(apart), self._value(within))) is not None:
                unit, moves = within, (ratio, 1, 0)
            elif (ratio := exact_div(self._value(within), self._value(apart))) is not None:
                unit, moves = apart, (1, ratio, 0)
            else:
                return None
            return row, unit, (h.extent - 1) * moves[0] + (row.extent - 1) * moves[1] + 1, moves
        index, size = found
        row = next((v for v in taps if coefficient(index, v) not in (0, None)), None)
        apart = coefficient(index, h)
        within = 0 if row is None else coefficient(index, row)
        unit = self._step(h) if apart == 1 else self._step(row) if row is not None and within == 1 else None
        if unit is None or apart is None or within is None or not self._same(self._step(h), apart * unit):
            return None
        if row is not None and not self._same(self._step(row), within * unit):
            return None
        return row, unit, size, (apart, within, self._first(index))

    def _across(
        self, w: LoopVar, taps: Sequence[LoopVar]
    ) -> tuple[LoopVar | None, tuple[Dim, Dim], Dim, tuple[Dim, Dim, Dim]] | None:
        """(the loop over taps of a row, the size and stride of their axis, the number of columns, moves along both)."""
        if len(taps) > 1 or len(self.ranges) > sum(self._range(v) is not None for v in self.depth):
            return None
        tap = taps[0] if taps else None
        found = self._range(w)
        if found is None:
            axis = (1, self._step(w)) if tap is None else (tap.extent, self._step(tap))
            return tap, axis, w.extent, (0 if tap is None else 1, 0, 0)
        index, size = found
        within = 0 if tap is None else coefficient(index, tap)
        if coefficient(index, w) != 1 or within is None:
            return None
        if tap is not None and not self._same(self._step(tap), within * self._step(w)):
            return None
        return tap, (1, self._step(w)), size, (0, within, self._first(index))

    def _first(self, index: Dim) -> Dim:
        every: dict[Atom, Dim] = dict.fromkeys((*self.kernel.rows, *self.kernel.depth), 0)
        return substitute(index, every)

    def _cotangent(self, n: LoopVar | None, h: LoopVar | None, w: LoopVar) -> Boxed | None:
        """The rhs, if its outputs are contiguous."""
        if self._step(self.kernel.column, self.right) != 1 or any(self._step(v, self.right) != 0 for v in self.rows):
            return None
        w_step = self._step(w, self.right)
        strides = [w_step if v is None else self._step(v, self.right) for v in (n, h)]
        sizes = [1 if v is None else v.extent for v in (n, h)]
        return Boxed(
            self.right.buffer, self._rest(self.right), (*sizes, w.extent, self.kernel.column.extent), (*strides, w_step)
        )


def _has_loops(dim: Dim) -> bool:
    return any(isinstance(atom, LoopVar) for atom in loop_atoms(dim))
