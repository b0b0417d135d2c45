"""Prints attention's backward pass: the gradients of queries, keys and values, by one kernel over blocks of rows and
keys.

An iteration handles the heads that share keys. For each block of keys it processes the rows block by block. Scores, and
the dot products of the output gradient with the values, are register tiles; they become probabilities and slopes and
are accumulated into the gradients (Dao, arXiv 2307.08691). So neither is stored in memory. The operands of a block are
staged as float32 rows, keys and values also transposed. `emit` is the entry point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.codegen.cpu.attention_base import Attending
from burn.codegen.cpu.heuristics.attention import GRADIENT_KEYS, attention_keys, gradient_rows, gradient_tile
from burn.codegen.cpu.shuffles import transposed
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value
from burn.dialect.dims import Dim, LoopVar, product
from burn.dialect.types import DTYPES
from burn.kernels.body import AttentionGradientKernel, Scalar, Write

LN2 = 0.6931471805599453

Matrix = tuple[Value, Int]
"""The start of a matrix, and the stride of its rows."""


@dataclass(frozen=True)
class Schedule:
    """Decisions made while sizes are numbers: blocks of `rows` rows and `keys` keys, with `tile` and `key_tile` of them
    in registers at a time, beside `vectors` vectors. The keys divide such vectors, so that no tile reads beyond the
    weights."""

    tile: int
    key_tile: int
    vectors: int
    rows: int
    keys: int
    lanes: int

    @staticmethod
    def of(kernel: AttentionGradientKernel, target: Target) -> Schedule:
        lanes = target.lanes(DTYPES[kernel.dtype].size)
        tile, vectors = gradient_tile(target)
        bounded = kernel.first != 0 or kernel.stop != kernel.key.extent
        keys = attention_keys(kernel.key.extent, vectors * lanes, min(GRADIENT_KEYS, target.costs.attention_keys))
        key_tile = max(n for n in range(1, tile + 1) if vectors * lanes % n == 0)
        return Schedule(tile, key_tile, vectors, gradient_rows(tile, bounded), keys, lanes)

    def count(self, kernel: AttentionGradientKernel) -> Dim:
        """Iterations of a launch: batches."""
        return product([v.extent for v in kernel.batch])

    def work(self, kernel: AttentionGradientKernel) -> Dim:
        """Vector operations of one iteration."""
        rows = product([v.extent for v in (*kernel.heads, kernel.row)])
        return rows * kernel.key.extent * (kernel.depth.extent + kernel.column.extent) // 4


def emit(kernel: AttentionGradientKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer(Attending):
    def __init__(self, kernel: AttentionGradientKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        super().__init__(kernel, (*kernel.heads, kernel.row), schedule.lanes, target, sites)
        self.kernel, self.schedule = kernel, schedule
        self.tile, self.width = schedule.tile, schedule.vectors * schedule.lanes
        self.total = self.emitter.dim(self.row_count)
        self.layout()

    def layout(self) -> None:
        """Memory of a thread: a block of keys and one of rows, probabilities and slopes, and the gradients of all rows
        and of the block's keys and values."""
        code = self.code
        keys, rows = self.schedule.keys, self.schedule.rows
        deep, wide = self.round_up(self.depth, self.width), self.round_up(self.columns, self.width)
        shapes: dict[str, tuple[Int, Int]] = {
            "keys": (keys, deep),
            "values": (keys, wide),
            "transposed keys": (deep, keys),
            "transposed values": (wide, keys),
            "query": (rows, deep),
            "output gradient": (rows, wide),
            "p": (rows, keys),
            "slope": (rows, keys),
            "of rows": (code.add(self.total, rows), deep),
            "of keys": (keys, deep),
            "of values": (keys, wide),
        }
        at = self.reserve({name: code.mul(n, step) for name, (n, step) in shapes.items()})
        self.at: dict[str, Matrix] = {name: (at[name], step) for name, (_, step) in shapes.items()}

    def print(self) -> str:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        begin, end = code.arguments[2:]
        keys, rows = self.schedule.keys, self.schedule.rows
        with code.for_(begin, end) as flat, emitter.scope():
            self.batches(flat.iv)
            self.clear("of rows", code.add(self.total, rows))
            extent = emitter.dim(kernel.key.extent)
            with code.for_(0, extent, keys) as block, emitter.scope():
                self.keys(block.iv, code.min(keys, code.sub(extent, block.iv)))
            self.take(0, 0)
            with code.for_(0, self.total) as row, emitter.scope():
                self.bind_row(row.iv)
                self.write("of rows", row.iv, kernel.depth, self.depth, kernel.row_writes)
        code.return_()
        return code.text()

    def row(self, name: str, row: Int) -> Value:
        base, step = self.at[name]
        return self.code.gep(base, self.code.mul(row, step), self.element)

    def clear(self, name: str, rows: Int) -> None:
        base, step = self.at[name]
        with self.code.for_(0, self.code.mul(rows, step), self.lanes) as index:
            self.code.store(self.code.const(0, self.vector), base, index.iv)

    def write(self, name: str, row: Int, loop: LoopVar, length: Int, writes: Sequence[Write]) -> None:
        """Writes a row of a gradient, at the loops' current index."""
        emitter, source = self.emitter, self.row(name, row)

        def store(index: Int) -> None:
            emitter.accumulator = self.code.load(source, index, self.vector)
            for each in writes:
                emitter.store(each.buffer, each.offset, each.value)

        if writes:
            self.vectors_of(loop, 0, length, store)

    # ---- a block of keys -----------------------------------------------------------------------------------------------
    def keys(self, start: Int, length: Int) -> None:
        """Processes all rows for `length` keys from `start` on, which completes the gradients of these keys and values.
        The padding of tiles repeats the last key and the last row: uninitialised memory may hold denormals, with which
        some CPUs take a hundred times as long."""
        code, emitter, kernel, schedule = self.code, self.emitter, self.kernel, self.schedule
        for name, target, operand, loop, features in (
            ("keys", "transposed keys", kernel.keys, kernel.depth, self.depth),
            ("values", "transposed values", kernel.values, kernel.column, self.columns),
        ):
            with code.for_(0, self.round_up(length, self.width)) as key, emitter.scope():
                last = code.sub(emitter.dim(kernel.key.extent), 1)
                emitter.bindings[kernel.key] = code.min(code.add(start, key.iv), last)
                self.stage_row(name, key.iv, operand, loop, features)
            self.transpose(name, target, length)
        self.clear("of keys", schedule.keys)
        self.clear("of values", schedule.keys)
        with code.for_(0, self.total, schedule.rows) as block, emitter.scope():
            self.take(block.iv, schedule.rows)
            least, most = self.bounds(0, self.here)
            first = code.max(code.sub(least, start), 0)
            first = code.sub(first, code.urem(first, self.width))
            stop = code.min(code.sub(most, start), length)
            with code.if_(code.cmp("slt", code.value(first), code.value(stop))), emitter.scope():
                self.block(start, length, first, stop)
        with code.for_(0, length) as key, emitter.scope():
            emitter.bindings[kernel.key] = code.add(start, key.iv)
            self.write("of keys", key.iv, kernel.depth, self.depth, kernel.key_writes)
            self.write("of values", key.iv, kernel.column, self.columns, kernel.value_writes)

    def stage_row(self, name: str, row: Int, operand: Scalar, loop: LoopVar, features: Int) -> None:
        target = self.row(name, row)
        self.vectors_of(loop, 0, features, lambda index: self.stage(operand, target, index))

    def transpose(self, name: str, target: str, length: Int) -> None:
        """Transposes staged rows in lanes x lanes squares. Elements past the last row are masked later."""
        code, lanes = self.code, self.lanes
        base, step = self.at[name]
        with code.for_(0, length, lanes) as row, code.for_(0, step, lanes) as index:
            rows = [
                code.load(base, code.add(code.mul(code.add(row.iv, i), step), index.iv), self.vector)
                for i in range(lanes)
            ]
            for i, vector in enumerate(transposed(code, rows)):
                code.store(vector, self.row(target, code.add(index.iv, i)), row.iv)

    # ---- a block of rows and keys --------------------------------------------------------------------------------------
    def block(self, start: Int, length: Int, first: Int, stop: Int) -> None:
        """A block of rows and those keys, from the `first` to the last that any of its rows sees."""
        code, emitter, kernel, keys = self.code, self.emitter, self.kernel, self.schedule.keys
        with code.for_(0, self.round_up(self.here, self.tile)) as row, emitter.scope():
            self.bind_row(row.iv)
            self.stage_row("query", row.iv, kernel.query, kernel.depth, self.depth)
            self.stage_row("output gradient", row.iv, kernel.output_gradient, kernel.column, self.columns)
        for made, left, right, features in (
            ("p", "query", "transposed keys", self.depth),
            ("slope", "output gradient", "transposed values", self.columns),
        ):
            with code.for_(first, stop, self.width) as panel, code.for_(0, self.here, self.tile) as row:
                lefts = [(self.row(left, code.add(row.iv, r)), 1) for r in range(self.tile)]
                columns = code.gep(self.at[right][0], panel.iv, self.element)
                zero = [code.const(0, self.vector)] * (self.tile * self.schedule.vectors)
                sums = self.multiplied_rows((0, features), lefts, (columns, keys), zero)
                self.put(
                    sums,
                    [code.gep(self.row(made, code.add(row.iv, r)), panel.iv, self.element) for r in range(self.tile)],
                )
        self.weigh(start, length, first, stop)
        for made, left, right in (("of values", "p", "output gradient"), ("of keys", "slope", "query")):
            with code.for_(first, stop, self.schedule.key_tile) as key, emitter.scope():
                base, some = self.at[left][0], range(self.schedule.key_tile)
                lefts = [(code.gep(base, code.add(key.iv, i), self.element), keys) for i in some]
                self.add(made, key.iv, (0, self.here), lefts, right)
        with code.for_(0, self.here, self.tile) as row, emitter.scope():
            lefts = [(self.row("slope", code.add(row.iv, r)), 1) for r in range(self.tile)]
            self.add("of rows", code.add(self.start, row.iv), (first, stop), lefts, "keys")

    def add(self, made: str, row: Int, over: tuple[Int, Int], lefts: Sequence[Matrix], right: str) -> None:
        """Adds a matmul to a tile's rows, over a range of rows of the rhs."""
        code = self.code
        base, step = self.at[right]
        with code.for_(0, step, self.width) as panel:
            targets = [code.gep(self.row(made, code.add(row, r)), panel.iv, self.element) for r in range(len(lefts))]
            before = [code.load(t, v * self.lanes, self.vector) for t in targets for v in range(self.schedule.vectors)]
            self.put(self.multiplied_rows(over, lefts, (code.gep(base, panel.iv, self.element), step), before), targets)

    def put(self, sums: list[Value], targets: list[Value]) -> None:
        for index, total in enumerate(sums):
            row, vector = divmod(index, self.schedule.vectors)
            self.code.store(total, targets[row], vector * self.lanes)

    def multiplied_rows(
        self, over: tuple[Int, Int], lefts: Sequence[Matrix], right: Matrix, sums: list[Value]
    ) -> list[Value]:
        """A tile's accumulators plus a range of the depth, with lhs elements and rhs rows a stride apart."""
        code = self.code

        def multiply(first: Int, index: int, sums: list[Value]) -> list[Value]:
            here = [code.load(left, self.behind(first, index, step), self.element) for left, step in lefts]
            at = self.behind(first, index, right[1])
            columns = [
                code.load(right[0], code.add(at, v * self.lanes), self.vector) for v in range(self.schedule.vectors)
            ]
            return self.multiplied(here, columns, sums)

        return self.summed(over[0], over[1], sums, multiply)

    def weigh(self, start: Int, length: Int, first: Int, stop: Int) -> None:
        """Turns dot products into probabilities and slopes, zero for masked keys and for the padding up to whole
        vectors."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        apply = self.apply
        zero = code.const(0, self.vector)
        with code.for_(0, self.here) as row, emitter.scope():
            self.bind_row(row.iv)
            norm = apply("mul", emitter.value(kernel.norm), code.const(LN2, self.element))
            norm, dot = (code.splat(x, self.lanes) for x in (norm, emitter.value(kernel.dot)))
            dots, slopes = self.row("p", row.iv), self.row("slope", row.iv)
            with code.for_(first, self.round_up(stop, self.width), self.lanes) as key, emitter.scope():
                emitter.accumulator = code.load(dots, key.iv, self.vector)
                with self.lane(kernel.key, code.add(start, key.iv), length, start, self.width == self.lanes):
                    p = apply("exp", apply("sub", emitter.wide(kernel.score), norm))
                    slope = apply("sub", code.load(slopes, key.iv, self.vector), dot)
                    slope = apply("mul", apply("mul", p, slope), emitter.wide(kernel.score_derivative))
                    if emitter.mask is not None:
                        p, slope = (code.select(emitter.mask, x, zero) for x in (p, slope))
                code.store(p, dots, key.iv)
                code.store(slope, slopes, key.iv)
