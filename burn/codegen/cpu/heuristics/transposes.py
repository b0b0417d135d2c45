"""Heuristics for in-register transposes of loads along the vectorised loop."""

from __future__ import annotations

from burn.dialect.dims import LoopVar, coefficient
from burn.kernels.body import Fetched, Load, LoopKernel, Stage, Where, Write, loop_atoms, walk

TRANSPOSED_NODES = 48
"""The most nodes of a body that is printed once for every row of a transposed block."""


def choose_across(kernel: LoopKernel, lane: LoopVar, lanes: int) -> tuple[LoopVar, int] | None:
    """The loop that in-register transposes combine with the lanes, and the number of lanes then; None for none."""
    if lanes == 1 or any(s.loops or s.reductions for s in kernel.stages):
        return None
    if len(list(walk(*(scalar for stage in kernel.stages for scalar in stage.scalars)))) > TRANSPOSED_NODES:
        return None
    found, count = crosswise(kernel, lane), short_lanes(lane, lanes)
    if count is not None:
        large = [v for v in found if not isinstance(v.extent, int) or v.extent >= count]
        best = max(large, key=lambda v: len(found[v]), default=None)
        return None if best is None else (best, count)
    best = max(found, key=lambda v: len(found[v]), default=None)
    count = 0 if best is None else _block(best, lane, lanes)
    return (best, count) if best is not None and count >= SHORT_LANES else None


FEW_BLOCKS = 4
"""From so many blocks on, the rows outside of them matter little."""


def _block(across: LoopVar, lane: LoopVar, lanes: int) -> int:
    """Rows of a square block: as many as there are lanes, or fewer for short loops. Rows and lanes outside of whole blocks are
    gathered. Blocks of half the rows leave none of 24."""
    short = [v.extent for v in (across, lane) if isinstance(v.extent, int)]
    count = min((1 << size.bit_length() - 1 for size in short if size), default=lanes)
    count = min(count, lanes)
    if any(size % count and size % (count // 2) == 0 and size < FEW_BLOCKS * count for size in short):
        return count // 2
    return count


def crosswise(kernel: LoopKernel, lane: LoopVar) -> dict[LoopVar, list[Load]]:
    """Loads with strided lanes, by the parallel loop along which they are contiguous, in either order. Square blocks of them are
    loaded and transposed in registers, so that each cache line is read once. Conditional loads are excluded."""
    nodes = list(walk(*(scalar for stage in kernel.stages for scalar in stage.scalars)))
    guarded = {id(n) for w in nodes if isinstance(w, Where) for n in walk(w.then, w.otherwise)}
    found: dict[LoopVar, list[Load]] = {}
    for node in nodes if lane in kernel.parallel else ():
        if not isinstance(node, Load) or node.dtype == "bool" or id(node) in guarded:
            continue
        if any(isinstance(a, Fetched) for a in loop_atoms(node.offset)):
            continue
        along = [v for v in kernel.parallel if v != lane and v.extent != 1 and coefficient(node.offset, v) in (1, -1)]
        if along and lane in loop_atoms(node.offset) and coefficient(node.offset, lane) != 1:
            found.setdefault(along[0], []).append(node)
    return found


SHORT_LANES = 4


def short_lanes(lane: LoopVar, most: int) -> int | None:
    """The number of lanes for a short loop (three colour channels) that needs fewer than all lanes: smaller blocks
    avoid gathers."""
    few = isinstance(lane.extent, int) and SHORT_LANES // 2 < lane.extent <= SHORT_LANES < most
    return SHORT_LANES if few else None


INTERLEAVED_ROWS = range(2, SHORT_LANES + 1)
"""The most rows that are interleaved."""


def interleaved_rows(kernel: LoopKernel, lane: LoopVar, lanes: int) -> LoopVar | None:
    """The loop over a few rows (channel groups of an image, parts of complex numbers) whose elements a copy
    interleaves. The copy loads whole vectors of every row and stores them contiguously."""
    match kernel.stages:
        case (Stage(loops=(), reductions=(), writes=(Write(value=Load() as load) as write,), order="parallel"),):
            pass
        case _:
            return None
    if lanes == 1 or lane not in kernel.parallel or lane.extent not in INTERLEAVED_ROWS or load.dtype == "bool":
        return None
    if any(isinstance(a, Fetched) for dim in (load.offset, write.offset) for a in loop_atoms(dim)):
        return None
    if coefficient(write.offset, lane) != 1 or coefficient(load.offset, lane) is None:
        return None
    for loop in kernel.parallel:
        long = isinstance(loop.extent, int) and loop.extent >= lanes
        if long and coefficient(load.offset, loop) == 1 and coefficient(write.offset, loop) == lane.extent:
            return loop
    return None
