"""Computes small windows of several neighbouring results together: depthwise convolutions, pooling.

One result at a time loads every element once for each window that contains it, with a weight and a bounds check. For
neighbouring results the accumulators stay in registers: a weight is loaded once for all of them, and an element
once for all windows that contain it. For elements outside, another address is read. `AdjacentWindows.of` recognises such
kernels, `Sums` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.heuristics.windows import is_window, windows_together
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value, lanes_of, vector
from burn.dialect.dims import Dim, LoopVar, coefficient, exact_div
from burn.kernels.body import (
    REDUCERS,
    Apply,
    Const,
    Load,
    LoopKernel,
    Reduction,
    Scalar,
    Stage,
    Where,
    loop_atoms,
    walk,
)

FLOATS = ("float32", "float64")
KINDS = ("sum", "max", "min")


@dataclass(frozen=True)
class AdjacentWindows:
    """`count` iterations of the parallel loop `loop` are computed together, and the window's last loop is unrolled.
    Elements with equal p * stride + w * dilation, for iteration p and offset w in the window, are the same. `masked`:
    loads are guarded along `loop`, so that iterations past its end may be computed but not stored. `even`: there are
    none."""

    loop: str
    count: int
    stride: int
    dilation: int
    masked: bool
    even: bool
    inner: bool

    @staticmethod
    def of(kernel: LoopKernel, lane: LoopVar, lanes: int, target: Target) -> AdjacentWindows | None:
        first, *others = kernel.stages
        if lanes == 1 or kernel.column_reductions or kernel.parallel[-1:] != (lane,) or not others:
            return None
        if first.order != "parallel" or first.writes or lane in first.loops or not first.loops:
            return None
        if any(s.loops or s.reductions or s.order != "parallel" for s in others):
            return None
        if any(r.kind not in KINDS or r.dtype not in FLOATS for r in first.reductions):
            return None
        loop = next((v for v in reversed(kernel.parallel[:-1]) if v.extent != 1), None)
        window = first.loops[-1]
        extents = [v.extent for v in first.loops]
        if loop is None or not isinstance(window.extent, int) or not is_window(extents):
            return None
        found = _movement(first, loop, window, lane)
        count = windows_together(loop.extent, window.extent, target)
        if found is None or count == 1:
            return None
        even = isinstance(loop.extent, int) and loop.extent % count == 0
        return AdjacentWindows(loop.name, count, *found, even, _has_corners(first, (loop, *first.loops)))


def _movement(stage: Stage, loop: LoopVar, window: LoopVar, lane: LoopVar) -> tuple[int, int, bool] | None:
    """Returns the steps of the loads along both loops, and True if all are guarded along `loop`; None if loads differ."""
    nodes = list(walk(*(r.body for r in stage.reductions)))
    guards = [node for node in nodes if isinstance(node, Where)]
    if not all(_is_plain(guard, lane) for guard in guards):
        return None
    behind = {id(guard.then) for guard in guards}
    moving = [n for n in nodes if isinstance(n, Load) and (loop in loop_atoms(n.offset) or id(n) in behind)]
    indices = [index for guard in guards for index, _ in guard.ranges if {loop, window} & loop_atoms(index)]
    steps = {_steps(dim, loop, window) for dim in (*indices, *(load.offset for load in moving))}
    if not moving or len(steps) != 1 or (step := steps.pop()) is None:
        return None
    along = {id(guard.then) for guard in guards if any(loop in loop_atoms(index) for index, _ in guard.ranges)}
    return *step, all(id(load) in along for load in moving)


def _guards(stage: Stage) -> list[Where]:
    return [node for node in walk(*(r.body for r in stage.reductions)) if isinstance(node, Where)]


def _has_corners(stage: Stage, loops: Sequence[LoopVar]) -> bool:
    """True if guards exist that advance with every step of each loop."""
    steps = [coefficient(index, v) for guard in _guards(stage) for index, _ in guard.ranges for v in loops]
    return bool(steps) and all(isinstance(step, int) and step >= 0 for step in steps)


def all_inside(plan: AdjacentWindows, loop: LoopVar, stage: Stage, first: Int, emitter: ScalarEmitter) -> Value:
    """A condition that all elements under the windows from iteration `first` on are inside."""
    code = emitter.code
    inside: Value | None = None
    for index, extent in dict.fromkeys(pair for guard in _guards(stage) for pair in guard.ranges):
        with emitter.scope():
            emitter.bindings |= {loop: first, **dict.fromkeys(stage.loops, 0)}
            tests = [code.cmp("sge", code.value(emitter.dim(index)), 0)]
        with emitter.scope():
            emitter.bindings[loop] = code.add(first, plan.count - 1)
            emitter.bindings |= {v: code.sub(emitter.dim(v.extent), 1) for v in stage.loops}
            tests.append(code.cmp("slt", code.value(emitter.dim(index)), emitter.dim(extent)))
        for test in tests:
            inside = test if inside is None else code.op("arith.andi", inside, test)
    assert inside is not None
    return inside


class Sums:
    """Prints the accumulators of a stage for the iterations from `first` on. inside: all guards are known to hold."""

    def __init__(
        self,
        plan: AdjacentWindows,
        loop: LoopVar,
        stage: Stage,
        first: Int,
        emitter: ScalarEmitter,
        inside: bool = False,
    ) -> None:
        self.plan, self.loop, self.stage, self.first, self.emitter = plan, loop, stage, first, emitter
        self.inside = inside
        nodes = list(walk(*(r.body for r in stage.reductions)))
        guards = _guards(stage)
        behind = {id(guard.then) for guard in guards}
        loads = [node for node in nodes if isinstance(node, Load) and id(node) not in behind]
        self.still = [node for node in loads if loop not in loop_atoms(node.offset)]
        self.moving: list[Scalar] = [*guards, *(node for node in loads if loop in loop_atoms(node.offset))]
        self.fills = {} if inside else {id(guard): _fill(emitter, guard) for guard in guards}

    def values(self, initial: list[Value]) -> list[list[Value]]:
        """The value of every reduction for each iteration, starting with these."""
        results = self._nest(self.stage.loops, initial * self.plan.count)
        each = len(initial)
        return [results[index * each : (index + 1) * each] for index in range(self.plan.count)]

    def _nest(self, loops: Sequence[LoopVar], carried: list[Value]) -> list[Value]:
        code, emitter = self.emitter.code, self.emitter
        if len(loops) == 1:
            return self._line(loops[0], carried)
        with code.for_(0, emitter.dim(loops[0].extent), 1, carried) as outer, emitter.scope():
            emitter.bindings[loops[0]] = outer.iv
            outer.yield_(*self._nest(loops[1:], outer.carried))
        return outer.results

    def _line(self, window: LoopVar, carried: list[Value]) -> list[Value]:
        """One row of the window, unrolled for all iterations."""
        assert isinstance(window.extent, int)
        emitter, plan = self.emitter, self.plan
        each = len(self.stage.reductions)
        shared: dict[tuple[int, int], Value] = {}
        sums = list(carried)
        for w in range(window.extent):
            with emitter.scope():
                emitter.bindings[window] = w
                weights = [(node, emitter.value(node)) for node in self.still]
                for index in range(plan.count):
                    with emitter.scope():
                        emitter.bindings[self.loop] = emitter.code.add(self.first, index)
                        under = index * plan.stride + w * plan.dilation
                        for node in self.moving:
                            if (id(node), under) not in shared:
                                shared[id(node), under] = self._element(node)
                            emitter.remember([(node, shared[id(node), under])])
                        emitter.remember(weights)
                        for number, reduction in enumerate(self.stage.reductions, index * each):
                            sums[number] = _accumulated(emitter, reduction, sums[number])
        return sums

    def _element(self, node: Scalar) -> Value:
        if not isinstance(node, Where):
            return self.emitter.value(node)
        return self.emitter.value(node.then) if self.inside else _guarded(self.emitter, node, self.fills[id(node)])


def _guarded(emitter: ScalarEmitter, guard: Where, fill: Value) -> Value:
    """The lanes of a load if its guard holds (one check for all lanes), otherwise those of `fill`. It selects the
    address: a masked-off load is slow if its page was never touched."""
    code, load = emitter.code, guard.then
    assert isinstance(load, Load)
    inside: Value | None = None
    for index, extent in guard.ranges:
        test = code.cmp("ult", code.value(emitter.dim(index)), code.value(emitter.dim(extent)))
        inside = test if inside is None else code.op("arith.andi", inside, test)
    assert inside is not None
    element = conversions.element_type(load.dtype)
    address = code.gep(emitter.pointers[load.buffer], emitter.base(load.offset), element)
    return code.load(code.select(inside, address, fill), 0, vector(emitter.lanes, element), emitter.mask)


def _fill(emitter: ScalarEmitter, guard: Where) -> Value:
    """Memory that holds the replacement of a guarded load in every lane."""
    code = emitter.code
    memory = code.alloca(emitter.lanes, conversions.element_type(guard.dtype))
    code.store(emitter.wide(guard.otherwise), memory, 0)
    return memory


def _accumulated(emitter: ScalarEmitter, reduction: Reduction, total: Value) -> Value:
    code, body = emitter.code, reduction.body
    lanes = lanes_of(total.type)
    if reduction.kind == "sum" and isinstance(body, Apply) and body.function == "mul":
        factors = [code.splat(emitter.value(a), lanes) for a in body.args]
        return math.apply(code, "fma", reduction.dtype, *factors, total)
    value = code.splat(emitter.value(body), lanes)
    return math.apply(code, REDUCERS[reduction.kind], reduction.dtype, total, value)


def _is_plain(guard: Where, lane: LoopVar) -> bool:
    """True if a load is guarded, with a guard that is uniform over the lanes, or replaced by a constant."""
    if not isinstance(guard.then, Load) or not isinstance(guard.otherwise, Const) or guard.then.dtype != guard.dtype:
        return False
    return (
        guard.dtype in FLOATS
        and coefficient(guard.then.offset, lane) == 1
        and not any(lane in loop_atoms(d) for pair in guard.ranges for d in pair)
    )


def _steps(offset: Dim, loop: LoopVar, window: LoopVar) -> tuple[int, int] | None:
    """The strides of an offset along both loops, divided by their common factor; None if they are not positive constants."""
    outer, inner = coefficient(offset, loop), coefficient(offset, window)
    if isinstance(outer, int) and isinstance(inner, int) and outer > 0 and inner > 0:
        common = gcd(outer, inner)
        return outer // common, inner // common
    stride = None if outer is None or inner is None else exact_div(outer, inner)
    return (stride, 1) if isinstance(stride, int) and stride > 0 else None
