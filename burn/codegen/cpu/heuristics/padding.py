"""Heuristics for padding: the convolutions that test, for each tile of rows and each tap, if any row reads the image there."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.dialect.dims import Dim, LoopVar, coefficient

FAR = 8
"""The distance between the first and the last tap of a window from which whole tiles have taps in the padding. If sizes are
numbers, the pass `crop_taps` has removed those that no row needs."""

SHORT = 8
"""Depth elements of a tap with which a test of a tile's rows costs too much."""


def skips_padding(kernel: Tiled) -> bool:
    """True if taps that read only padding are left out. They contribute 0, so padding of another value is read."""
    inner = kernel.inner.extent
    if kernel.fill or (isinstance(inner, int) and inner * kernel.run < SHORT):
        return False
    return any(_is_far(index, loop) for index, _ in kernel.valid for loop in kernel.outer)


def _is_far(index: Dim, loop: LoopVar) -> bool:
    """True if an index moves far along a loop of the window."""
    step = coefficient(index, loop)
    if step == 0:
        return False
    return not (isinstance(step, int) and isinstance(loop.extent, int)) or abs(step) * (loop.extent - 1) >= FAR
