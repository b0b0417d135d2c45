"""Sorts with results that are read in part: `partial_sort` selects that part.

Top-k, medians and order statistics are slices of a sorted row. A target that sorts rows by one thread each selects the slice's
elements in a few passes over a row, and sorts these alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.dims import Dim
from burn.dialect.library import Sort
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.shape import Slice
from burn.dialect.types import type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

Window = tuple[Dim, Dim]
"""The first position and the number of positions."""


@register
@dataclass(frozen=True)
class PartialSorts:
    """For sorts that slices along their axis read, in up to `windows` different windows that are at most half of the axis
    together."""

    name: ClassVar[str] = "partial_sort"
    windows: int = 2

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        """Returns the number of sorts that became partial."""
        count = 0
        with context():
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Sort) and self._replaced(op):
                        count += 1
        return {"partial": count}

    def _replaced(self, op: Sort) -> bool:
        x = type_of(op.x)
        if not x.rank:
            return False
        axis = op.axis % x.rank
        reads: list[tuple[int, Slice, Window]] = []
        for number, result in enumerate(op.operation.results):
            for use in result.uses:
                window = _window(use.owner.opview, axis)
                if window is None:
                    return False
                reads.append((number, use.owner.opview, window))
        windows = self._merged({window for *_, window in reads}, x.shape[axis])
        if not windows:
            return False
        parts: dict[Window, list[ir.Value]] = {}
        for window in windows:
            with op.operation.location, ir.InsertionPoint(op.operation):
                parts[window] = ops.partial_sort(
                    op.x, start=window[0], size=window[1], axis=axis, descending=op.descending
                )
        for number, read, window in reads:
            found = window if window in parts else windows[0]
            _read(read, axis, parts[found][number], found)
        op.operation.erase()
        return True

    def _merged(self, windows: set[Window], extent: Dim) -> list[Window]:
        """The windows to select: one that holds all, or each; none if a sort of the row is better."""
        if not windows:  # nothing reads the sort
            return []
        known = [(start, size) for start, size in windows if isinstance(start, int) and isinstance(size, int)]
        if not isinstance(extent, int) or len(known) < len(windows):
            return list(windows) if len(windows) == 1 else []
        first, last = min(start for start, _ in known), max(start + size for start, size in known)
        if 2 * (last - first) <= extent:
            return [(first, last - first)]
        if len(known) > self.windows or 2 * sum(size for _, size in known) > extent:
            return []
        return list(windows)


def _window(op: object, axis: int) -> Window | None:
    """The window of the axis that an op reads; None for an op that may read all of it."""
    if not isinstance(op, Slice):
        return None
    start, size, step = op.starts[axis], op.sizes[axis], op.steps[axis]
    if step == 1:
        return start, size
    if not isinstance(start, int) or not isinstance(size, int) or size == 0:
        return None
    last = start + (size - 1) * step
    return min(start, last), abs(last - start) + 1


def _read(read: Slice, axis: int, source: ir.Value, window: Window) -> None:
    """Makes a slice read a window instead of the whole axis."""
    starts = tuple(start - window[0] if i == axis else start for i, start in enumerate(read.starts))
    result = read.operation.results[0]
    with read.operation.location, ir.InsertionPoint(read.operation):
        made = source
        if (starts, read.sizes) != ((0,) * len(starts), type_of(source).shape) or set(read.steps) != {1}:
            made = ops.slice(source, starts=starts, sizes=read.sizes, steps=read.steps)
    result.replace_all_uses_with(made)
    read.operation.erase()
