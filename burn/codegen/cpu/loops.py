"""Prints loop kernels: parallel loops over an index range, one of them (or the innermost reduction) vectorised.

`emit` is the entry point; `heuristics/` says which loop becomes the lanes and how work is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math, sums
from burn.codegen.cpu.counting import following, split
from burn.codegen.cpu.heuristics.lanes import choose_lane, lanes_for
from burn.codegen.cpu.heuristics.launches import chunk_for
from burn.codegen.cpu.heuristics.squares import choose_across, crosswise, weaves
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.squares import woven
from burn.codegen.cpu.target import Target
from burn.codegen.cpu.windows import Abreast, Sums, all_inside
from burn.codegen.host.emit import PTR, Function, Int, Value, element_of, lanes_of, vector
from burn.dialect.dims import Dim, LoopVar, ceildiv, coefficient, product
from burn.kernels.body import (
    REDUCERS,
    Buffer,
    Load,
    LoopKernel,
    Reduction,
    Stage,
    identity,
    walk,
)
from burn.kernels.parameters import argument_names
from burn.kernels.rewrite import kernel_loops


@dataclass(frozen=True)
class Schedule:
    """What is decided about a kernel while its sizes are numbers: the lanes' loop, how it is cut for a launch, whether
    whole vectors cover it, how the loops of each stage are cut into partial sums, the loop that is taken as many iterations
    at a time as there are lanes, because loads lie along it (or ""), the one whose neighbours sum their windows at once, and
    whether what lies along `across` is woven: vectors of it, one for each iteration of the lanes' loop, are written in turn."""

    lane: str
    lanes: int
    chunk: int | None
    even: bool
    cuts: tuple[tuple[sums.Cut, ...], ...]
    across: str = ""
    abreast: Abreast | None = None
    weaves: bool = False

    @staticmethod
    def of(kernel: LoopKernel, target: Target) -> Schedule:
        # vectors take a body more, for what is left
        return Schedule.along(kernel, None if target.compact else choose_lane(kernel), target)

    @staticmethod
    def along(kernel: LoopKernel, lane: LoopVar | None, target: Target, squares: bool = True) -> Schedule:
        """The one with this loop as the lanes'. Without `squares` none are turned."""
        lanes = 1 if lane is None else lanes_for(kernel, target)
        cuts = tuple(sums.cuts(stage, lane, lanes) for stage in kernel.stages)
        if lane is None:
            return Schedule("", 1, None, True, cuts)
        chunk = chunk_for(kernel, lane) if lane in kernel.parallel else None
        even = isinstance(lane.extent, int) and lane.extent % lanes == 0
        rows = weaves(kernel, lane, lanes)
        if rows is not None:
            return Schedule(lane.name, lanes, None, True, cuts, rows.name, weaves=True)
        across = choose_across(kernel, lane, lanes) if squares else None
        if across is None:
            return Schedule(lane.name, lanes, chunk, even, cuts, abreast=Abreast.of(kernel, lane, lanes, target))
        loop, side = across
        return Schedule(lane.name, side, chunk, even or lane.extent == side, cuts, loop.name)

    def count(self, kernel: LoopKernel) -> Dim:
        """Iterations of a launch."""
        pieces: Dim = 1
        outer = [self.steps(v) for v in kernel.parallel if v.name != self.lane]
        for loop in kernel.parallel:
            if loop.name == self.lane and self.chunk:
                pieces = ceildiv(loop.extent, self.chunk)
        return product(outer) * pieces

    def steps(self, loop: LoopVar) -> Dim:
        """In how many steps a launch goes through a loop."""
        if self.abreast is not None and loop.name == self.abreast.loop:
            return ceildiv(loop.extent, self.abreast.count)
        return ceildiv(loop.extent, self.lanes) if loop.name == self.across else loop.extent


