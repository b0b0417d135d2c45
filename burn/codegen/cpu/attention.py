"""Prints attention kernels: a block of rows goes over the keys a block at a time, with the softmax formed on the way.

For each block of keys the scores of some rows are computed as a register tile, and stay in the first-level cache until they
have become weights and have mixed the values. What was mixed before is scaled down when a larger score turns up (Milakov and
Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135). The keys are turned on their side first, a square of lanes at a
time, so that neighbouring scores lie side by side; a row or two read them as they are (`dots`). `emit` is the entry point.
"""

from __future__ import annotations

import math as constants
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import heuristics, math
from burn.codegen.cpu.loops import across, conversions_size, open_kernel
from burn.codegen.cpu.operands import place_rows
from burn.codegen.cpu.squares import transposed
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import PTR, Int, Value, vector
from burn.dialect.dims import Dim, LoopVar, ceildiv, coefficient, product, substitute
from burn.kernels.body import AttentionKernel, Load, Reduction, Scalar
from burn.kernels.parameters import argument_names


@dataclass(frozen=True)
class Schedule:
    """What is decided while sizes are numbers. An iteration takes `rows` rows, `tile` of them in registers at a time beside
    `vectors` vectors of columns (or `key_vectors` of keys), over blocks of `keys` keys."""

    tile: int
    vectors: int
    key_vectors: int
    rows: int
    keys: int
    lanes: int
    dots: bool

    @staticmethod
    def of(kernel: AttentionKernel, target: Target) -> Schedule:
        lanes = target.lanes(conversions_size(kernel.dtype))
        rows = product([v.extent for v in kernel.rows])
        tile, vectors = heuristics.attention_tile(rows, target)
        extent = kernel.key.extent
        key_vectors = 1 if isinstance(extent, int) and extent <= lanes else vectors
        keys = heuristics.attention_keys(extent, key_vectors * lanes)
        dots = isinstance(rows, int) and rows <= heuristics.ATTENTION_DOTS
        return Schedule(tile, vectors, key_vectors, heuristics.attention_rows(rows, tile), keys, lanes, dots)

    def count(self, kernel: AttentionKernel) -> Dim:
        """Iterations of a launch: blocks of rows x batches."""
        blocks = ceildiv(product([v.extent for v in kernel.rows]), self.rows)
        return product([v.extent for v in kernel.batch]) * blocks

    def work(self, kernel: AttentionKernel) -> Dim:
        """Vector operations of one iteration."""
        return kernel.key.extent * (kernel.depth.extent + kernel.column.extent) * max(1, self.rows // 8)


def emit(kernel: AttentionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: AttentionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        self.kernel, self.schedule, self.lanes = kernel, schedule, schedule.lanes
        self.tile, self.vectors = schedule.tile, schedule.vectors
        self.element = conversions.element_type(kernel.dtype)
        self.vector = vector(self.lanes, self.element)
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.row_count = product([v.extent for v in kernel.rows])
        self.depth, self.columns = (self.emitter.dim(v.extent) for v in (kernel.depth, kernel.column))
        self.bounded = kernel.first != 0 or kernel.stop != kernel.key.extent
        self.query_stays = not schedule.dots and _plain(kernel.query, kernel.dtype, kernel.depth)
        self.values_stay = self._side_by_side(kernel.values, kernel.column)
        self.layout()

    def _side_by_side(self, side: Scalar, loop: LoopVar) -> bool:
        """Whether vectors of a side's elements can be loaded as they are."""
        return _plain(side, self.kernel.dtype, loop) and coefficient(side.offset, loop) == 1  # type: ignore[attr-defined]

    def layout(self) -> None:
        """Memory of a thread: keys turned on their side, values and queries where they are converted, scores, what is mixed so
        far, and each row's largest score, sum and last factor."""
        code, schedule = self.code, self.schedule
        self.wide = self.round_up(self.columns, self.vectors * self.lanes)
        deep = self.round_up(self.depth, self.lanes)
        sizes: dict[str, Int] = {
            "keys": 0 if schedule.dots else code.mul(deep, schedule.keys),
            "values": 0 if self.values_stay else code.mul(self.wide, schedule.keys),
            "query": 0 if self.query_stays else code.mul(deep, schedule.rows),
            "scores": self.tile * schedule.keys,
            "mixed": code.mul(self.wide, schedule.rows),
            **dict.fromkeys(("top", "sum", "factor"), schedule.rows),
        }
        end: Int = 0
        starts: dict[str, Int] = {}
        for name, size in sizes.items():
            starts[name] = end
            end = code.add(end, self.round_up(size, 64))
        total = code.mul(end, conversions_size(self.kernel.dtype))
        memory = code.call("burn_rt_scratch", [self.emitter.worker, code.value(total)], PTR)
        assert memory is not None
        self.deep = deep
        self.at = {name: code.gep(memory, start, self.element) for name, start in starts.items()}

    def round_up(self, size: Int, step: int) -> Int:
        return self.code.mul(self.code.udiv(self.code.add(size, step - 1), step), step)

    # ---- the whole -----------------------------------------------------------------------------------------------------
    def print(self) -> str:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        begin, end = code.arguments[2:]
        with code.for_(begin, end) as flat, emitter.scope():
            blocks = emitter.dim(ceildiv(self.row_count, self.schedule.rows))
            block, rest = code.urem(flat.iv, blocks), code.udiv(flat.iv, blocks)
            for position, loop in enumerate(reversed(kernel.batch)):
                n = emitter.dim(loop.extent)
                last = position == len(kernel.batch) - 1
                emitter.places[loop], rest = (rest, 0) if last else (code.urem(rest, n), code.udiv(rest, n))
            self.start = code.mul(block, self.schedule.rows)
            self.last = code.sub(emitter.dim(self.row_count), 1)
            self.here = code.min(self.schedule.rows, code.sub(emitter.dim(self.row_count), self.start))
            self.block()
        code.return_()
        return code.text()

    def block(self) -> None:
        """A block of rows."""
        code, schedule = self.code, self.schedule
        self.clear()
        if not self.query_stays:
            self.stage_query()
        tiles = code.udiv(code.add(self.here, self.tile - 1), self.tile)
        first, stop = self.bounds(0, self.here)
        with code.for_(first, stop, schedule.keys) as keys, self.emitter.scope():
            start, length = keys.iv, code.min(schedule.keys, code.sub(stop, keys.iv))
            if not schedule.dots:
                self.turn_keys(start, length)
            if not self.values_stay:
                self.stage_values(start, length)
            with code.for_(0, tiles) as number, self.emitter.scope():
                row = code.mul(number.iv, self.tile)
                with self.seen(row, start, length):
                    self.step(row, start, length)
        self.finish()

    @contextmanager
    def seen(self, row: Int, start: Int, length: Int) -> Iterator[None]:
        """Skips what is inside where none of a tile's rows may see a key of the block."""
        code = self.code
        if not self.bounded:
            yield
            return
        least, most = self.bounds(row, code.min(self.tile, code.sub(self.here, row)))
        seen = code.op("arith.andi", code.cmp("slt", start, most), code.cmp("slt", least, code.add(start, length)))
        with code.if_(seen), self.emitter.scope():
            yield

    def clear(self) -> None:
        code = self.code
        nothing = code.const(-constants.inf, self.element)
        with code.for_(0, self.schedule.rows) as row:
            code.store(nothing, self.at["top"], row.iv)
            code.store(code.const(0, self.element), self.at["sum"], row.iv)
        with code.for_(0, code.mul(self.wide, self.schedule.rows), self.lanes) as place:
            code.store(code.const(0, self.vector), self.at["mixed"], place.iv)

    def bounds(self, row: Int, count: Int) -> tuple[Int, Int]:
        """The first and the end of the keys that some of a few rows may see."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if not self.bounded:
            return 0, emitter.dim(kernel.key.extent)
        with (
            code.for_(0, count, 1, [code.value(emitter.dim(kernel.key.extent)), code.const(0)]) as loop,
            emitter.scope(),
        ):
            self.place(code.add(row, loop.iv))
            least = code.min(loop.carried[0], emitter.dim(kernel.first))
            most = code.max(loop.carried[1], emitter.dim(kernel.stop))
            loop.yield_(code.value(least), code.value(most))
        return loop.results[0], loop.results[1]

    def place(self, row: Int) -> None:
        """Sets the row loops for a row of the block; one past the last stands for the last."""
        code = self.code
        place_rows(self.emitter, self.kernel.rows, code.min(code.add(self.start, row), self.last))

    def vectors_of(self, loop: LoopVar, start: Int, length: Int, body: Callable[[Int], None]) -> None:
        """Runs `body` for whole vectors of a loop's places, each under the mask of those that are left."""
        code = self.code
        with (
            code.for_(0, length, self.lanes) as place,
            self.emitter.scope(),
            self.lane(loop, code.add(start, place.iv), length, start),
        ):
            body(place.iv)

    @contextmanager
    def lane(self, loop: LoopVar, start: Int, length: Int, first: Int = 0) -> Iterator[None]:
        """Inside, places of a loop from `start` on are evaluated as lanes; those that are not among `length` from `first` on are
        masked off."""
        emitter = self.emitter
        emitter.lane, emitter.lanes = loop, self.lanes
        with emitter.under(self.mask(self.code.sub(start, first), length)):
            emitter.places[loop] = start
            yield
        emitter._varies.clear()
        emitter.lane, emitter.lanes = None, 1

    def mask(self, place: Int, length: Int) -> Value | None:
        """Which lanes from `place` on lie within the length; None where whole vectors cover it."""
        code = self.code
        if isinstance(length, int) and length % self.lanes == 0:
            return None
        return code.cmp("slt", code.lane_ids(self.lanes), code.splat(code.value(code.sub(length, place)), self.lanes))

    # ---- operands ------------------------------------------------------------------------------------------------------
    def stage_query(self) -> None:
        """The block's rows side by side, filled up with zeros."""
        code = self.code
        with code.for_(0, self.schedule.rows) as row, self.emitter.scope():
            self.place(row.iv)
            target = code.gep(self.at["query"], code.mul(row.iv, self.deep), self.element)
            self.vectors_of(self.kernel.depth, 0, self.depth, lambda k: self.stage(self.kernel.query, target, k))

    def stage(self, side: Scalar, target: Value, place: Int) -> None:
        code, emitter = self.code, self.emitter
        value = emitter.wide(side)
        if emitter.mask is not None:
            value = code.select(emitter.mask, value, code.const(0, value.type))
        code.store(value, target, place)

    def stage_values(self, start: Int, length: Int) -> None:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        with code.for_(0, length) as key, emitter.scope():
            emitter.places[kernel.key] = code.add(start, key.iv)
            target = code.gep(self.at["values"], code.mul(key.iv, self.wide), self.element)
            self.vectors_of(kernel.column, 0, self.columns, lambda c: self.stage(kernel.values, target, c))

    def turn_keys(self, start: Int, length: Int) -> None:
        """The keys of a block with the depth as rows: element (k, j) at k * keys + j."""
        code, emitter, kernel, lanes = self.code, self.emitter, self.kernel, self.lanes
        if self._side_by_side(kernel.keys, kernel.depth) and lanes > 1:
            assert isinstance(kernel.keys, Load)
            base = emitter.pointers[kernel.keys.buffer]
            with code.for_(0, length, lanes) as key, emitter.scope():
                rows: list[Value] = []
                for i in range(lanes):
                    emitter.places[kernel.key] = code.add(start, code.min(code.add(key.iv, i), code.sub(length, 1)))
                    offset = emitter.dim(substitute(kernel.keys.offset, {kernel.depth: 0}))
                    rows.append(code.gep(base, offset, self.element))
                with code.for_(0, self.depth, lanes) as place:
                    mask = self.mask(place.iv, self.depth)
                    turned = transposed(code, [code.load(row, place.iv, self.vector, mask) for row in rows])
                    target = code.gep(self.at["keys"], code.mul(place.iv, self.schedule.keys), self.element)
                    for i, row in enumerate(turned):
                        code.store(row, target, code.add(key.iv, i * self.schedule.keys))
            return
        with code.for_(0, self.depth) as place, emitter.scope():
            emitter.places[kernel.depth] = place.iv
            target = code.gep(self.at["keys"], code.mul(place.iv, self.schedule.keys), self.element)
            self.vectors_of(kernel.key, start, length, lambda j: self.stage(kernel.keys, target, j))

    # ---- a tile of rows and a block of keys -------------------------------------------------------------------------------
    def step(self, row: Int, start: Int, length: Int) -> None:
        (self.dot_scores if self.schedule.dots else self.tile_scores)(row, start, length)
        self.weigh(row, start, length)
        self.mix(row, start, length)

    def query_row(self, row: Int) -> tuple[Value, Int]:
        """Where a row of the query begins, and how far apart its elements lie."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if not self.query_stays:
            return code.gep(self.at["query"], code.mul(row, self.deep), self.element), 1
        assert isinstance(kernel.query, Load)
        with emitter.scope():
            self.place(row)
            offset = emitter.dim(substitute(kernel.query.offset, {kernel.depth: 0}))
            step = coefficient(kernel.query.offset, kernel.depth)
            assert step is not None
            return code.gep(emitter.pointers[kernel.query.buffer], offset, self.element), emitter.dim(step)

    def tile_scores(self, row: Int, start: Int, length: Int) -> None:
        code, lanes, keys = self.code, self.lanes, self.schedule.keys
        vectors = self.schedule.key_vectors
        rows = [self.query_row(code.add(row, r)) for r in range(self.tile)]
        zero = [code.const(0, self.vector)] * (self.tile * vectors)
        with code.for_(0, length, vectors * lanes) as panel:
            right = code.gep(self.at["keys"], panel.iv, self.element)
            with code.for_(0, self.depth, 1, zero) as depth:
                lefts = [code.load(left, code.mul(depth.iv, step), self.element) for left, step in rows]
                at = code.mul(depth.iv, keys)
                columns = [code.load(right, code.add(at, v * lanes), self.vector) for v in range(vectors)]
                depth.yield_(*self.multiplied(lefts, columns, depth.carried))
            for place, total in enumerate(depth.results):
                r, v = divmod(place, vectors)
                code.store(total, self.at["scores"], code.add(panel.iv, r * keys + v * lanes))

    def multiplied(self, lefts: list[Value], columns: list[Value], sums: list[Value]) -> list[Value]:
        """rows x columns multiply-adds."""
        code, dtype = self.code, self.kernel.dtype
        return [
            math.apply(code, "fma", dtype, code.splat(left, self.lanes), column, sums[r * len(columns) + v])
            for r, left in enumerate(lefts)
            for v, column in enumerate(columns)
        ]

    def dot_scores(self, row: Int, start: Int, length: Int) -> None:
        """Score by score along the depth, for rows too few to pay for turning the keys."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        rows = [self.query_row(code.add(row, r))[0] for r in range(self.tile)]
        with code.for_(0, length) as key, emitter.scope():
            emitter.places[kernel.key] = code.add(start, key.iv)
            zero = [code.const(0, self.vector)] * self.tile
            with code.for_(0, self.depth, self.lanes, zero) as place, emitter.scope():
                with self.lane(kernel.depth, place.iv, self.depth):
                    column = emitter.wide(kernel.keys)
                    if emitter.mask is not None:
                        column = code.select(emitter.mask, column, code.const(0, column.type))
                lefts = [code.load(left, place.iv, self.vector) for left in rows]
                place.yield_(
                    *(
                        math.apply(code, "fma", kernel.dtype, left, column, total)
                        for left, total in zip(lefts, place.carried, strict=True)
                    )
                )
            for r, total in enumerate(place.results):
                score = across(code, self.reduction("sum"), total)
                code.store(score, self.at["scores"], code.add(key.iv, r * self.schedule.keys))

    def reduction(self, kind: str) -> Reduction:
        return Reduction("", kind, self.kernel.dtype, self.kernel.score)

    def weigh(self, row: Int, start: Int, length: Int) -> None:
        """Scores become weights relative to the largest score so far; what was mixed before gets a factor."""
        code, emitter, kernel, lanes = self.code, self.emitter, self.kernel, self.lanes
        nothing, zero = code.const(-constants.inf, self.vector), code.const(0, self.vector)
        apply = lambda name, *values: math.apply(code, name, kernel.dtype, *values)  # noqa: E731
        with code.for_(0, code.min(self.tile, code.sub(self.here, row))) as r, emitter.scope():
            self.place(code.add(row, r.iv))
            scores = code.gep(self.at["scores"], code.mul(r.iv, self.schedule.keys), self.element)
            with code.for_(0, length, lanes, [nothing]) as place, emitter.scope():
                emitter.accumulator = code.load(scores, place.iv, self.vector)
                with self.lane(kernel.key, code.add(start, place.iv), length, start):
                    score = emitter.wide(kernel.score)
                    if emitter.mask is not None:
                        score = code.select(emitter.mask, score, nothing)
                code.store(score, scores, place.iv)
                place.yield_(apply("max", score, place.carried[0]))
            here = code.add(row, r.iv)
            before = code.load(self.at["top"], here, self.element)
            top = apply("max", across(code, self.reduction("max"), place.results[0]), before)
            hidden = code.cmpf("oeq", top, code.const(-constants.inf, self.element))
            safe = code.select(hidden, code.const(0, self.element), top)
            with code.for_(0, length, lanes, [zero]) as place, emitter.scope():
                score = code.load(scores, place.iv, self.vector)
                weight = apply("exp", apply("sub", score, code.splat(safe, lanes)))
                code.store(weight, scores, place.iv)
                place.yield_(apply("add", place.carried[0], weight))
            factor = apply("exp", apply("sub", before, safe))
            total = apply("mul", code.load(self.at["sum"], here, self.element), factor)
            total = apply("add", total, across(code, self.reduction("sum"), place.results[0]))
            for name, value in (("top", top), ("sum", total), ("factor", factor)):
                code.store(value, self.at[name], here)

    def mix(self, row: Int, start: Int, length: Int) -> None:
        """Adds the block's values times their weights to what the rows have mixed so far."""
        code, lanes = self.code, self.lanes
        source, step = self.value_rows(start)
        width = self.vectors * lanes
        masked = self.values_stay and not (isinstance(self.columns, int) and self.columns % width == 0)
        with code.for_(0, self.wide, width) as panel:
            mixed = [
                code.gep(self.at["mixed"], code.add(code.mul(code.add(row, r), self.wide), panel.iv), self.element)
                for r in range(self.tile)
            ]
            sums: list[Value] = []
            for r, target in enumerate(mixed):
                factor = code.splat(code.load(self.at["factor"], code.add(row, r), self.element), lanes)
                for v in range(self.vectors):
                    before = code.load(target, v * lanes, self.vector)
                    sums.append(math.apply(code, "mul", self.kernel.dtype, before, factor))
            masks = [
                self.mask(code.add(panel.iv, v * lanes), self.columns) if masked else None for v in range(self.vectors)
            ]
            with code.for_(0, length, 1, sums) as key:
                at = code.add(code.mul(key.iv, step), panel.iv)
                columns = [
                    code.load(source, code.add(at, v * lanes), self.vector, mask) for v, mask in enumerate(masks)
                ]
                lefts = [
                    code.load(self.at["scores"], code.add(key.iv, r * self.schedule.keys), self.element)
                    for r in range(self.tile)
                ]
                key.yield_(*self.multiplied(lefts, columns, key.carried))
            for place, total in enumerate(key.results):
                r, v = divmod(place, self.vectors)
                code.store(total, mixed[r], v * lanes)

    def value_rows(self, start: Int) -> tuple[Value, Int]:
        """Where the block's first row of values begins, and how far apart the rows lie."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if not self.values_stay:
            return self.at["values"], self.wide
        assert isinstance(kernel.values, Load)
        with emitter.scope():
            emitter.places[kernel.key] = start
            offset = emitter.dim(substitute(kernel.values.offset, {kernel.column: 0}))
            step = coefficient(kernel.values.offset, kernel.key)
            assert step is not None
            return code.gep(emitter.pointers[kernel.values.buffer], offset, self.element), emitter.dim(step)

    def finish(self) -> None:
        """Divides by the sums and writes the rows."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        with code.for_(0, self.here) as row, emitter.scope():
            self.place(row.iv)
            total = code.load(self.at["sum"], row.iv, self.element)
            empty = code.cmpf("oeq", total, code.const(0, self.element))
            total = code.splat(code.select(empty, code.const(1, self.element), total), self.lanes)
            mixed = code.gep(self.at["mixed"], code.mul(row.iv, self.wide), self.element)

            def write(place: Int) -> None:
                emitter.accumulator = math.apply(code, "div", kernel.dtype, code.load(mixed, place, self.vector), total)
                for each in kernel.epilogue:
                    emitter.store(each.buffer, each.offset, each.value)

            self.vectors_of(kernel.column, 0, self.columns, write)


def _plain(side: Scalar, dtype: str, loop: LoopVar) -> bool:
    """Whether a side is a load of elements as they are, an even step apart along a loop."""
    return isinstance(side, Load) and side.dtype == dtype and coefficient(side.offset, loop) is not None
