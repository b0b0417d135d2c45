"""Heuristics for vectorisation: the vectorised loop of a kernel, the number of lanes, and the order of the other loops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from burn.codegen.cpu.spans import span_of
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Call, Dim, LoopVar, coefficient, estimate, product, terms
from burn.dialect.types import DTYPES
from burn.kernels.body import (
    Accumulator,
    Fetched,
    Load,
    LoopKernel,
    Reduced,
    Stage,
    Write,
    children,
    loop_atoms,
    own_dims,
    walk,
)

COMBINING = {"sum": 2, "prod": 2, "max": 5, "min": 5, "any": 2, "all": 2}
"""Instructions that combine the upper lanes of a vector with the lower ones, by kind. Those of max and min keep NaN."""

GATHERED = 1.5
"""Instructions of a gather for each lane."""


def choose_lane(kernel: LoopKernel, target: Target) -> LoopVar | None:
    """The loop whose neighbouring iterations most often access neighbouring elements, or that of the results of reductions too
    short for vectors."""
    loops = possible_lanes(kernel)
    if len(loops) == 2 and _results_pay(kernel, loops[0], loops[1], target):
        return loops[0]
    scores = [(_score(kernel, v, lanes_for(kernel, target, v)), v) for v in loops]
    best = max(scores, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] > 0 else None


def _results_pay(kernel: LoopKernel, results: LoopVar, inner: LoopVar, target: Target) -> bool:
    """True if vectors of results of a short reduction, such as windows with a stride, take fewer instructions than vectors of its
    elements, whose lanes are combined for each result. Results are stored as they are."""
    stage, *others = kernel.stages
    lanes, across = lanes_for(kernel, target, results), lanes_for(kernel, target, inner)
    terms = product([v.extent for v in stage.loops])
    if not isinstance(terms, int) or not isinstance(inner.extent, int) or terms == 0:
        return False
    if not stage.reductions or inner not in stage.loops or any(other.loops for other in others):
        return False
    if isinstance(results.extent, int) and results.extent < lanes:
        return False
    if any(coefficient(write.offset, results) != 1 for each in kernel.stages for write in each.writes):
        return False
    loads = {(node.buffer, node.offset) for node in walk(*(r.body for r in stage.reductions)) if isinstance(node, Load)}
    costs = [(_cost(offset, results, lanes), _cost(offset, inner, across)) for _, offset in loads]
    along_results = terms * sum(cost for cost, _ in costs) / lanes
    along_inner = terms // inner.extent * -(-inner.extent // across) * sum(cost for _, cost in costs)
    combining = sum(COMBINING[r.kind] for r in stage.reductions) * math.log2(across)
    return along_results < along_inner + combining


def _cost(offset: Dim, loop: LoopVar, lanes: int) -> float:
    """Instructions that load a vector of elements along a loop."""
    step = None if any(isinstance(a, Fetched) for a in loop_atoms(offset)) else coefficient(offset, loop)
    if step in (0, 1) or loop not in loop_atoms(offset):
        return 1
    span = span_of(offset, loop, lanes, lanes, lanes)
    return GATHERED * lanes if span is None else 2 * -(-span.length // lanes)


def possible_lanes(kernel: LoopKernel) -> list[LoopVar]:
    """The loops that can be vectorised."""
    inner = {s.loops[-1] for s in kernel.stages if s.loops}
    if any(s.order != "parallel" and not _writes_apart(s) for s in kernel.stages):
        inner = set()
    scratch = any(b.access == "scratch" for b in kernel.buffers)  # scratch holds one row: rows cannot be lanes
    candidates = [] if scratch else list(kernel.parallel[-1:])
    if any(r.kind.startswith("arg") for s in kernel.stages for r in s.reductions):
        pass  # positions are compared one by one: only a parallel loop can be vectorised
    elif len(inner) == 1:
        candidates += inner
    return [v for v in candidates if v.extent != 1]


def _writes_apart(stage: Stage) -> bool:
    """True if the iterations of a scatter's last loop write neighbouring elements, wherever those are: an update is a row."""
    if stage.order != "scatter" or not stage.loops:
        return False
    last = stage.loops[-1]
    return all(coefficient(w.offset, last) == 1 and not _is_fetched_by(w.offset, last) for w in stage.writes)


def _is_fetched_by(dim: Dim, loop: LoopVar) -> bool:
    """True if an index map has fetched indices that depend on a loop."""
    fetched = [a for a in loop_atoms(dim) if isinstance(a, Fetched)]
    return any(loop in loop_atoms(d) for a in fetched for node in walk(a.source) for d in own_dims(node))


