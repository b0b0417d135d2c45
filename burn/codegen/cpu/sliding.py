"""Contractions of sliding windows as loops that compute neighbouring windows together (windows.py).

A matmul's tile loads an element of the lhs for each vector of columns that it multiplies. If a convolution has one vector of
columns, such as the outputs of a group, that is as many loads as multiply-adds. Neighbouring windows have elements in common,
which are loaded once for all taps that read them.
"""

from __future__ import annotations

from dataclasses import replace

from burn.codegen.cpu import loops
from burn.codegen.cpu.heuristics.padding import leaves_out
from burn.codegen.cpu.heuristics.windows import fills_vector, holds_weights, pays_to_share
from burn.codegen.cpu.matmul.schedule import Schedule
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel, LoopKernel
from burn.kernels.rewrite import as_loops


def as_windows(kernel: ContractionKernel, order: Schedule | None, target: Target) -> LoopKernel | None:
    """The loops of a convolution with packed weights; None for other contractions, and if the tiles of a matmul are faster.
    order: that of the tiles."""
    lanes = target.lanes(DTYPES[kernel.dtype].size)
    if order is None or not kernel.is_plain or kernel.shares or len(kernel.depth) < 2:
        return None
    tiled = Tiled.of(kernel, order.width)
    if tiled is None or not tiled.packed or tiled.run > 1 or tiled.lhs.dtype != kernel.dtype or not tiled.outer:
        return None
    if not fills_vector(tiled.column.extent, lanes, target) or leaves_out(
        tiled, tiled.outer[-1], order.tile, order.skips
    ):
        return None
    *outer, window, channels = kernel.depth
    inside = holds_weights(kernel, target)
    rows = (*kernel.rows, *kernel.batch) if inside else (*kernel.rows[:-1], *kernel.batch, *kernel.rows[-1:])
    found = replace(as_loops(replace(kernel, depth=(*outer, channels, window))), parallel=(*rows, kernel.column))
    schedule = loops.Schedule.of(found, target)
    adjacent = schedule.adjacent
    if adjacent is None or adjacent.block or schedule.lane != kernel.column.name or not any(adjacent.slides):
        return None  # a long loop, in blocks, is that of a weight's gradient: a matmul's depth
    pays = pays_to_share(adjacent.shared(found), adjacent.accumulators, channels.extent, target)
    return found if pays else None
