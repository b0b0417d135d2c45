"""Heuristics for padding: the convolutions that test, for each tile of rows and each tap, if any row reads the image there."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, LoopVar, coefficient

LEAST = 16
"""The vector multiply-adds of a tap, for each row, from which a test pays. A test takes a subtraction, a comparison and one or
two logical instructions for each row and axis: about six for an image. That is less than half of the instructions that it may
save."""


def skips_padding(kernel: Tiled, vectors: int, target: Target) -> bool:
    """True if taps that read only padding are left out. They contribute 0, so padding of another value is read. vectors: those of
    a row of a tile."""
    inner = kernel.inner.extent
    if kernel.fill or (isinstance(inner, int) and inner * kernel.run * vectors < LEAST):
        return False
    return any(_is_far(index, loop, target.costs.tile_rows) for index, _ in kernel.valid for loop in kernel.outer)


def _is_far(index: Dim, loop: LoopVar, rows: int) -> bool:
    """True if an index moves along a loop of the window at least as far as a tile of rows reaches. The outputs of a tile are
    neighbours, so padding of this length holds whole tiles. If sizes are numbers, the pass `crop_taps` has removed the taps that
    no row needs."""
    step = coefficient(index, loop)
    if step == 0:
        return False
    return not (isinstance(step, int) and isinstance(loop.extent, int)) or abs(step) * (loop.extent - 1) >= rows