def _score(kernel: LoopKernel, loop: LoopVar, lanes: int) -> float:
    """The gain from contiguous accesses less the cost of others, per iteration of the parallel loops. A reduction's body is
    evaluated for each of its elements, and its result is written once. lanes: those of a vector along the loop."""
    score = 0.0
    for stage in kernel.stages:
        times = min(estimate(product([v.extent for v in stage.loops])), MOST_TIMES)
        after = 1 if stage.reductions else times
        accesses = [(w.offset, 2.0 * after) for w in stage.writes]
        for scalars, count in (([w.value for w in stage.writes], after), ([r.body for r in stage.reductions], times)):
            for node in walk(*scalars):  # an index that is compared, or a number itself, is no access
                accesses += [(d, float(count if isinstance(node, Load) else 1)) for d in own_dims(node)]
        for dim, weight in accesses:
            if isinstance(dim, int) or loop not in loop_atoms(dim):
                continue
            step = None if _is_fetched_by(dim, loop) else coefficient(dim, loop)
            if step is None and _is_span(dim, loop, lanes):
                continue
            score += weight if step == 1 else -0.5 * weight if step is None else -0.25 * weight
    return score


MOST_TIMES = 1 << 20
"""Symbolic sizes may be anything: more iterations do not count."""


def _is_span(dim: Dim, loop: LoopVar, lanes: int) -> bool:
    """True if a load's lanes are shuffled from a span, which is about as fast as a load of a scalar."""
    divisors = {d for d in _divisors(dim, loop) if d > 1}
    used = {lanes - lanes % d if d < lanes else lanes for d in divisors}
    return any(span_of(dim, loop, n, n, lanes) is not None for n in used)


def lanes_for(kernel: LoopKernel, target: Target, lane: LoopVar | None = None) -> int:
    """Lanes that fill a vector register with the widest type the kernel computes on. lane: only vectors count, which are the
    values that depend on this loop."""
    widest = 4
    for stage in kernel.stages:
        varying = None if lane is None else _varying(stage, lane)
        for node in walk(*stage.scalars):
            if varying is None or id(node) in varying:
                widest = max(widest, DTYPES[node.dtype].size)
        for reduction in stage.reductions:
            widest = max(widest, DTYPES[reduction.dtype].size)
    return target.lanes(min(widest, 8))


def _varying(stage: Stage, lane: LoopVar) -> set[int]:
    """The ids of a stage's nodes whose values may depend on a loop."""
    found: set[int] = set()
    for node in walk(*stage.scalars):
        own = isinstance(node, Reduced | Accumulator) or any(lane in loop_atoms(d) for d in own_dims(node))
        if own or any(id(child) in found for child in children(node)):
            found.add(id(node))
    return found


def used_lanes(kernel: LoopKernel, lane: LoopVar, lanes: int) -> int:
    """The lanes of a vector to use: all, or fewer if all loads that are neither contiguous nor uniform then have one span
    (spans.py). For groups of three channels these are 15 of 16. All if that leaves half of them."""
    offsets = {
        node.offset
        for stage in kernel.stages
        for node in walk(*stage.scalars)
        if isinstance(node, Load) and lane in loop_atoms(node.offset) and coefficient(node.offset, lane) is None
    }
    if not offsets:
        return lanes
    divisors = {d for offset in offsets for d in _divisors(offset, lane) if 1 < d <= lanes}
    for step in sorted({lanes, *(lanes - lanes % d for d in divisors)}, reverse=True):
        if 2 * step > lanes and all(span_of(offset, lane, step, step, lanes) for offset in offsets):
            return step
    return lanes


def _divisors(dim: Dim, lane: LoopVar) -> Iterator[int]:
    """The numbers by which an index map divides the lane."""
    for monomial, _ in terms(dim):
        for atom in monomial:
            if isinstance(atom, Call):
                numerator, *others = atom.args
                if lane in loop_atoms(numerator):
                    yield from (d for d in others if isinstance(d, int))
                    yield from _divisors(numerator, lane)


SHORT_ROW = 64
"""Up to this many elements, a copied row is too short for the hardware prefetcher."""


def as_read(kernel: LoopKernel) -> LoopKernel:
    """A copy of short rows with its loops in the order of the reads: strided loads stall, strided stores do not."""
    match kernel.stages:
        case (Stage(loops=(), reductions=(), writes=(Write(value=Load() as load),), order="parallel"),):
            *outer, row = kernel.parallel or (LoopVar("", 1),)
            steps = {v: coefficient(load.offset, v) for v in kernel.parallel}
            short = isinstance(row.extent, int) and row.extent <= SHORT_ROW and steps.get(row) == 1
            known = {v: step for v, step in steps.items() if isinstance(step, int)}
            if short and len(known) == len(steps):
                return replace(kernel, parallel=(*sorted(outer, key=lambda v: -known[v]), row))
    return kernel