def open_kernel(
    buffers: Sequence[Buffer], sizes: Sequence[str], target: Target, sites: list[str]
) -> tuple[Function, ScalarEmitter]:
    """The function's head: addresses and sizes read from `args`, scratch memory laid out."""
    arguments = [("worker", PTR), ("args", PTR), ("begin", "i64"), ("end", "i64")]
    code = Function("KERNEL", arguments, attributes=target.attributes, internal=True)
    worker, args = code.arguments[:2]
    passed = [i for i, b in enumerate(buffers) if b.role != "scratch"]
    values = {name: code.argument(args, len(passed) + i) for i, name in enumerate(sizes)}
    pointers: dict[int, Value] = {i: code.argument(args, word, PTR) for word, i in enumerate(passed)}
    emitter = ScalarEmitter(code, buffers, [], values, worker, sites)
    offset: Int = 0
    offsets: dict[int, Int] = {}
    for i, buffer in enumerate(buffers):
        if buffer.role == "scratch":
            offsets[i] = offset
            size = code.mul(emitter.dim(buffer.elements), conversions_size(buffer.dtype))
            offset = code.add(offset, code.mul(code.udiv(code.add(size, 63 + 64), 64), 64))
    if offsets:
        base = scratch(code, worker, offset)
        pointers |= {i: code.gep(base, at, "i8") for i, at in offsets.items()}
    emitter.pointers = [pointers[i] for i in range(len(buffers))]
    return code, emitter


def scratch(code: Function, worker: Value, size: Int) -> Value:
    """A kernel's scratch memory; the kernel ends where there is none left."""
    memory = code.call("burn_rt_scratch", [worker, code.value(size)], PTR)
    assert memory is not None
    code.return_if(code.is_null(memory))
    return memory


def conversions_size(dtype: str) -> int:
    from burn.dialect.types import DTYPES

    return DTYPES[dtype].size


