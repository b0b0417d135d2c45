"""Prefetches for windows that are computed together (windows.py).

The lanes of a row of windows are the inner loop, so that memory is read at as many positions as windows have elements. Hardware
prefetchers do not follow so many streams. Elements that no earlier windows have read come from the last-level cache or memory,
and multiply-adds wait for them.
"""

from __future__ import annotations

from itertools import product as indices_of

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.windows import AdjacentWindows, load_of, split_nodes
from burn.codegen.host.emit import Int
from burn.dialect.dims import Dim, LoopVar, coefficient, exact_div
from burn.kernels.body import Load, LoopKernel, loop_atoms, walk


def fetch(
    plan: AdjacentWindows, kernel: LoopKernel, loop: LoopVar, first: Int, emitter: ScalarEmitter, row: LoopVar | None
) -> None:
    """Prefetches the results of the windows from iteration `first` on, the other operands of these results, and elements that the
    next windows are the first to read. row: a loop; its current iteration and the next are computed."""
    for below in range(1 if row is None else 2):
        with emitter.scope():
            if row is not None:
                emitter.bindings[row] = emitter.code.add(emitter.bindings[row], below)
            _fetch_results(plan, kernel, loop, first, emitter)
            _fetch_elements(plan, kernel, loop, first, emitter)


def _fetch_results(
    plan: AdjacentWindows, kernel: LoopKernel, loop: LoopVar, first: Int, emitter: ScalarEmitter
) -> None:
    writes = [write for stage in kernel.stages[1:] for write in stage.writes]
    loads = [node for node in walk(*(write.value for write in writes)) if isinstance(node, Load)]
    accesses = {(w.buffer, w.offset): True for w in writes}
    accesses |= {(n.buffer, n.offset): accesses.get((n.buffer, n.offset), False) for n in loads}
    for (buffer, offset), write in accesses.items():
        if loop not in loop_atoms(offset) or emitter.stride(offset) != 1:
            continue
        for index in range(plan.count):
            with emitter.scope():
                emitter.bindings[loop] = emitter.code.add(first, index)
                _prefetch(kernel, buffer, offset, emitter, write)


def _fetch_elements(
    plan: AdjacentWindows, kernel: LoopKernel, loop: LoopVar, first: Int, emitter: ScalarEmitter
) -> None:
    stage, code = kernel.stages[0], emitter.code
    window = stage.loops[-1]
    outer = stage.loops[: len(stage.loops) - plan.unrolled]
    for load in filter(None, map(load_of, split_nodes(stage, loop)[1])):
        if emitter.stride(load.offset) != 1:
            continue
        rows = _new(load.offset, kernel.parallel, outer[-1]) if outer else 1
        for index, tap, line in indices_of(range(plan.count), range(_new(load.offset, (loop,), window)), range(rows)):
            with emitter.scope():
                emitter.bindings |= {v: code.sub(emitter.dim(v.extent), 1) for v in stage.loops}
                emitter.bindings[window] = code.sub(emitter.bindings[window], tap)
                if outer:
                    emitter.bindings[outer[-1]] = code.sub(emitter.bindings[outer[-1]], line)
                emitter.bindings[loop] = code.add(first, plan.count + index)
                _prefetch(kernel, load.buffer, load.offset, emitter, False)


def _new(offset: Dim, loops: tuple[LoopVar, ...], window: LoopVar) -> int:
    """The number of elements that the next iteration of one of `loops` is the first to read. They are the last ones along a loop
    of the window. It is 1 if no loop moves the window by whole elements."""
    taps, step = window.extent, coefficient(offset, window)
    for loop in reversed(loops):
        by = coefficient(offset, loop)
        moved = exact_div(by, step) if by is not None and step is not None and by != 0 and step != 0 else None
        if isinstance(moved, int) and isinstance(taps, int) and 0 < moved <= taps:
            return moved
    return 1


def _prefetch(kernel: LoopKernel, buffer: int, offset: Dim, emitter: ScalarEmitter, write: bool) -> None:
    element = conversions.element_type(kernel.buffers[buffer].dtype)
    emitter.code.prefetch(emitter.pointers[buffer], emitter.dim(offset), element, write)
