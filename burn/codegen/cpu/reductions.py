"""Prints reductions: accumulators that a stage's loops carry, cut into partial sums, and lanes that are combined at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math, partial_sums
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Function, Int, Value, element_of, lanes_of, vector
from burn.dialect.dims import LoopVar
from burn.kernels.body import REDUCERS, Reduction, Stage, identity


@dataclass(frozen=True)
class Reductions:
    """The reductions of a kernel with these parallel loops, vectorised along `lane`. `even`: whole vectors cover it."""

    code: Function
    emitter: ScalarEmitter
    parallel: Sequence[LoopVar]
    lane: LoopVar | None
    lanes: int
    even: bool

    def print(self, stage: Stage, cuts: Sequence[partial_sums.Cut]) -> None:
        """Carries accumulators through the stage's loops. They are vectors when the lane is one of the loops (combined across
        lanes at the end) or a parallel loop (one result a lane)."""
        code, emitter = self.code, self.emitter
        lane_inside = self.lane in stage.loops
        lanes = self.lanes if lane_inside or self.lane in self.parallel else 1
        initial = [v for r in stage.reductions for v in identities(code, r, lanes)]
        final = self._nest(stage, tuple(zip(stage.loops, cuts, strict=True)), initial)
        position = 0
        for r in stage.reductions:
            width = 2 if r.kind.startswith("arg") else 1
            result = final[position + width - 1]
            if lane_inside:
                result = across(code, r, result)
            emitter.reduced[r.name] = result
            position += width
        emitter.lanes_changed()

    def _nest(
        self, stage: Stage, nest: Sequence[tuple[LoopVar, partial_sums.Cut]], carried: list[Value]
    ) -> list[Value]:
        """Prints the loops of a nest, each with its cut, and returns the accumulators after them. A cut loop has accumulators
        of its own, which the enclosing loops add up."""
        code, emitter = self.code, self.emitter
        if not nest:
            with emitter.scope():
                return self._accumulate(stage, carried)
        (first, cut), rest = nest[0], nest[1:]
        extent = emitter.dim(first.extent)
        step = self.lanes if first == self.lane else 1
        whole = code.mul(code.udiv(extent, step), step)

        def at(index: Int, carried: list[Value]) -> list[Value]:
            with emitter.scope():
                emitter.bindings[first] = index
                return self._nest(stage, rest, carried)

        results = self._fresh(stage, carried) if cut else carried
        results = self._blocks(stage, 0, whole, step, cut, results, at)
        if step > 1 and not self.even:
            left = code.splat(code.value(code.sub(extent, whole)), self.lanes)
            with emitter.under(code.cmp("slt", code.lane_ids(self.lanes), left)):
                results = at(whole, results)
        return self._joined(stage, carried, results) if cut else results

    def _blocks(
        self,
        stage: Stage,
        start: Int,
        stop: Int,
        step: int,
        cut: partial_sums.Cut,
        carried: list[Value],
        at: Callable[[Int, list[Value]], list[Value]],
    ) -> list[Value]:
        """Runs `at` for start..stop, carrying the accumulators; each block of the cut starts its sums from zero."""
        code = self.code
        inner, size = (cut[:-1], cut[-1]) if cut else ((), 1)
        with code.for_(start, stop, size * step, carried) as loop, self.emitter.scope():
            if not cut:
                loop.yield_(*at(loop.iv, loop.carried))
                return loop.results
            fresh = self._fresh(stage, loop.carried)
            if size == 1:
                partial = at(loop.iv, fresh)
            else:
                end = code.min(code.add(loop.iv, size * step), stop)
                partial = self._blocks(stage, loop.iv, end, step, inner, fresh, at)
            loop.yield_(*self._joined(stage, loop.carried, partial))
        return loop.results

    def _fresh(self, stage: Stage, carried: list[Value]) -> list[Value]:
        """The accumulators, with float sums reset to zero."""
        zero = [self.code.const(0, v.type) for v in carried]
        return [z if s else v for v, z, s in zip(carried, zero, _sums(stage), strict=True)]

    def _joined(self, stage: Stage, carried: list[Value], partial: list[Value]) -> list[Value]:
        """The accumulators after a part that started from `_fresh`: its sums are added; other accumulators were carried
        through it."""
        return [
            math.apply(self.code, "add", s.dtype, c, p) if s else p
            for c, p, s in zip(carried, partial, _sums(stage), strict=True)
        ]

    def _accumulate(self, stage: Stage, carried: list[Value]) -> list[Value]:
        code, emitter = self.code, self.emitter
        results: list[Value] = []
        position = 0
        for r in stage.reductions:
            lanes = lanes_of(carried[position].type)
            body = code.splat(emitter.value(r.body), lanes)
            if r.kind.startswith("arg"):
                best, best_index = carried[position : position + 2]
                index = emitter.lane_dim(r.index) if lanes > 1 else code.value(emitter.dim(r.index))
                better = _better(code, r, body, best, best_index)
                results += [code.select(better, body, best), code.select(better, index, best_index)]
                position += 2
                continue
            if self.lane in stage.loops and emitter.mask is not None:
                body = code.select(emitter.mask, body, identities(code, r, lanes)[0])
            results.append(math.apply(code, REDUCERS[r.kind], r.dtype, carried[position], body))
            position += 1
        for write in stage.writes:
            emitter.store(write.buffer, write.offset, write.value)
        return results


def _sums(stage: Stage) -> list[Reduction | None]:
    """For each accumulator of a stage, the float sum that it belongs to."""
    return [
        r if partial_sums.is_float_sum(r) else None
        for r in stage.reductions
        for _ in range(2 if r.kind.startswith("arg") else 1)
    ]


def identities(code: Function, reduction: Reduction, lanes: int) -> list[Value]:
    """The accumulator's start: the identity; for arg kinds an index of -1, which any element replaces."""
    type_ = vector(lanes, conversions.element_type(reduction.dtype))
    if reduction.kind.startswith("arg"):
        return [code.const(0, type_), code.const(-1, vector(lanes, "i64"))]
    return [code.const(identity(reduction.kind, reduction.dtype), type_)]


