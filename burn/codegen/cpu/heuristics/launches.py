"""Heuristics for splitting a launch among threads."""

from __future__ import annotations

from burn.dialect.dims import Atom, Dim, LoopVar, dim_max, floordiv, product, substitute
from burn.kernels.body import EXPENSIVE, Apply, LoopKernel, walk

CHUNK = 2048
"""Elements of a vectorised parallel loop that one iteration of a launch takes."""


def chunk_for(kernel: LoopKernel, lane: LoopVar | None) -> int | None:
    """Elements of the vectorised loop per iteration of a launch; None if the loop is not split."""
    if lane is None or (isinstance(lane.extent, int) and lane.extent <= CHUNK):
        return None
    return CHUNK


def work(kernel: LoopKernel, lane: str, chunk: int | None) -> Dim:
    """An estimate of the scalar operations of one iteration of a launch."""
    total: Dim = 0
    for stage in kernel.stages:
        cost = 0
        for node in walk(*stage.scalars):
            cost += 16 if isinstance(node, Apply) and node.function in EXPENSIVE else 1
        total = total + product([v.extent for v in stage.loops]) * max(cost, 1)
    for loop in kernel.parallel:
        if loop.name == lane:
            total = total * (chunk if chunk is not None else loop.extent)
    outer: dict[Atom, Dim] = dict.fromkeys(kernel.parallel, 0)
    return substitute(total, outer)


GRAIN = 16384
"""Scalar operations below which a range is not worth handing to another thread (some microseconds)."""


def grain_for(work: Dim, least: int = 1) -> Dim:
    """Iterations that make a range worth a thread: GRAIN / work, at least `least`. Symbolic where the work is."""
    if isinstance(work, int):
        return max(least, GRAIN // max(work, 1))
    return dim_max(least, floordiv(GRAIN, work + 1))  # an empty size has no work: max(1, work) alone would not do
