"""Heuristics for splitting a launch among threads."""

from __future__ import annotations

from burn.codegen.cpu.costs import Costs
from burn.dialect.dims import Atom, Dim, LoopVar, dim_max, floordiv, product, substitute
from burn.kernels.body import EXPENSIVE, Apply, LoopKernel, walk


def chunk_for(kernel: LoopKernel, lane: LoopVar | None, costs: Costs) -> int | None:
    """Elements of the vectorised loop per iteration of a launch; None if the loop is not split."""
    if lane is None or (isinstance(lane.extent, int) and lane.extent <= costs.chunk):
        return None
    return costs.chunk


def work(kernel: LoopKernel, lane: str, chunk: int | None, costs: Costs) -> Dim:
    """An estimate of the scalar operations of one iteration of a launch."""
    total: Dim = 0
    for stage in kernel.stages:
        cost = 0
        for node in walk(*stage.scalars):
            cost += costs.expensive if isinstance(node, Apply) and node.function in EXPENSIVE else 1
        total = total + product([v.extent for v in stage.loops]) * max(cost, 1)
    for loop in kernel.parallel:
        if loop.name == lane:
            total = total * (chunk if chunk is not None else loop.extent)
    outer: dict[Atom, Dim] = dict.fromkeys(kernel.parallel, 0)
    return substitute(total, outer)


def grain_for(work: Dim, costs: Costs, least: int = 1) -> Dim:
    """Iterations that make a range worth a thread: the grain / work, at least `least`. Symbolic where the work is."""
    if isinstance(work, int):
        return max(least, costs.grain // max(work, 1))
    return dim_max(least, floordiv(costs.grain, work + 1))  # an empty size has no work: max(1, work) alone would not do
