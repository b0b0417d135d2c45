"""Prints the accumulators of windows that are computed together (windows.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as indices_of
from math import prod
from operator import mul
from typing import Any

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.heuristics.windows import split_accumulators
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.spans import MOST_VECTORS, Reached
from burn.codegen.cpu.windows import AdjacentWindows, guards_of, load_of, split_nodes
from burn.codegen.host.emit import Int, Value, lanes_of, vector
from burn.dialect.dims import Dim, Expr, LoopVar, coefficient
from burn.kernels.body import (
    REDUCERS,
    Apply,
    Const,
    Convert,
    Load,
    Reduction,
    Scalar,
    Stage,
    Where,
    identity,
    loop_atoms,
)

LONGEST_FILL = 256
"""The most elements of memory with the replacement of guarded loads, beside those of one load."""

Ranges = tuple[tuple[Dim, Dim], ...]
"""Pairs of an index and an extent, as guards have them."""


def all_inside(
    plan: AdjacentWindows, loop: LoopVar, stage: Stage, first: Int, emitter: ScalarEmitter, row: LoopVar | None = None
) -> Value:
    """A condition that all elements under the windows from iteration `first` on are inside, also for the next iteration of
    `row`. `Sums` tests other guards for each row of the windows."""
    code = emitter.code
    inside: Value | None = None
    tested = {pair for pairs in row_ranges(plan, loop, stage).values() for pair in pairs}
    for index, extent in dict.fromkeys(pair for guard in guards_of(stage) for pair in guard.ranges):
        if (index, extent) in tested:
            continue
        with emitter.scope():
            emitter.bindings |= {loop: first, **dict.fromkeys(stage.loops, 0)}
            tests = [code.cmp("sge", code.value(emitter.dim(index)), 0)]
        with emitter.scope():
            emitter.bindings[loop] = code.add(first, plan.count - 1)
            if row is not None:
                emitter.bindings[row] = code.add(emitter.bindings[row], 1)
            emitter.bindings |= {v: code.sub(emitter.dim(v.extent), 1) for v in stage.loops}
            tests.append(code.cmp("slt", code.value(emitter.dim(index)), emitter.dim(extent)))
        for test in tests:
            inside = test if inside is None else code.op("arith.andi", inside, test)
    return code.const(True, "i1") if inside is None else inside


def row_ranges(plan: AdjacentWindows, loop: LoopVar, stage: Stage) -> dict[LoopVar, Ranges]:
    """For each loop of the window that is not unrolled, the ranges of all guards that depend on it, but on no later loop and not
    on `loop`. Windows have no elements in a row where one of them does not hold. Empty if padding contributes to a result."""
    guards, outer = guards_of(stage), stage.loops[: len(stage.loops) - plan.unrolled]
    if not guards or not all(map(_ignores_padding, stage.reductions)):
        return {}
    common = [pair for pair in guards[0].ranges if all(pair in guard.ranges for guard in guards)]
    found: dict[LoopVar, Ranges] = {}
    for number, row in enumerate(outer):
        later = {loop, *stage.loops[number + 1 :]}
        of_row = [
            (index, extent)
            for index, extent in common
            if row in loop_atoms(index) and not later & {*loop_atoms(index), *loop_atoms(extent)}
        ]
        if of_row:
            found[row] = tuple(of_row)
    return found


class Sums:
    """Prints the accumulators of a stage for the iterations from `first` on. inside: all guards are known to hold, or are
    tested for each row. pair: the loop of the plan's `pair`; the current iteration of it and the next are computed."""

    def __init__(
        self,
        plan: AdjacentWindows,
        loop: LoopVar,
        stage: Stage,
        first: Int,
        emitter: ScalarEmitter,
        inside: bool = False,
        pair: LoopVar | None = None,
    ) -> None:
        self.plan, self.loop, self.stage, self.first, self.emitter = plan, loop, stage, first, emitter
        self.inside, self.pair = inside, pair
        self.members: dict[int, dict[LoopVar, Int]] = {
            0: {}
        }  # the pair's iterations that a row of the window belongs to
        self.still, self.moving = split_nodes(stage, loop)
        self.rows = row_ranges(plan, loop, stage)
        self.tested = {pair for pairs in self.rows.values() for pair in pairs}
        self.window = stage.loops[-plan.unrolled :]
        self.spans = {id(node): self._span(node) for node in self.moving}
        self.run = self._run_of()
        # The addresses of guarded elements in the first iteration of the loops of `run`, inside of these loops.
        self.hoisted: dict[tuple[int, tuple[int, ...]], Value] = {}
        self.fills = {} if inside else {id(guard): self._fill(guard) for guard in guards_of(stage)}

    def values(self, initial: list[Value]) -> list[list[Value]]:
        """The value of every reduction for each iteration, starting with these. Those of the pair's second iteration follow."""
        self.initial = initial
        count = self.plan.count if self.pair is None else 2 * self.plan.count
        results = self._nest(self.stage.loops, initial * count)
        each = len(initial)
        return [results[index * each : (index + 1) * each] for index in range(count)]

    def _nest(self, loops: Sequence[LoopVar], carried: list[Value]) -> list[Value]:
        code, emitter = self.emitter.code, self.emitter
        if len(loops) == self.plan.unrolled:
            if self.plan.block:
                return self._blocks(loops[0], carried)
            return self._unrolled(carried, [range(v.extent if isinstance(v.extent, int) else 0) for v in loops])
        if self.pair is not None and self.plan.pair is not None and loops[0].name == self.plan.pair.row:
            return self._of_pair(self.pair, loops, carried)
        if self.run and not self.hoisted and tuple(loops[: -self.plan.unrolled]) == self.run:
            self.hoisted = self._starts(loops)
            carried = self._nest(loops, carried)
            self.hoisted = {}
            return carried
        with code.for_(0, emitter.dim(loops[0].extent), 1, carried) as outer, emitter.scope():
            emitter.bindings[loops[0]] = outer.iv
            outer.yield_(*self._row(loops, outer.carried))
        return outer.results

    def _run_of(self) -> tuple[LoopVar, ...]:
        """The last loops that are not unrolled, if guards are alike in their iterations and guarded elements near each other. A
        pair's loop is not among them: its iterations belong to one window or to the other, whose elements start elsewhere."""
        guards, found = guards_of(self.stage), list[LoopVar]()
        guarded = {v for guard in guards for index, _ in guard.ranges for v in loop_atoms(index)}
        for loop in reversed(self.stage.loops[: -self.plan.unrolled]):
            if loop in guarded or (self.plan.pair is not None and loop.name == self.plan.pair.row):
                break
            found.insert(0, loop)
        return tuple(found) if guards and not self.inside and not self.plan.block and self._reach(guards, found) else ()

    def _reach(self, guards: Sequence[Where], loops: Sequence[LoopVar]) -> int:
        """The elements by which loops move the guarded load that they move furthest; 0 if they are more than `LONGEST_FILL`, or
        if their number is not known."""
        reach = [0]
        for load in filter(None, map(load_of, guards)):
            steps = [(coefficient(load.offset, v), v.extent) for v in loops]
            known = [step * (n - 1) for step, n in steps if isinstance(step, int) and isinstance(n, int) and step >= 0]
            if len(known) < len(steps):
                return 0
            reach.append(sum(known))
        return max(reach) if max(reach) <= LONGEST_FILL else 0

    def _starts(self, loops: Sequence[LoopVar]) -> dict[tuple[int, tuple[int, ...]], Value]:
        """The addresses of guarded elements in the first iteration of the loops that are not unrolled."""
        emitter, found = self.emitter, {}
        for index, taps in self._order([range(v.extent if isinstance(v.extent, int) else 0) for v in self.window]):
            with emitter.scope():
                emitter.bindings.update((v, 0) for v in loops)
                emitter.bindings.update(zip(self.window, taps, strict=True))
                emitter.bindings[self.loop] = emitter.code.add(self.first, index)
                for node, key in zip(self.moving, self._keys(index, taps), strict=True):
                    load = load_of(node)
                    if isinstance(node, Where) and load is not None and (id(node), key) not in found:
                        found[id(node), key] = self._start(node, load)
        return found

    def _keys(self, index: int, taps: Sequence[int]) -> list[tuple[int, ...]]:
        """How far each moving node has advanced: equal for equal elements."""
        return [tuple(sum(map(mul, step, (index, *taps))) for step in steps) for steps in self.plan.steps]

    def _of_pair(self, pair: LoopVar, loops: Sequence[LoopVar], carried: list[Value]) -> list[Value]:
        """The accumulators of a pair after a loop of the window. Its first iterations belong to the first window alone, the next
        ones to both, and the last ones to the second."""
        code, emitter, plan = self.emitter.code, self.emitter, self.plan.pair
        assert plan is not None
        extent, first = emitter.dim(loops[0].extent), emitter.bindings[pair]
        for start, stop, members in (
            (0, plan.shift, (0,)),
            (plan.shift, extent, (0, 1)),
            (extent, code.add(extent, plan.shift), (1,)),
        ):
            with code.for_(start, stop, 1, carried) as rows, emitter.scope():
                self.members = {
                    member: {pair: code.add(first, member), loops[0]: code.sub(rows.iv, member * plan.shift)}
                    for member in members
                }
                emitter.bindings |= self.members[members[0]]
                rows.yield_(*self._row(loops, rows.carried))
            carried = rows.results
        return carried

    def _row(self, loops: Sequence[LoopVar], carried: list[Value]) -> list[Value]:
        """The accumulators after an iteration of the first loop, which is left out if all windows read padding there."""
        code, emitter = self.emitter.code, self.emitter
        inside: Value | None = None
        for index, extent in self.rows.get(loops[0], ()):
            test = code.cmp("ult", code.value(emitter.dim(index)), code.value(emitter.dim(extent)))
            inside = test if inside is None else code.op("arith.andi", inside, test)
        if inside is None:
            return self._within(loops[1:], carried)
        with code.for_(0, code.cast("arith.extui", inside, "i64"), 1, carried) as once, self.emitter.scope():
            once.yield_(*self._within(loops[1:], once.carried))
        return once.results

    def _within(self, loops: Sequence[LoopVar], carried: list[Value]) -> list[Value]:
        """The accumulators after the remaining loops. The sum of a long row starts anew, so that the error does not grow with the
        number of rows."""
        if not self.plan.block:
            return self._nest(loops, carried)
        return self._joined(carried, self._nest(loops, self.initial * self.plan.count))

    def _blocks(self, loop: LoopVar, carried: list[Value]) -> list[Value]:
        """A long loop in blocks of unrolled iterations with several accumulators for each window, and its last iterations."""
        code, emitter, block = self.emitter.code, self.emitter, self.plan.block
        extent, split = emitter.dim(loop.extent), split_accumulators(self.plan.count, self.plan.chains)
        whole = code.mul(code.udiv(extent, block), block)
        results = [*carried, *self.initial * self.plan.count * (split - 1)]
        for start, stop, step in ((0, whole, block), (whole, extent, 1)):
            with code.for_(start, stop, step, results) as steps, emitter.scope():
                steps.yield_(*self._unrolled(steps.carried, [range(step)], steps.iv, split))
            results = steps.results
        total, each = results[: len(carried)], len(carried)
        for part in range(1, split):
            total = self._joined(total, results[part * each : (part + 1) * each])
        return total

    def _joined(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The accumulators of two parts of the stage's loops together."""
        reductions = self.stage.reductions * self.plan.count
        return [
            math.apply(self.emitter.code, REDUCERS[r.kind], r.dtype, x, y)
            for r, x, y in zip(reductions, a, b, strict=True)
        ]

    def _unrolled(self, carried: list[Value], ranges: Sequence[range], start: Int = 0, split: int = 1) -> list[Value]:
        """The unrolled loops of the window, for all iterations: from `start` on if there is one loop. Every `split`-th index of
        it has the same accumulators."""
        emitter, plan = self.emitter, self.plan
        each = len(self.stage.reductions)
        shared: dict[tuple[int, tuple[int, ...]], Value] = {}
        sums = list(carried)
        weights: dict[tuple[int, tuple[int, ...]], list[tuple[Scalar, Value]]] = {}
        for (index, taps), (member, bindings) in indices_of(self._order(ranges), self.members.items()):
            advanced = self._keys(index, taps)
            with emitter.scope():
                emitter.bindings |= bindings
                emitter.bindings.update(
                    (v, emitter.code.add(start, tap)) for v, tap in zip(self.window, taps, strict=True)
                )
                if (member, taps) not in weights:
                    weights[member, taps] = [(node, emitter.value(node)) for node in self.still]
                emitter.remember(weights[member, taps])
                emitter.bindings[self.loop] = emitter.code.add(self.first, index)
                for node, key in zip(self.moving, advanced, strict=True):
                    if (id(node), key) not in shared:
                        shared[id(node), key] = self._element(node, key, taps)
                    emitter.remember([(node, shared[id(node), key])])
                at = ((taps[0] % split + member) * plan.count + index) * each
                for number, reduction in enumerate(self.stage.reductions, at):
                    sums[number] = _accumulated(emitter, reduction, sums[number])
        return sums

    def _order(self, ranges: Sequence[range]) -> Iterable[tuple[int, tuple[int, ...]]]:
        """The iterations and the indices in the unrolled window, one channel after the other. Within a channel either the weights
        or the elements of all windows stay in registers, whichever are fewer."""
        plan = self.plan
        pairs = list(indices_of(range(plan.count), indices_of(*ranges)))
        taps = prod(len(n) for n, slides in zip(ranges, plan.slides, strict=True) if slides)
        steps = plan.steps[0][0]
        backwards = any(step < 0 for step, slides in zip(steps[1:], plan.slides, strict=True) if slides)
        steps = tuple(-step for step in steps) if backwards else steps  # every sum is in the order of the window

        def key(pair: tuple[int, tuple[int, ...]]) -> tuple[Any, ...]:
            index, at = pair
            channel = tuple(i for i, slides in zip(at, plan.slides, strict=True) if not slides)
            position = sum(map(mul, steps, (index, *at)))
            return (channel, position, at) if 1 < taps <= plan.count else (channel, at, index)

        return sorted(pairs, key=key)

    def _element(self, node: Scalar, key: tuple[int, ...], taps: tuple[int, ...]) -> Value:
        """The lanes of a moving node at these indices in the unrolled window."""
        emitter, load = self.emitter, load_of(node)
        assert load is not None
        loaded = self._loaded(node, load, key, taps)
        if not isinstance(node, Where):
            return loaded
        with emitter.scope():
            emitter.remember([(load, loaded)])
            return emitter.value(node.then)

    def _loaded(self, node: Scalar, load: Load, key: tuple[int, ...], taps: tuple[int, ...]) -> Value:
        emitter, element, found = self.emitter, conversions.element_type(load.dtype), self.spans[id(node)]
        if found is None and (self.inside or not isinstance(node, Where)):
            return emitter.value(load)
        address = self.hoisted.get((id(node), key))
        if address is None:
            address = self._start(node, load)
        else:
            steps = [(coefficient(load.offset, v), Expr.of(v)) for v in self.run]
            moved = [step * index for step, index in steps if step is not None]
            address = emitter.code.gep(address, emitter.dim(sum(moved, 0)), element)
        if found is None:
            return emitter.code.load(address, 0, vector(emitter.lanes, element), emitter.mask)
        span, strides = found
        return span.lanes_from(emitter.code, address, element, sum(map(mul, strides, taps)), emitter.lanes)

    def _start(self, node: Scalar, load: Load) -> Value:
        """The address of the first element that lanes read in the unrolled loops over channels."""
        emitter, found = self.emitter, self.spans[id(node)]
        if found is None:
            return self._address(node, load, emitter.base(load.offset))
        span, strides = found
        with emitter.scope():
            emitter.bindings.update((v, 0) for v, stride in zip(self.window, strides, strict=True) if stride)
            return self._address(node, load, emitter.first(load.offset, span))

    def _span(self, node: Scalar) -> tuple[Reached, tuple[int, ...]] | None:
        """The elements that all lanes of a node read in the unrolled loops over channels, and the strides in the unrolled loops,
        0 in the others. None if lanes are contiguous or differ between vectors."""
        load, emitter = load_of(node), self.emitter
        assert load is not None
        span = None if emitter.stride(load.offset) == 1 else emitter.span(load.offset)
        if span is None:
            return None
        strides: list[int] = []
        reach = 0
        for v, slides in zip(self.window, self.plan.slides, strict=True):
            stride = coefficient(load.offset, v)
            guarded = isinstance(node, Where) and any(v in loop_atoms(index) for index, _ in node.ranges)
            extent = v.extent if isinstance(v.extent, int) else 0
            inside = isinstance(stride, int) and stride > 0 and not slides and not guarded
            if (
                inside
                and isinstance(stride, int)
                and span.length + reach + stride * (extent - 1) <= MOST_VECTORS * emitter.lanes
            ):
                strides.append(stride)
                reach += stride * (extent - 1)
            else:
                strides.append(0)
        return Reached(span.first, span.offsets, reach), tuple(strides)

    def _address(self, node: Scalar, load: Load, offset: Int) -> Value:
        """The address of a load at an offset, or of its fill if its guard does not hold: one check for all lanes. A masked-off
        load would be slow if its page was never touched."""
        code = self.emitter.code
        address = code.gep(self.emitter.pointers[load.buffer], offset, conversions.element_type(load.dtype))
        if not isinstance(node, Where) or self.inside:
            return address
        inside: Value | None = None
        for index, extent in node.ranges:
            if (index, extent) not in self.tested:
                test = code.cmp("ult", code.value(self.emitter.dim(index)), code.value(self.emitter.dim(extent)))
                inside = test if inside is None else code.op("arith.andi", inside, test)
        return address if inside is None else code.select(inside, address, self.fills[id(node)])

    def _fill(self, guard: Where) -> Value:
        """Memory that holds the replacement of a guarded load in every element that lanes read."""
        emitter, code, found, load = self.emitter, self.emitter.code, self.spans[id(guard)], load_of(guard)
        assert load is not None and isinstance(guard.otherwise, Const)
        length = emitter.lanes if found is None else found[0].length
        vectors = -(-(length + self._reach([guard], self.run)) // emitter.lanes)
        memory = code.alloca(vectors * emitter.lanes, conversions.element_type(load.dtype))
        fill = emitter.wide(Const(load.dtype, guard.otherwise.value))
        for number in range(vectors):
            code.store(fill, memory, number * emitter.lanes)
        return memory


def _ignores_padding(reduction: Reduction) -> bool:
    """True if elements in padding leave the reduction's result as it is: zeros in a sum, or factors of its terms."""
    body = reduction.body
    parts = body.args if reduction.kind == "sum" and isinstance(body, Apply) and body.function == "mul" else (body,)
    neutral = identity(reduction.kind, reduction.dtype)
    return any(_padded_with(part, neutral) for part in parts)


def _padded_with(node: Scalar, value: float | int | bool) -> bool:
    while isinstance(node, Convert):
        node = node.arg
    return isinstance(node, Where) and isinstance(node.otherwise, Const) and node.otherwise.value == value


def _accumulated(emitter: ScalarEmitter, reduction: Reduction, total: Value) -> Value:
    code, body = emitter.code, reduction.body
    lanes = lanes_of(total.type)
    if reduction.kind == "sum" and isinstance(body, Apply) and body.function == "mul":
        factors = [code.splat(emitter.value(a), lanes) for a in body.args]
        return math.apply(code, "fma", reduction.dtype, *factors, total)
    value = code.splat(emitter.value(body), lanes)
    return math.apply(code, REDUCERS[reduction.kind], reduction.dtype, total, value)
