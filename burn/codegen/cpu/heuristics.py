"""Every choice of the CPU code generator that is a matter of speed and not of meaning, in one place."""

from __future__ import annotations

from burn.codegen.body import EXPENSIVE, Apply, Fetched, Load, LoopKernel, loop_atoms, own_dims, walk
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, LoopVar, coefficient, product, substitute
from burn.dialect.types import DTYPES

CHUNK = 2048
"""Elements of a vectorised parallel loop that one iteration of a launch takes."""

GRAIN = 16384
"""Scalar operations below which a range is not worth handing to another thread (some microseconds)."""


def choose_lane(kernel: LoopKernel) -> LoopVar | None:
    """The loop whose neighbouring iterations touch neighbouring elements most often."""
    inner = {s.loops[-1] for s in kernel.stages if s.loops}
    if carries(kernel):
        inner = set()
    candidates = list(kernel.parallel[-1:])
    if any(r.kind.startswith("arg") for s in kernel.stages for r in s.reductions):
        pass  # places are compared one by one: only a parallel loop can be the lanes
    elif len(inner) == 1:
        candidates += inner
    scores = [(_score(kernel, v), v) for v in candidates if v.extent != 1]
    best = max(scores, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] > 0 else None


def carries(kernel: LoopKernel) -> bool:
    """Whether iterations of the inner loops depend on each other: a result is read while it is being written."""
    written = {w.buffer for s in kernel.stages for w in s.writes if kernel.buffers[w.buffer].role == "write"}
    reads = {n.buffer for s in kernel.stages for n in walk(*s.scalars) if isinstance(n, Load)}
    fetched = any(isinstance(a, Fetched) for s in kernel.stages for w in s.writes for a in loop_atoms(w.offset))
    return fetched or bool(written & reads)


def _score(kernel: LoopKernel, loop: LoopVar) -> float:
    score = 0.0
    for stage in kernel.stages:
        for dim, weight in [(w.offset, 2.0) for w in stage.writes] + [
            (d, 1.0) for node in walk(*stage.scalars) for d in own_dims(node)
        ]:
            if isinstance(dim, int) or loop not in loop_atoms(dim):
                continue
            step = None if any(isinstance(a, Fetched) for a in loop_atoms(dim)) else coefficient(dim, loop)
            score += weight if step == 1 else -0.5 * weight if step is None else -0.25 * weight
    return score


def lanes(kernel: LoopKernel, target: Target) -> int:
    """Lanes that fill a vector register with the widest type the kernel computes on."""
    widest = 4
    for stage in kernel.stages:
        for node in walk(*stage.scalars):
            widest = max(widest, DTYPES[node.dtype].size)
        for reduction in stage.reductions:
            widest = max(widest, DTYPES[reduction.dtype].size)
    return target.lanes(min(widest, 8))


def chunk(kernel: LoopKernel, lane: LoopVar | None) -> int | None:
    """How the lane's loop is cut for a launch; None for one piece."""
    if lane is None or (isinstance(lane.extent, int) and lane.extent <= CHUNK):
        return None
    return CHUNK


def work(kernel: LoopKernel, lane: LoopVar | None, chunk: int | None) -> Dim:
    """Roughly how many scalar operations one iteration of a launch does."""
    total: Dim = 0
    for stage in kernel.stages:
        cost = 0
        for node in walk(*stage.scalars):
            cost += 16 if isinstance(node, Apply) and node.function in EXPENSIVE else 1
        total = total + product([v.extent for v in stage.loops]) * max(cost, 1)
    if lane is not None and lane in kernel.parallel:
        total = total * (chunk if chunk is not None else lane.extent)
    outer = {v: 0 for v in kernel.parallel}
    return substitute(total, outer)


def grain(work: Dim) -> Dim:
    """Iterations that make a range worth a thread: GRAIN / work, at least 1. Symbolic where the work is."""
    from burn.dialect.dims import dim_max, floordiv

    if isinstance(work, int):
        return max(1, GRAIN // max(work, 1))
    return dim_max(1, floordiv(GRAIN, dim_max(1, work)))
