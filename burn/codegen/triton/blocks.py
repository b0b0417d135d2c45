"""The layout of a loop kernel's iterations in a program's block, for coalesced memory access: `layout`.

Memory should be read along the contiguous axis, which is the loop with the smallest stride in the index maps. If a
result has another contiguous axis than an operand (a transpose), its block has both axes, and Triton transposes it in
shared memory. If a reduction's kept elements are contiguous but its rows are not (column sums), the kept elements
are the block's last axis instead of its first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burn.codegen.triton.heuristics.loops import APART, CONSIDERABLE, NEAR, TRANSPOSED_LENGTH
from burn.dialect.dims import Dim, LoopVar, atoms, coefficient, estimate, product, substitute
from burn.kernels.body import Fetched, Load, LoopKernel, Stage, loop_atoms, own_dims, walk


@dataclass(frozen=True)
class Layout:
    """order: the parallel loops that one axis of the block linearises, by number, the fastest one last. across: the
    parallel loop along the block's other axis; then `order` ends with the one along its last axis, and earlier loops
    have no axis. transposed: a stage's loops are along the first axis, the parallel ones along the last. mixed: the
    stage's loops are along the last axis, and a considerable part of the loads is contiguous along the first one."""

    order: tuple[int, ...]
    across: int | None = None
    transposed: bool = False
    mixed: bool = False


def layout(kernel: LoopKernel) -> Layout:
    order = list(range(len(kernel.parallel)))
    if kernel.column_reductions:
        return Layout(tuple(order))
    parallel = all(s.order == "parallel" for s in kernel.stages)
    if any(s.loops for s in kernel.stages if s.order == "parallel"):
        fast, mixed = _contiguous_loop(kernel)
        return Layout(tuple(order)) if fast is None else Layout(_last(order, fast), transposed=not mixed, mixed=mixed)
    pair = _pair(kernel) if parallel and not any(b.access == "scratch" for b in kernel.buffers) else None
    if pair is None:
        return Layout(tuple(order))
    along, across = pair
    return Layout(_last([i for i in order if i != across], along), across)


def _last(order: Sequence[int], number: int) -> tuple[int, ...]:
    return (*(i for i in order if i != number), number)


def _stride(offset: Dim, loop: LoopVar) -> Dim | None:
    """The stride of an offset along a loop. Behind a reshape it is that of runs, if these have TRANSPOSED_LENGTH elements; None
    for shorter ones."""
    stride = coefficient(offset, loop)
    if stride is not None:
        return stride
    first = {atom: 0 for atom in atoms(offset) if isinstance(atom, LoopVar)}
    start, near, far = (substitute(offset, {**first, loop: at}) for at in (0, 1, TRANSPOSED_LENGTH - 1))
    stride = near - start
    return stride if far - start == stride * (TRANSPOSED_LENGTH - 1) else None


def _fastest(offset: Dim, loops: Sequence[LoopVar]) -> LoopVar | None:
    """The loop along which an offset has the smallest stride, if that is at most NEAR."""
    steps = {v: abs(c) for v in loops if isinstance(c := _stride(offset, v), int) and c != 0}
    best = min(steps, key=lambda v: steps[v], default=None)
    return best if best is not None and steps[best] <= NEAR else None


def _moves(offset: Dim, loop: LoopVar) -> bool:
    """True if an offset has a large stride along a loop."""
    step = _stride(offset, loop)
    return step is not None and step != 0 and not (isinstance(step, int) and abs(step) < APART)


def _loads(stage: Stage) -> Iterator[Dim]:
    return (node.offset for node in walk(*stage.scalars) if isinstance(node, Load))


def _own_loads(stage: Stage) -> Iterator[Dim]:
    """The offsets of loads, except those that only compute the indices of other loads."""
    sources = [a.source for n in walk(*stage.scalars) for d in own_dims(n) for a in atoms(d) if isinstance(a, Fetched)]
    index_nodes = {id(node) for node in walk(*sources)}
    return (n.offset for n in walk(*stage.scalars) if isinstance(n, Load) and id(n) not in index_nodes)


def _pair(kernel: LoopKernel) -> tuple[int, int] | None:
    """(the contiguous loop of results, that of operands), by number, if they differ."""
    loops = kernel.parallel
    targets = Counter(_fastest(w.offset, loops) for s in kernel.stages for w in s.writes)
    target = targets.most_common(1)[0][0] if targets else None
    if target is None or not _long(target):
        return None
    found: Counter[LoopVar] = Counter()
    for offset in (offset for s in kernel.stages for offset in _loads(s)):
        fast = _fastest(offset, loops)
        if fast is not None and fast != target and _long(fast) and _moves(offset, target):
            found[fast] += 1
    return (loops.index(target), loops.index(found.most_common(1)[0][0])) if found else None


def _long(loop: LoopVar) -> bool:
    return not isinstance(loop.extent, int) or loop.extent >= TRANSPOSED_LENGTH


def _contiguous_loop(kernel: LoopKernel) -> tuple[int | None, bool]:
    """The parallel loop, by number, along which most loads and stores of stages are contiguous. If more are contiguous along a
    stage's own loop, this is True, and the number is that of a parallel loop for a considerable part; None if there is none. An
    operand that is invariant along a loop has fewer elements and weighs less."""
    votes: Counter[LoopVar | None] = Counter()
    for stage in kernel.stages:
        for offset in (*_own_loads(stage), *(w.offset for w in stage.writes)) if stage.loops else ():
            moving = loop_atoms(offset)
            inner, outer = (not moving.isdisjoint(vs) for vs in (stage.loops, kernel.parallel))
            if inner and outer:
                loops = (*kernel.parallel, *stage.loops)
                fast = _fastest(offset, loops)
                elements = estimate(product([v.extent for v in loops if v in moving]))
                votes[fast if fast in kernel.parallel else None] += elements
    own = votes.pop(None, 0)
    best = max(votes, key=lambda v: votes[v], default=None)
    if best is None or votes[best] * CONSIDERABLE < own:
        return None, False
    return kernel.parallel.index(best), own > 0 and own >= votes[best]