def emit(kernel: LoopKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: LoopKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        self.kernel, self.schedule = kernel, schedule
        self.lane = next((v for v in kernel_loops(kernel) if v.name == schedule.lane), None)
        self.lanes = schedule.lanes
        self.across = next((v for v in kernel.parallel if v.name == schedule.across), None)
        found = crosswise(kernel, self.lane) if self.across and self.lane else {}
        self.crosswise = found[self.across] if self.across else []
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.emitter.lane, self.emitter.lanes = self.lane, self.lanes

    def print(self) -> str:
        code, emitter, kernel, chunk = self.code, self.emitter, self.kernel, self.schedule.chunk
        begin, end = code.arguments[2:]
        outer = [v for v in kernel.parallel if v != self.lane]
        chunks: Dim = ceildiv(self.lane.extent, chunk) if chunk and self.lane else 1
        sizes = [emitter.dim(n) for n in (*(self.schedule.steps(v) for v in outer), chunks)]
        sizes = sizes[:-1] if chunks == 1 else sizes
        with code.for_(begin, end, 1, split(code, begin, sizes)) as flat, emitter.scope():
            places = flat.carried
            flat.yield_(*following(code, places, sizes))
            emitter.places.update(zip(outer, places, strict=False))
            piece: Int = 0 if chunks == 1 else places[-1]
            if self.lane is not None and self.lane in kernel.parallel:
                start = code.mul(piece, chunk) if chunks != 1 and chunk else 0
                extent = emitter.dim(self.lane.extent)
                stop = code.min(code.add(start, chunk), extent) if chunks != 1 and chunk else extent
                if self.across is not None and self.schedule.weaves:
                    self._weave(self.across)
                elif self.across is not None:
                    self._squares(self.across, start, stop)
                elif self.schedule.abreast is not None:
                    self._windows(self.schedule.abreast, start, stop)
                else:
                    self._lanes(start, stop, self._stages)
            else:
                self._stages()
        code.return_()
        return code.text()

    def _lanes(self, start: Int, stop: Int, body: Callable[[], None]) -> None:
        """Runs body for lanes start..stop in whole vectors, then once more under a mask for what is left."""
        code, emitter, lanes = self.code, self.emitter, self.lanes
        assert self.lane is not None
        if lanes == 1:
            with code.for_(start, stop) as loop, emitter.scope():
                emitter.places[self.lane] = loop.iv
                body()
            return
        length = code.sub(stop, start)
        whole = code.add(start, code.mul(code.udiv(length, lanes), lanes))
        if not (isinstance(whole, int) and isinstance(start, int) and whole == start):
            with code.for_(start, whole, lanes) as loop, emitter.scope():
                emitter.places[self.lane] = loop.iv
                body()
        if self.schedule.even:
            return
        with ExitStack() as stack:
            if not isinstance(length, int):
                stack.enter_context(code.if_(code.cmp("slt", whole, stop)))
            stack.enter_context(emitter.scope())
            emitter.places[self.lane] = whole
            left = code.splat(code.value(code.sub(stop, whole)), lanes)
            with emitter.under(code.cmp("slt", code.lane_ids(lanes), left)):
                emitter.places[self.lane] = whole
                body()

    def _squares(self, across: LoopVar, start: Int, stop: Int) -> None:
        """Runs the stages for lanes start..stop at as many places of `across` as there are lanes, or as are left."""
        code, emitter, lanes = self.code, self.emitter, self.lanes
        first, extent = code.mul(emitter.places[across], lanes), emitter.dim(across.extent)
        last = code.add(first, lanes)

        def rows() -> None:
            with code.for_(first, code.min(last, extent)) as loop, emitter.scope():
                emitter.places[across] = loop.iv
                self._stages()

        def square() -> None:
            if emitter.mask is not None and not self._is_short():
                rows()
                return
            with emitter.scope():
                emitter.places[across] = first
                turned = [(load, self._turned(load)) for load in self.crosswise]
            for row in range(lanes):
                covered = row < lanes - 1 and self._is_covered(across)
                with code.scope(), emitter.under(None if covered else emitter.mask):
                    emitter.places[across] = code.add(first, row)
                    emitter.know((load, vectors[row]) for load, vectors in turned)
                    self._stages()

        with code.if_(code.cmp("sle", last, extent)), emitter.scope():
            self._lanes(start, stop, square)
        with code.else_(), emitter.scope():
            self._lanes(start, stop, rows)

    def _weave(self, across: LoopVar) -> None:
        """Copies a vector's worth of every row; the last one ends where the rows do, and may lie over the one before."""
        code, emitter, lane = self.code, self.emitter, self.lane
        ((write,),) = (stage.writes for stage in self.kernel.stages)
        load = write.value
        assert lane is not None and isinstance(lane.extent, int) and isinstance(load, Load)
        last = code.sub(emitter.dim(across.extent), self.lanes)
        emitter.places[across] = code.min(code.mul(emitter.places[across], self.lanes), last)
        type_ = vector(self.lanes, conversions.element_type(load.dtype))
        rows: list[Value] = []
        for row in range(lane.extent):
            with emitter.scope():
                emitter.places[lane] = row
                rows.append(code.load(emitter.pointers[load.buffer], emitter.dim(load.offset), type_))
        emitter.places[lane] = 0
        start = emitter.dim(write.offset)
        for number, values in enumerate(woven(code, rows)):
            code.store(values, emitter.pointers[write.buffer], code.add(start, number * self.lanes))

    def _windows(self, several: Abreast, start: Int, stop: Int) -> None:
        """Runs the stages for lanes start..stop at as many places as sum their windows at once, or as are left."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        (loop,) = (v for v in kernel.parallel if v.name == several.loop)
        first, extent = code.mul(emitter.places[loop], several.count), emitter.dim(loop.extent)
        last = code.add(first, several.count)

        def each() -> None:
            with code.for_(first, code.min(last, extent)) as places, emitter.scope():
                emitter.places[loop] = places.iv
                self._lanes(start, stop, self._stages)

        def together(inside: bool = False) -> None:
            stage, *others = kernel.stages
            initial = [_initial(code, r, self.lanes)[0] for r in stage.reductions]
            for number, values in enumerate(Sums(several, loop, stage, first, emitter, inside).values(initial)):
                place = code.add(first, number)
                there = nullcontext() if number == 0 or several.even else code.if_(code.cmp("slt", place, extent))
                with there, emitter.scope():
                    emitter.places[loop] = place
                    emitter.reduced |= {r.name: value for r, value in zip(stage.reductions, values, strict=True)}
                    emitter._varies.clear()
                    for other in others:
                        self._write(other)

        def all_lanes() -> None:
            if not several.inner:
                self._lanes(start, stop, together)
                return
            with code.if_(all_inside(several, loop, kernel.stages[0], first, emitter)), emitter.scope():
                self._lanes(start, stop, partial(together, inside=True))
            with code.else_(), emitter.scope():
                self._lanes(start, stop, together)

        if several.even or several.masked:
            all_lanes()
            return
        with code.if_(code.cmp("sle", last, extent)), emitter.scope():
            all_lanes()
        with code.else_(), emitter.scope():
            each()

    def _is_short(self) -> bool:
        """Whether one vector, under a mask, is all that there is of the lanes."""
        assert self.lane is not None
        return isinstance(self.lane.extent, int) and self.lane.extent < self.lanes

    def _is_covered(self, across: LoopVar) -> bool:
        """Whether what a row of a square writes past its own lanes is where the next row begins, which is written later: stores
        under masks take many times as long as others. All that is read was read before."""
        assert self.lane is not None
        nodes = list(walk(*(scalar for stage in self.kernel.stages for scalar in stage.scalars)))
        if not self._is_short() or any(isinstance(n, Load) and n not in self.crosswise for n in nodes):
            return False
        offsets = [write.offset for stage in self.kernel.stages for write in stage.writes]
        return all(
            coefficient(offset, self.lane) == 1 and coefficient(offset, across) == self.lane.extent
            for offset in offsets
        )

    def _turned(self, load: Load) -> list[Value]:
        """What the lanes load, for each of the rows of a square: columns are loaded and turned, halves of vectors, then quarters,
        changing places. Of lanes that there are not, the last one's column is loaded again."""
        code, emitter, lanes = self.code, self.emitter, self.lanes
        assert self.lane is not None
        type_ = vector(lanes, conversions.element_type(load.dtype))
        vectors: list[Value] = []
        place = emitter.places[self.lane]
        for lane in range(lanes):
            with emitter.scope():
                there = (
                    min(lane, self.lane.extent - 1) if isinstance(self.lane.extent, int) and self._is_short() else lane
                )
                emitter.places[self.lane] = code.add(place, there)
                vectors.append(code.load(emitter.pointers[load.buffer], emitter.dim(load.offset), type_))
        half = lanes // 2
        while half:
            low = [i + lanes * ((i & half) > 0) - half * ((i & half) > 0) for i in range(lanes)]
            high = [i + half + lanes * ((i & half) > 0) - half * ((i & half) > 0) for i in range(lanes)]
            for i in (i for i in range(lanes) if not i & half):
                a, b = vectors[i], vectors[i + half]
                vectors[i], vectors[i + half] = (
                    code.raw(f"vector.shuffle {a}, {b} {picked} : {type_}, {type_}", type_) for picked in (low, high)
                )
            half //= 2
        return vectors

    def _stages(self) -> None:
        for stage, cuts in zip(self.kernel.stages, self.schedule.cuts, strict=True):
            if stage.reductions:
                self._reduce(stage, cuts)
            else:
                self._write(stage)

    def _write(self, stage: Stage) -> None:
        def body() -> None:
            if stage.order == "parallel":  # a buffer that is written may be one that is read, at the same place
                for write in stage.writes:
                    self.emitter.prepare(write.offset, write.value)
            for write in stage.writes:
                self.emitter.store(write.buffer, write.offset, write.value)

        self._nest(stage.loops, body)

    def _nest(self, loops: Sequence[LoopVar], body: Callable[[], object]) -> None:
        code, emitter = self.code, self.emitter
        if not loops:
            with emitter.scope():
                body()
            return
        first, rest = loops[0], loops[1:]
        if first == self.lane:
            self._lanes(0, emitter.dim(first.extent), lambda: self._nest(rest, body))
            return
        with code.for_(0, emitter.dim(first.extent)) as loop, emitter.scope():
            emitter.places[first] = loop.iv
            self._nest(rest, body)

    # ---- reductions ----------------------------------------------------------------------------------------------------
    def _reduce(self, stage: Stage, cuts: Sequence[sums.Cut]) -> None:
        """Carries accumulators through the stage's loops. They are vectors when the lane is one of the loops (combined across
        lanes at the end) or a parallel loop (one result a lane)."""
        code, emitter = self.code, self.emitter
        lane_inside = self.lane in stage.loops
        lanes = self.lanes if lane_inside or self.lane in self.kernel.parallel else 1
        initial = [v for r in stage.reductions for v in _initial(code, r, lanes)]
        final = self._reduce_nest(stage, tuple(zip(stage.loops, cuts, strict=True)), initial)
        position = 0
        for r in stage.reductions:
            width = 2 if r.kind.startswith("arg") else 1
            result = final[position + width - 1]
            if lane_inside:
                result = across(code, r, result)
            emitter.reduced[r.name] = result
            position += width
        emitter._varies.clear()

    def _reduce_nest(self, stage: Stage, nest: Sequence[tuple[LoopVar, sums.Cut]], carried: list[Value]) -> list[Value]:
        """Prints the loops of a nest, each with its cut, and returns the accumulators after them. A loop that is cut forms a
        total of its own, so that the loops around it add up totals."""
        code, emitter = self.code, self.emitter
        if not nest:
            with emitter.scope():
                return self._accumulate(stage, carried)
        (first, cut), rest = nest[0], nest[1:]
        extent = emitter.dim(first.extent)
        step = self.lanes if first == self.lane else 1
        whole = code.mul(code.udiv(extent, step), step)

        def at(place: Int, carried: list[Value]) -> list[Value]:
            with emitter.scope():
                emitter.places[first] = place
                return self._reduce_nest(stage, rest, carried)

        results = self._fresh(stage, carried) if cut else carried
        results = self._blocks(stage, 0, whole, step, cut, results, at)
        if step > 1 and not self.schedule.even:
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
        cut: sums.Cut,
        carried: list[Value],
        at: Callable[[Int, list[Value]], list[Value]],
    ) -> list[Value]:
        """Runs `at` for start..stop, the accumulators carried along; each block of the cut begins its sums afresh."""
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
        """The accumulators with float sums begun at zero."""
        zero = [self.code.const(0, v.type) for v in carried]
        return [z if s else v for v, z, s in zip(carried, zero, _sums(stage), strict=True)]

    def _joined(self, stage: Stage, carried: list[Value], partial: list[Value]) -> list[Value]:
        """The accumulators after a part that began at `_fresh`: its sums are added, all else was carried through it."""
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
                best, place = carried[position : position + 2]
                index = emitter.lane_dim(r.index) if lanes > 1 else code.value(emitter.dim(r.index))
                better = _better(code, r, body, best, place)
                results += [code.select(better, body, best), code.select(better, index, place)]
                position += 2
                continue
            if self.lane in stage.loops and emitter.mask is not None:
                body = code.select(emitter.mask, body, _initial(code, r, lanes)[0])
            results.append(math.apply(code, REDUCERS[r.kind], r.dtype, carried[position], body))
            position += 1
        for write in stage.writes:
            emitter.store(write.buffer, write.offset, write.value)
        return results


