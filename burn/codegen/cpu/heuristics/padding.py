"""Heuristics for padding: the convolutions that test, for each tile of rows and each tap, if any row reads the image there."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, LoopVar, coefficient, product, substitute
from burn.kernels.body import loop_atoms

LEAST = 16
"""The vector multiply-adds of a tap, for each row, from which a test pays. A test takes a subtraction, a comparison and one or
two logical instructions for each row and axis: about six for an image. That is less than half of the instructions that it may
save."""


TEST = 3
"""Instructions of a test for a row of a tile and an axis of the image. They take as long as so many multiply-adds."""


def skips_padding(kernel: Tiled, tile: int, vectors: int, target: Target) -> bool:
    """True if taps that read only padding are left out. They contribute 0, so padding of another value is read. tile: the rows of
    a tile. vectors: those of a row."""
    inner = kernel.inner.extent
    if kernel.fill or (isinstance(inner, int) and inner * kernel.run * vectors < LEAST):
        return False
    parts = [_left_out(index, extent, kernel, tile) for index, extent in kernel.valid]
    known = [part for part in parts if part is not None]
    if len(known) == len(parts) and isinstance(inner, int):
        return sum(known) * inner * kernel.run * vectors >= TEST * len(parts) > 0
    return any(_is_far(index, loop, target.costs.tile_rows) for index, _ in kernel.valid for loop in kernel.outer)


def leaves_out(kernel: Tiled, window: LoopVar, tile: int, skips: bool) -> bool:
    """True if a matmul leaves out taps of a loop of the window for whole tiles of rows, or may if sizes are open. skips:
    `skips_padding`."""
    parts = [_left_out(index, extent, kernel, tile) for index, extent in kernel.valid if window in loop_atoms(index)]
    return skips and any(part is None or part > 0 for part in parts)


def _left_out(index: Dim, extent: Dim, kernel: Tiled, tile: int) -> float | None:
    """The part of the taps of tiles whose rows are all outside of the image along an axis. None if sizes are open, or the index
    is not that of one loop over rows and one of the window."""
    found = [v for v in (*kernel.rows, *kernel.outer) if coefficient(index, v) != 0]
    if len(found) != 2 or found[0] not in kernel.rows or found[1] not in kernel.outer:
        return None
    row, tap = found
    stride, step = coefficient(index, row), coefficient(index, tap)
    start, below = (
        substitute(index, {row: 0, tap: 0}),
        product([v.extent for v in kernel.rows[kernel.rows.index(row) + 1 :]]),
    )
    numbers = (stride, step, start, below, extent, row.extent, tap.extent)
    if not all(isinstance(n, int) for n in numbers):
        return None
    stride, step, start, below, extent, rows, taps = (n for n in numbers if isinstance(n, int))
    if stride < 1 or 0 in (rows, taps, below):
        return None
    outside = 0
    for shift in range(start, start + step * taps, step) if step else ():
        before = min(rows, max(0, -(shift // stride)))  # rows with a negative index
        behind = min(rows, max(0, rows - -(-(extent - shift) // stride)))
        outside += before * below // tile + behind * below // tile
    return min(1.0, outside * tile / (taps * rows * below))


def _is_far(index: Dim, loop: LoopVar, rows: int) -> bool:
    """True if an index moves along a loop of the window at least as far as a tile of rows reaches. The outputs of a tile are
    neighbours, so padding of this length holds whole tiles. If sizes are numbers, the pass `crop_taps` has removed the taps that
    no row needs."""
    step = coefficient(index, loop)
    if step == 0:
        return False
    return not (isinstance(step, int) and isinstance(loop.extent, int)) or abs(step) * (loop.extent - 1) >= rows