def _better(code: Function, reduction: Reduction, body: Value, best: Value, best_index: Value) -> Value:
    """True if body replaces best: it is more extreme, or (last) equally extreme, or the first NaN, or the first at all."""
    predicate = {"argmax": "gt", "argmin": "lt"}[reduction.kind]
    predicate = {"gt": "ge", "lt": "le"}[predicate] if reduction.last else predicate
    better = math.apply(code, predicate, reduction.dtype, body, best)
    if reduction.dtype.startswith(("float", "bfloat")):
        nan, had = (math.apply(code, "isnan", reduction.dtype, v) for v in (body, best))
        fresh = (
            nan
            if reduction.last
            else code.op("arith.andi", nan, code.op("arith.xori", had, code.const(True, had.type)))
        )
        kept = code.op("arith.andi", better, code.op("arith.xori", had, code.const(True, had.type)))
        better = code.op("arith.ori", kept, fresh)
    return code.op("arith.ori", better, code.cmp("slt", best_index, code.const(0, best_index.type)))


def across(code: Function, reduction: Reduction, value: Value) -> Value:
    """Combines the lower with the upper lanes repeatedly until one lane is left."""
    lanes, element = lanes_of(value.type), element_of(value.type)
    while lanes > 1:
        half = lanes // 2
        type_ = vector(half, element) if half > 1 else f"vector<1x{element}>"
        parts = [
            code.pure(
                f"vector.extract_strided_slice {value} {{offsets = [{at}], sizes = [{half}], strides = [1]}} : "
                f"vector<{lanes}x{element}> to {type_}",
                type_,
            )
            for at in (0, half)
        ]
        if half == 1:
            parts = [code.pure(f"vector.extract {p}[0] : {element} from {p.type}", element) for p in parts]
        value = math.apply(code, REDUCERS[reduction.kind], reduction.dtype, *parts)
        lanes = half
    return value