def _sums(stage: Stage) -> list[Reduction | None]:
    """For each accumulator of a stage the float sum it belongs to."""
    return [
        r if sums.is_float_sum(r) else None
        for r in stage.reductions
        for _ in range(2 if r.kind.startswith("arg") else 1)
    ]


def _initial(code: Function, reduction: Reduction, lanes: int) -> list[Value]:
    """The accumulator's start: the identity; for arg kinds a place of -1, which anything beats."""
    type_ = vector(lanes, conversions.element_type(reduction.dtype))
    if reduction.kind.startswith("arg"):
        return [code.const(0, type_), code.const(-1, vector(lanes, "i64"))]
    return [code.const(identity(reduction.kind, reduction.dtype), type_)]


def _better(code: Function, reduction: Reduction, body: Value, best: Value, place: Value) -> Value:
    """Whether body takes the place of best: it is more extreme, or (last) as extreme, or the first NaN, or the first at all."""
    want = {"argmax": "gt", "argmin": "lt"}[reduction.kind]
    want = {"gt": "ge", "lt": "le"}[want] if reduction.last else want
    better = math.apply(code, want, reduction.dtype, body, best)
    if reduction.dtype.startswith(("float", "bfloat")):
        nan, had = (math.apply(code, "isnan", reduction.dtype, v) for v in (body, best))
        fresh = (
            nan
            if reduction.last
            else code.op("arith.andi", nan, code.op("arith.xori", had, code.const(True, had.type)))
        )
        kept = code.op("arith.andi", better, code.op("arith.xori", had, code.const(True, had.type)))
        better = code.op("arith.ori", kept, fresh)
    return code.op("arith.ori", better, code.cmp("slt", place, code.const(0, place.type)))


def across(code: Function, reduction: Reduction, value: Value) -> Value:
    """Combines the lanes pairwise: halves against each other until one is left."""
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
