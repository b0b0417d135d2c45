"""Prints loop kernels: parallel loops over an index range, with one of them (or the innermost reduction) vectorised.

`emit` is the entry point; `heuristics/` chooses the vectorised loop and the work of a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import partial_sums
from burn.codegen.cpu.counting import following, split
from burn.codegen.cpu.head import open_kernel
from burn.codegen.cpu.heuristics.lanes import choose_lane, lanes_for, used_lanes
from burn.codegen.cpu.heuristics.launches import chunk_for
from burn.codegen.cpu.heuristics.scans import rows_together
from burn.codegen.cpu.heuristics.transposes import choose_across, crosswise, interleaved_rows
from burn.codegen.cpu.heuristics.windows import cached_lanes
from burn.codegen.cpu.reductions import Reductions, identities
from burn.codegen.cpu.scans import Rows, Scan, print_rows, print_scan
from burn.codegen.cpu.shuffles import interleaved, transposed
from burn.codegen.cpu.spans import mask_of
from burn.codegen.cpu.target import Target
from burn.codegen.cpu.uniform import uniform
from burn.codegen.cpu.window_prefetch import fetch
from burn.codegen.cpu.window_sums import Sums, all_inside
from burn.codegen.cpu.windows import AdjacentWindows, Pair
from burn.codegen.host.emit import Int, Value, vector
from burn.dialect.dims import Dim, Expr, LoopVar, atoms, ceildiv, coefficient, product
from burn.dialect.types import DTYPES
from burn.kernels.body import Fetched, Load, LoopKernel, Stage, walk
from burn.kernels.parameters import argument_names
from burn.kernels.rewrite import kernel_loops


@dataclass(frozen=True)
class Schedule:
    """Decisions made while sizes are numbers:

    - `lane`, `chunk`, `even`: the vectorised loop, how a launch cuts it, and if whole vectors cover it
    - `cuts`: how the loops of each stage are split into partial sums
    - `across`: the loop that in-register transposes combine with the lanes ("" for none)
    - `adjacent`: the loop whose neighbouring iterations compute their windows together
    - `interleaves`: rows along `across` are interleaved, one vector for each
    - `step`: the lanes of a vector that are used, if those of a span are the same then (spans.py); 0 for all
    - `left`: the lanes of the last vector, if they are known to be fewer
    - `row`: chunks are lanes of all windows of a row (`adjacent`), one chunk after the other
    - `scan`: the stage is a scan (scans.py), and `rows` says how rows along `across` are scanned together
    """

    lane: str
    lanes: int
    chunk: int | None
    even: bool
    cuts: tuple[tuple[partial_sums.Cut, ...], ...]
    across: str = ""
    adjacent: AdjacentWindows | None = None
    interleaves: bool = False
    step: int = 0
    left: int = 0
    row: bool = False
    scan: bool = False
    rows: Rows | None = None

    @staticmethod
    def of(kernel: LoopKernel, target: Target) -> Schedule:
        # vectors need a second body for the remainder
        return Schedule.along(kernel, None if target.compact else choose_lane(kernel, target), target)

    @staticmethod
    def along(kernel: LoopKernel, lane: LoopVar | None, target: Target, transposes: bool = True) -> Schedule:
        """The schedule that vectorises this loop. Without `transposes` there are no in-register transposes."""
        together = rows_together(kernel, target) if lane is None and transposes else None
        lanes = 1 if lane is None else lanes_for(kernel, target, lane)
        cuts = tuple(partial_sums.cuts(stage, lane, lanes) for stage in kernel.stages)
        if together is not None:
            rows, lanes = together
            return Schedule("", lanes, None, True, cuts, rows.row, scan=True, rows=rows)
        scan = Scan.of(kernel) is not None
        if lane is None:
            return Schedule("", 1, None, True, cuts, scan=scan)
        chunk = chunk_for(kernel, lane, target.costs) if lane in kernel.parallel else None
        even = isinstance(lane.extent, int) and lane.extent % lanes == 0
        several = interleaved_rows(kernel, lane, lanes)
        if several is not None:
            return Schedule(lane.name, lanes, None, True, cuts, several.name, interleaves=True)
        across = choose_across(kernel, lane, lanes) if transposes else None
        if across is None:
            if lane not in kernel.parallel:
                return Schedule(lane.name, lanes, chunk, even, cuts)
            step = used_lanes(kernel, lane, lanes)
            adjacent = AdjacentWindows.of(kernel, lane, lanes, target, step)
            if step == lanes and adjacent is not None and adjacent.reads_lines(kernel, lane, target):
                step = lanes = 2 * lanes
                adjacent = AdjacentWindows.of(kernel, lane, lanes, target, step, 2)
            left = lane.extent % step if isinstance(lane.extent, int) else 0
            even, chunk = isinstance(lane.extent, int) and not left, chunk - chunk % step if chunk else chunk
            row = False
            if adjacent is not None and adjacent.block:
                chunk = step  # few results with long sums: threads share them
            elif adjacent is not None and chunk is None and isinstance(lane.extent, int):
                bytes_ = DTYPES[kernel.stages[0].reductions[0].dtype].size
                chunk = cached_lanes(lane.extent, adjacent.elements(kernel), bytes_, step)
                row = chunk is not None
            return Schedule(
                lane.name,
                lanes,
                chunk,
                even,
                cuts,
                adjacent=adjacent,
                step=step % lanes,
                left=left,
                row=row,
                scan=scan,
            )
        loop, count = across
        return Schedule(lane.name, count, chunk, even or lane.extent == count, cuts, loop.name)

    def count(self, kernel: LoopKernel) -> Dim:
        """Iterations of a launch."""
        pieces: Dim = 1
        outer = [self.steps(v) for v in kernel.parallel if v.name != self.lane]
        for loop in kernel.parallel:
            if loop.name == self.lane and self.chunk:
                pieces = ceildiv(loop.extent, self.chunk)
        return product(outer) * pieces

    def steps(self, loop: LoopVar) -> Dim:
        """The number of steps in which a launch iterates over a loop."""
        if self.adjacent is not None and loop.name == self.adjacent.loop:
            return ceildiv(loop.extent, self.adjacent.count)
        if self.adjacent is not None and self.adjacent.pair is not None and loop.name == self.adjacent.pair.loop:
            return ceildiv(loop.extent, 2)
        return ceildiv(loop.extent, self.lanes) if loop.name == self.across else loop.extent


def emit(kernel: LoopKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: LoopKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        self.kernel, self.schedule = kernel, schedule
        self.lane = next((v for v in kernel_loops(kernel) if v.name == schedule.lane), None)
        self.lanes = schedule.lanes
        self.scan = Scan.in_form(kernel.stages[0]) if schedule.scan else None
        self.across = next((v for v in kernel.parallel if v.name == schedule.across), None)
        self.crosswise: list[Load] = []
        if self.across is not None and self.lane is not None and not schedule.interleaves:
            self.crosswise = crosswise(kernel, self.lane)[self.across]
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.emitter.lane, self.emitter.lanes = self.lane, self.lanes
        self.step = schedule.step or self.lanes
        self.emitter.step = self.step if self.lane in kernel.parallel and self.lanes > 1 and not schedule.across else 0
        self.reductions = Reductions(self.code, self.emitter, kernel.parallel, self.lane, self.lanes, schedule.even)

    def print(self) -> str:
        code, emitter, kernel, chunk = self.code, self.emitter, self.kernel, self.schedule.chunk
        begin, end = code.arguments[2:]
        outer = [v for v in kernel.parallel if v != self.lane]
        chunks: Dim = ceildiv(self.lane.extent, chunk) if chunk and self.lane else 1
        sizes = [emitter.dim(self.schedule.steps(v)) for v in outer]
        at = self._chunks_at(outer)
        if chunks != 1:
            sizes.insert(at, emitter.dim(chunks))
        with code.for_(begin, end, 1, split(code, begin, sizes)) as flat, emitter.scope():
            indices = list(flat.carried)
            flat.yield_(*following(code, indices, sizes))
            piece: Int = 0 if chunks == 1 else indices.pop(at)
            emitter.bindings.update(zip(outer, indices, strict=True))
            if self.lane is not None and self.lane in kernel.parallel:
                start = code.mul(piece, chunk) if chunks != 1 and chunk else 0
                extent = emitter.dim(self.lane.extent)
                stop = code.min(code.add(start, chunk), extent) if chunks != 1 and chunk else extent
                if self.across is not None and self.schedule.interleaves:
                    self._interleave(self.across)
                elif self.across is not None:
                    self._transposed_blocks(self.across, start, stop)
                elif self.schedule.adjacent is not None and self.schedule.adjacent.pair is not None:
                    self._pairs(self.schedule.adjacent, self.schedule.adjacent.pair, start, stop)
                elif self.schedule.adjacent is not None:
                    self._windows(self.schedule.adjacent, start, stop)
                else:
                    with self._hoisted(start, stop):
                        self._lanes(start, stop, self._stages)
            elif self.schedule.rows is not None:
                assert self.scan is not None and self.across is not None
                print_rows(self.scan, self.schedule.rows, self.across, self.lanes, code, emitter)
            else:
                self._stages()
        code.return_()
        return code.text()

    def _chunks_at(self, outer: Sequence[LoopVar]) -> int:
        """The position of the loop over chunks among these: the last, or outside the windows of a row."""
        adjacent = self.schedule.adjacent
        if not self.schedule.row or adjacent is None:
            return len(outer)
        return next(number for number, v in enumerate(outer) if v.name == adjacent.loop)

    @contextmanager
    def _hoisted(self, start: Int, stop: Int) -> Iterator[None]:
        """Before the code inside, computes what is the same for all lanes start..stop. If there are no lanes, nothing runs."""
        code, emitter = self.code, self.emitter
        found = list(uniform(self.kernel, emitter.varies_scalar))
        if not found:
            yield
            return
        with code.if_(code.cmp("slt", code.value(start), code.value(stop))), emitter.scope():
            for each in found:
                if isinstance(each, Fetched):
                    emitter.dim(Expr.of(each))
                else:
                    emitter.value(each)
            yield

    def _lanes(self, start: Int, stop: Int, body: Callable[[], None]) -> None:
        """Runs body for lanes start..stop in whole vectors, then once under a mask for the remainder."""
        code, emitter, lanes = self.code, self.emitter, self.lanes
        assert self.lane is not None
        if lanes == 1:
            with code.for_(start, stop) as loop, emitter.scope():
                emitter.bindings[self.lane] = loop.iv
                body()
            return
        length = code.sub(stop, start)
        step = self.step if self.lane in self.kernel.parallel else lanes
        whole = code.add(start, code.mul(code.udiv(length, step), step))
        if not (isinstance(whole, int) and isinstance(start, int) and whole == start):
            used = None if step == lanes else mask_of(code, step, lanes)
            with code.for_(start, whole, step) as loop, emitter.under(used, None if step == lanes else step):
                emitter.bindings[self.lane] = loop.iv
                body()
        if self.schedule.even:
            return
        with ExitStack() as stack:
            if not isinstance(length, int):
                stack.enter_context(code.if_(code.cmp("slt", whole, stop)))
            stack.enter_context(emitter.scope())
            emitter.bindings[self.lane] = whole
            if self.schedule.left:
                mask, active = mask_of(code, self.schedule.left, lanes), self.schedule.left
            else:
                left = code.splat(code.value(code.sub(stop, whole)), lanes)
                mask, active = code.cmp("slt", code.lane_ids(lanes), left), None
            with emitter.under(mask, active):
                emitter.bindings[self.lane] = whole
                body()

    def _transposed_blocks(self, across: LoopVar, start: Int, stop: Int) -> None:
        """Runs the stages for lanes start..stop, for up to as many iterations of `across` as there are lanes."""
        code, emitter, lanes = self.code, self.emitter, self.lanes
        first, extent = code.mul(emitter.bindings[across], lanes), emitter.dim(across.extent)
        last = code.add(first, lanes)

        def rows() -> None:
            with code.for_(first, code.min(last, extent)) as loop, emitter.scope():
                emitter.bindings[across] = loop.iv
                self._stages()

        def square() -> None:
            if emitter.mask is not None and not self._is_short():
                rows()
                return
            with emitter.scope():
                emitter.bindings[across] = first
                transposed_loads = [(load, self._transposed_lanes(load)) for load in self.crosswise]
            for row in range(lanes):
                covered = row < lanes - 1 and self._is_covered(across)
                with code.scope(), emitter.under(None if covered else emitter.mask):
                    emitter.bindings[across] = code.add(first, row)
                    emitter.remember((load, vectors[row]) for load, vectors in transposed_loads)
                    self._stages()

        with code.if_(code.cmp("sle", last, extent)), emitter.scope():
            self._lanes(start, stop, square)
        with code.else_(), emitter.scope():
            self._lanes(start, stop, rows)

    def _interleave(self, across: LoopVar) -> None:
        """Copies one vector of every row; the last one ends at the rows' end, and may overlap the previous one."""
        code, emitter, lane = self.code, self.emitter, self.lane
        ((write,),) = (stage.writes for stage in self.kernel.stages)
        load = write.value
        assert lane is not None and isinstance(lane.extent, int) and isinstance(load, Load)
        last = code.sub(emitter.dim(across.extent), self.lanes)
        emitter.bindings[across] = code.min(code.mul(emitter.bindings[across], self.lanes), last)
        type_ = vector(self.lanes, conversions.element_type(load.dtype))
        rows: list[Value] = []
        for row in range(lane.extent):
            with emitter.scope():
                emitter.bindings[lane] = row
                rows.append(code.load(emitter.pointers[load.buffer], emitter.dim(load.offset), type_))
        emitter.bindings[lane] = 0
        start = emitter.dim(write.offset)
        for number, values in enumerate(interleaved(code, rows)):
            code.store(values, emitter.pointers[write.buffer], code.add(start, number * self.lanes))

    def _pairs(self, several: AdjacentWindows, pair: Pair, start: Int, stop: Int) -> None:
        """Runs the stages for lanes start..stop, for a group of windows in each of two rows; the last row may be alone."""
        code, emitter = self.code, self.emitter
        (row,) = (v for v in self.kernel.parallel if v.name == pair.loop)
        first = code.mul(emitter.bindings[row], 2)
        with emitter.scope():
            emitter.bindings[row] = first
            if pair.even:
                self._windows(several, start, stop, row)
                return
            with code.if_(code.cmp("slt", code.add(first, 1), emitter.dim(row.extent))), emitter.scope():
                self._windows(several, start, stop, row)
            with code.else_(), emitter.scope():
                self._windows(several, start, stop)

    def _windows(self, several: AdjacentWindows, start: Int, stop: Int, row: LoopVar | None = None) -> None:
        """Runs the stages for lanes start..stop, for a group of iterations that compute their windows together, or the
        remaining ones. row: a loop; its current iteration and the next are computed."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        (loop,) = (v for v in kernel.parallel if v.name == several.loop)
        first, extent = code.mul(emitter.bindings[loop], several.count), emitter.dim(loop.extent)
        last = code.add(first, several.count)
        upper = emitter.bindings[row] if row is not None else 0

        def each() -> None:
            with code.for_(first, code.min(last, extent)) as each, emitter.scope():
                emitter.bindings[loop] = each.iv
                if row is None:
                    self._lanes(start, stop, self._stages)
                    return
                with code.for_(upper, code.add(upper, 2)) as rows, emitter.scope():
                    emitter.bindings[row] = rows.iv
                    self._lanes(start, stop, self._stages)

        def together(inside: bool = False) -> None:
            stage, *others = kernel.stages
            initial = [identities(code, r, self.lanes)[0] for r in stage.reductions]
            if several.fetches:
                fetch(several, kernel, loop, first, emitter, row)
            for number, values in enumerate(Sums(several, loop, stage, first, emitter, inside, row).values(initial)):
                below, along = divmod(number, several.count)
                index = code.add(first, along)
                there = nullcontext() if along == 0 or several.even else code.if_(code.cmp("slt", index, extent))
                with there, emitter.scope():
                    emitter.bindings[loop] = index
                    if row is not None:
                        emitter.bindings[row] = code.add(upper, below)
                    emitter.reduced |= {r.name: value for r, value in zip(stage.reductions, values, strict=True)}
                    emitter.lanes_changed()
                    for other in others:
                        self._write(other)

        def all_lanes() -> None:
            if not several.inner:
                self._lanes(start, stop, together)
                return
            with code.if_(all_inside(several, loop, kernel.stages[0], first, emitter, row)), emitter.scope():
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
        """True if one masked vector holds all lanes."""
        assert self.lane is not None
        return isinstance(self.lane.extent, int) and self.lane.extent < self.lanes

    def _is_covered(self, across: LoopVar) -> bool:
        """True if the excess lanes of a row overwrite only the start of the next row, which is written later. Masked
        stores take many times as long. All loads precede the stores."""
        assert self.lane is not None
        nodes = list(walk(*(scalar for stage in self.kernel.stages for scalar in stage.scalars)))
        if not self._is_short() or any(isinstance(n, Load) and n not in self.crosswise for n in nodes):
            return False
        offsets = [write.offset for stage in self.kernel.stages for write in stage.writes]
        return all(
            coefficient(offset, self.lane) == 1 and coefficient(offset, across) == self.lane.extent
            for offset in offsets
        )

    def _transposed_lanes(self, load: Load) -> list[Value]:
        """The loaded lanes for each row of a block: loads columns and transposes them. Lanes past the end repeat the
        last column. If rows lie in memory in the reverse order, a column begins at the last one."""
        code, emitter, lanes = self.code, self.emitter, self.lanes
        assert self.lane is not None and self.across is not None
        forward = coefficient(load.offset, self.across) == 1
        type_ = vector(lanes, conversions.element_type(load.dtype))
        vectors: list[Value] = []
        index = emitter.bindings[self.lane]
        for lane in range(lanes):
            with emitter.scope():
                there = (
                    min(lane, self.lane.extent - 1) if isinstance(self.lane.extent, int) and self._is_short() else lane
                )
                emitter.bindings[self.lane] = code.add(index, there)
                if not forward:
                    emitter.bindings[self.across] = code.add(emitter.bindings[self.across], lanes - 1)
                vectors.append(code.load(emitter.pointers[load.buffer], emitter.dim(load.offset), type_))
        rows = transposed(code, vectors)
        return rows if forward else rows[::-1]

    def _stages(self) -> None:
        for stage, cuts in zip(self.kernel.stages, self.schedule.cuts, strict=True):
            if stage.reductions:
                self.reductions.print(stage, cuts)
            elif self.scan is not None:
                print_scan(self.scan, self.code, self.emitter)
            else:
                self._write(stage)

    def _write(self, stage: Stage) -> None:
        def body() -> None:
            if stage.order == "parallel":  # a buffer that is written may also be read at the same index
                for write in stage.writes:
                    self.emitter.prepare(write.offset, write.value)
            for write in stage.writes:
                self.emitter.store(write.buffer, write.offset, write.value)

        self._nest(stage.loops, body, [a for w in stage.writes for a in atoms(w.offset) if isinstance(a, Fetched)])

    def _nest(self, loops: Sequence[LoopVar], body: Callable[[], object], fetched: Sequence[Fetched]) -> None:
        """fetched: the indices that data determines. Those of a vectorised loop are the same for its iterations."""
        code, emitter = self.code, self.emitter
        if not loops:
            with emitter.scope():
                body()
            return
        first, rest = loops[0], loops[1:]
        if first == self.lane:
            extent = emitter.dim(first.extent)
            with code.if_(code.cmp("slt", 0, extent)) if fetched else nullcontext(), emitter.scope():
                for atom in fetched:
                    emitter.dim(Expr.of(atom))
                self._lanes(0, extent, lambda: self._nest(rest, body, fetched))
            return
        with code.for_(0, emitter.dim(first.extent)) as loop, emitter.scope():
            emitter.bindings[first] = loop.iv
            self._nest(rest, body, fetched)
