"""Prints attention kernels: the loops of both matmuls and of the online softmax, with operands of the accumulators' type.

`attention_pairs.py` derives the printer for bfloat16 operands.
"""

from __future__ import annotations

import math as constants
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.attention_base import Attending
from burn.codegen.cpu.elementary.exponential import exp_of_negative
from burn.codegen.cpu.heuristics.attention import weighed_rows
from burn.codegen.cpu.lanes import Lanes
from burn.codegen.cpu.reductions import across
from burn.codegen.cpu.shuffles import transposed
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value
from burn.dialect.dims import LoopVar, ceildiv, coefficient, substitute
from burn.kernels.body import AttentionKernel, Load, Reduction, Scalar

if TYPE_CHECKING:
    from burn.codegen.cpu.attention import Schedule


class AttentionPrinter(Attending):
    RUN: ClassVar[int] = 1
    """Neighbours of a matmul's depth that are elements of one lane."""

    def __init__(self, kernel: AttentionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        super().__init__(kernel, kernel.rows, schedule.lanes, target, sites)
        self.kernel, self.schedule = kernel, schedule
        self.tile, self.vectors = schedule.tile, schedule.vectors
        self.query_stays = not schedule.dots and self.query_may_stay()
        self.values_stay = self.values_may_stay()
        self.extent = self.emitter.dim(kernel.key.extent)
        self.layout()

    def query_may_stay(self) -> bool:
        """True if tiles can read rows of the query in place."""
        return is_plain(self.kernel.query, self.kernel.dtype, self.kernel.depth)

    def values_may_stay(self) -> bool:
        """True if tiles can read vectors of the values in place."""
        return is_contiguous(self.kernel.values, self.kernel.dtype, self.kernel.column)

    def runs(self, length: Int) -> Int:
        """The number of lanes' elements for a depth."""
        return length if self.RUN == 1 else self.code.udiv(self.code.add(length, self.RUN - 1), self.RUN)

    def layout(self) -> None:
        """Memory of a thread: transposed keys, converted values and queries, scores, the result so far, and each row's
        largest score, sum and last factor."""
        code, schedule = self.code, self.schedule
        self.wide = self.round_up(self.columns, self.vectors * self.lanes)
        self.steps = self.runs(self.depth)
        self.deep = deep = self.round_up(self.steps, self.lanes)
        held = self.round_up(self.extent, schedule.keys) if schedule.once else schedule.keys
        sizes: dict[str, Int] = {
            "keys": 0 if schedule.dots else code.mul(deep, held),
            "values": 0 if self.values_stay else code.mul(self.wide, self.runs(held)),
            "query": 0 if self.query_stays else code.mul(deep, schedule.rows),
            "scores": self.tile * schedule.keys,
            "mixed": code.mul(self.wide, schedule.rows),
            **dict.fromkeys(("top", "sum", "factor"), schedule.rows),
        }
        self.at = self.reserve(sizes)

    # ---- the kernel ----------------------------------------------------------------------------------------------------
    def print(self) -> str:
        code, emitter = self.code, self.emitter
        begin, end = code.arguments[2:]
        with code.for_(begin, end, 1, [code.const(-1)] if self.schedule.once else []) as flat, emitter.scope():
            blocks = emitter.dim(ceildiv(self.row_count, self.schedule.rows))
            block, rest = code.urem(flat.iv, blocks), code.udiv(flat.iv, blocks)
            self.batches(rest)
            if self.schedule.once:
                with code.if_(code.cmp("ne", rest, flat.carried[0])), emitter.scope():
                    self.prepare_all()
                flat.yield_(code.value(rest))
            self.take(code.mul(block, self.schedule.rows), self.schedule.rows)
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
            if not schedule.once:
                self.prepare(start, length)
            with code.for_(0, tiles) as number, self.emitter.scope():
                row = code.mul(number.iv, self.tile)
                with self.seen(row, start, length) as some:
                    self.step(row, start, some)
        self.finish()

    @contextmanager
    def seen(self, row: Int, start: Int, length: Int) -> Iterator[Int]:
        """The number of a block's keys, from the first on, that some rows of a tile may see; skips the body if it is 0."""
        code = self.code
        if not self.bounded:
            yield length
            return
        least, most = self.bounds(row, code.min(self.tile, code.sub(self.here, row)))
        seen = code.op("arith.andi", code.cmp("slt", start, most), code.cmp("slt", least, code.add(start, length)))
        with code.if_(seen), self.emitter.scope():
            yield code.min(length, code.sub(most, start))

    def clear(self) -> None:
        code = self.code
        nothing = code.const(-constants.inf, self.element)
        with code.for_(0, self.schedule.rows) as row:
            code.store(nothing, self.at["top"], row.iv)
            code.store(code.const(0, self.element), self.at["sum"], row.iv)
        with code.for_(0, code.mul(self.wide, self.schedule.rows), self.lanes) as index:
            code.store(code.const(0, self.vector), self.at["mixed"], index.iv)

    # ---- operands ------------------------------------------------------------------------------------------------------
    def stage_query(self) -> None:
        """Makes the block's rows contiguous, zero-padded."""
        code = self.code
        with code.for_(0, self.schedule.rows) as row, self.emitter.scope():
            self.bind_row(row.iv)
            target = code.gep(self.at["query"], code.mul(row.iv, self.deep), self.element)
            self.vectors_of(self.kernel.depth, 0, self.depth, lambda k: self.stage(self.kernel.query, target, k))

    def prepare_all(self) -> None:
        """Prepares the operands shared by all rows of a head, one block of keys at a time."""
        code, keys = self.code, self.schedule.keys
        with code.for_(0, self.extent, keys) as block, self.emitter.scope():
            self.prepare(block.iv, code.min(keys, code.sub(self.extent, block.iv)))

    def prepare(self, start: Int, length: Int) -> None:
        """Transposes the keys of a block, and stages its values."""
        if not self.schedule.dots:
            self.transpose_keys(start, length)
        if not self.values_stay:
            self.stage_values(start, length)

    def prepared(self, name: str, start: Int, step: Int) -> Value:
        """The address of the prepared keys or values from `start` on, with `step` elements each. A block of keys has a
        region of its own, or all blocks share one."""
        base = self.at[name]
        return self.code.gep(base, self.code.mul(start, step), self.element) if self.schedule.once else base

    def stage_values(self, start: Int, length: Int) -> None:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        staged = self.prepared("values", start, self.wide)
        with code.for_(0, length) as key, emitter.scope():
            emitter.bindings[kernel.key] = code.add(start, key.iv)
            target = code.gep(staged, code.mul(key.iv, self.wide), self.element)
            self.vectors_of(kernel.column, 0, self.columns, lambda c: self.stage(kernel.values, target, c))

    def transpose_keys(self, start: Int, length: Int) -> None:
        """Transposes the keys of a block: element (k, j) is at k * keys + j. The padding that tiles read after the last
        key is also filled: uninitialised memory may hold denormals, with which some CPUs take a hundred times as long.
        """
        code, emitter, kernel, lanes = self.code, self.emitter, self.kernel, self.lanes
        block = self.prepared("keys", start, self.deep)
        filled = self.round_up(length, self.schedule.key_vectors * lanes)
        if is_contiguous(kernel.keys, kernel.keys.dtype, kernel.depth) and lanes > 1:
            assert isinstance(kernel.keys, Load)
            base, element = emitter.pointers[kernel.keys.buffer], conversions.element_type(kernel.keys.dtype)
            with code.for_(0, filled, lanes) as key, emitter.scope():
                rows: list[Value] = []
                for i in range(lanes):
                    emitter.bindings[kernel.key] = code.add(start, code.min(code.add(key.iv, i), code.sub(length, 1)))
                    offset = emitter.dim(substitute(kernel.keys.offset, {kernel.depth: 0}))
                    rows.append(code.gep(base, offset, element))
                with code.for_(0, self.steps, lanes) as index:
                    transposed_keys = transposed(code, self.key_vectors(rows, index.iv))
                    target = code.gep(block, code.mul(index.iv, self.schedule.keys), self.element)
                    for i, row in enumerate(transposed_keys):
                        code.store(row, target, code.add(key.iv, i * self.schedule.keys))
            return
        with code.for_(0, self.steps) as index, emitter.scope():
            target = code.gep(block, code.mul(index.iv, self.schedule.keys), self.element)
            self.vectors_of(kernel.key, start, length, lambda j: self.stage_keys(index.iv, target, j), filled)

    def key_vectors(self, rows: list[Value], index: Int) -> list[Value]:
        """Lanes of keys, whose addresses are `rows`, from lane `index` of their depth on."""
        mask = self.mask(index, self.depth)
        return [self.code.load(row, index, self.vector, mask) for row in rows]

    def stage_keys(self, index: Int, target: Value, key: Int) -> None:
        """Stores element `index` of the depth for a vector of keys."""
        with self.emitter.scope():
            self.emitter.bindings[self.kernel.depth] = index
            self.stage(self.kernel.keys, target, key)

    # ---- a tile of rows and a block of keys -------------------------------------------------------------------------------
    def step(self, row: Int, start: Int, length: Int) -> None:
        (self.dot_scores if self.schedule.dots else self.tile_scores)(row, start, length)
        self.weigh(row, start, length)
        self.mix(row, start, length)

    def query_row(self, row: Int) -> tuple[Value, Int]:
        """The start of a query row, and the stride of its elements."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if not self.query_stays:
            return code.gep(self.at["query"], code.mul(row, self.deep), self.element), 1
        assert isinstance(kernel.query, Load)
        with emitter.scope():
            self.bind_row(row)
            offset = emitter.dim(substitute(kernel.query.offset, {kernel.depth: 0}))
            step = coefficient(kernel.query.offset, kernel.depth)
            assert step is not None
            element = conversions.element_type(kernel.query.dtype)
            return code.gep(emitter.pointers[kernel.query.buffer], offset, element), emitter.dim(step)

    def tile_scores(self, row: Int, start: Int, length: Int) -> None:
        code, lanes, keys = self.code, self.lanes, self.schedule.keys
        vectors = self.schedule.key_vectors
        rows = [self.query_row(code.add(row, r)) for r in range(self.tile)]
        zero = [code.const(0, self.vector)] * (self.tile * vectors)
        transposed_keys = self.prepared("keys", start, self.deep)
        with code.for_(0, length, vectors * lanes) as panel:
            right = code.gep(transposed_keys, panel.iv, self.element)

            def multiply(first: Int, index: int, sums: list[Value], right: Value = right) -> list[Value]:
                lefts = [code.load(left, self.behind(first, index, step), self.element) for left, step in rows]
                at = self.behind(first, index, keys)
                columns = [code.load(right, code.add(at, v * lanes), self.vector) for v in range(vectors)]
                return self.multiplied(lefts, columns, sums)

            for index, total in enumerate(self.summed(0, self.steps, zero, multiply)):
                r, v = divmod(index, vectors)
                code.store(total, self.at["scores"], code.add(panel.iv, r * keys + v * lanes))

    def dot_scores(self, row: Int, start: Int, length: Int) -> None:
        """Computes each score as a dot product along the depth: transposing the keys does not pay for one or two rows."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        rows = [self.query_row(code.add(row, r))[0] for r in range(self.tile)]
        with code.for_(0, length) as key, emitter.scope():
            emitter.bindings[kernel.key] = code.add(start, key.iv)
            zero = [code.const(0, self.vector)] * self.tile
            with code.for_(0, self.depth, self.lanes, zero) as index, emitter.scope():
                with self.lane(kernel.depth, index.iv, self.depth):
                    column = emitter.wide(kernel.keys)
                    if emitter.mask is not None:
                        column = code.select(emitter.mask, column, code.const(0, column.type))
                lefts = [code.load(left, index.iv, self.vector) for left in rows]
                index.yield_(
                    *(
                        math.apply(code, "fma", kernel.dtype, left, column, total)
                        for left, total in zip(lefts, index.carried, strict=True)
                    )
                )
            for r, total in enumerate(index.results):
                score = across(code, self.reduction("sum"), total)
                code.store(score, self.at["scores"], code.add(key.iv, r * self.schedule.keys))

    def reduction(self, kind: str) -> Reduction:
        return Reduction("", kind, self.kernel.dtype, self.kernel.score)

    def weigh(self, row: Int, start: Int, length: Int) -> None:
        """Turns scores into weights relative to the largest score so far; the previous result gets a factor. Rows past
        the end, which repeat the last one, are treated like others."""
        together = weighed_rows(self.tile)
        with self.code.for_(0, self.tile, together) as first, self.emitter.scope():
            self.weigh_rows(row, [self.code.add(first.iv, i) for i in range(together)], start, length)

    def weigh_rows(self, row: Int, rows: list[Int], start: Int, length: Int) -> None:
        """The same for some rows of the tile from `row` on, independently of each other."""
        code, lanes, apply = self.code, self.lanes, self.apply
        scores = [code.gep(self.at["scores"], code.mul(r, self.schedule.keys), self.element) for r in rows]
        here = [code.add(row, r) for r in rows]
        tops: list[Value] = []
        for total, index in zip(self.scored(here, scores, start, length), here, strict=True):
            before = code.load(self.at["top"], index, self.element)
            tops.append(self.larger(across(code, self.reduction("max"), total), before))
        zero = code.const(0, self.element)
        hidden = [code.cmpf("oeq", top, code.const(-constants.inf, self.element)) for top in tops]
        safe = [code.select(h, zero, top) for h, top in zip(hidden, tops, strict=True)]
        wide = [code.splat(x, lanes) for x in safe]
        with code.for_(0, length, lanes, [code.const(0, self.vector)] * len(rows)) as index:
            sums: list[Value] = []
            for base, top, total in zip(scores, wide, index.carried, strict=True):
                weight = self.weight(code.load(base, index.iv, self.vector), top)
                self.store_weight(weight, base, index.iv)
                sums.append(apply("add", total, weight))
            index.yield_(*sums)
        for at, top, base, total in zip(here, tops, safe, index.results, strict=True):
            before = code.load(self.at["top"], at, self.element)
            none = code.cmpf("oeq", before, code.const(-constants.inf, self.element))
            # without unmasked keys any value will do, except a denormal
            factor = self.weight(code.select(none, base, before), base)
            whole = apply("mul", code.load(self.at["sum"], at, self.element), factor)
            whole = apply("add", whole, across(code, self.reduction("sum"), total))
            for name, value in (("top", top), ("sum", whole), ("factor", factor)):
                code.store(value, self.at[name], at)

    def scored(self, here: list[Int], scores: list[Value], start: Int, length: Int) -> list[Value]:
        """Replaces dot products by scores; returns a vector for each row whose lanes' maximum is the row's largest
        score."""
        code, emitter, kernel, lanes = self.code, self.emitter, self.kernel, self.lanes
        nothing = code.const(-constants.inf, self.vector)
        with code.for_(0, length, lanes, [nothing] * len(here)) as index, emitter.scope():
            tops: list[Value] = []
            for base, row, top in zip(scores, here, index.carried, strict=True):
                with emitter.scope():
                    self.bind_row(row)
                    emitter.accumulator = code.load(base, index.iv, self.vector)
                    with self.lane(kernel.key, code.add(start, index.iv), length, start):
                        score = emitter.wide(kernel.score)
                        if emitter.mask is not None:
                            score = code.select(emitter.mask, score, nothing)
                code.store(score, base, index.iv)
                tops.append(self.larger(score, top))
            index.yield_(*tops)
        return index.results

    def larger(self, a: Value, b: Value) -> Value:
        """One instruction, because it may ignore a NaN score: its weight is NaN in any case."""
        return self.code.select(self.code.cmpf("ogt", a, b), a, b)

    def weight(self, score: Value, top: Value) -> Value:
        """exp(score - top), for scores up to the top."""
        return exp_of_negative(Lanes(self.code, self.apply("sub", score, top))).value

    def store_weight(self, weight: Value, scores: Value, key: Int) -> None:
        """Stores weights in place of scores."""
        self.code.store(weight, scores, key)

    def mix(self, row: Int, start: Int, length: Int) -> None:
        """Adds the block's values times their weights to the rows' results so far."""
        code, lanes = self.code, self.lanes
        source, step = self.value_rows(start)
        width = self.vectors * lanes
        is_short = self.values_stay and not (isinstance(self.columns, int) and self.columns % width == 0)
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
            rights: list[tuple[Value, Value | None]] = []
            for v in range(self.vectors):
                column = code.add(panel.iv, v * lanes)
                mask = self.mask(column, self.columns) if is_short else None
                if (
                    is_short and mask is None
                ):  # the last vector of a row stands in for those behind it, which are not used
                    column = code.min(column, code.sub(self.columns, lanes))
                rights.append((code.gep(source, column, self.element), mask))

            def multiply(
                first: Int,
                index: int,
                sums: list[Value],
                rights: list[tuple[Value, Value | None]] = rights,
            ) -> list[Value]:
                at = self.behind(first, index, step)
                columns = [code.load(right, at, self.vector, mask) for right, mask in rights]
                lefts = [
                    code.load(self.at["scores"], code.add(first, index + r * self.schedule.keys), self.element)
                    for r in range(self.tile)
                ]
                return self.multiplied(lefts, columns, sums)

            for index, total in enumerate(self.summed(0, self.runs(length), sums, multiply)):
                r, v = divmod(index, self.vectors)
                code.store(total, mixed[r], v * lanes)

    def value_rows(self, start: Int) -> tuple[Value, Int]:
        """The address of the block's first row of values, and the stride of its rows."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if not self.values_stay:
            return self.prepared("values", start, self.wide), self.wide
        assert isinstance(kernel.values, Load)
        with emitter.scope():
            emitter.bindings[kernel.key] = start
            offset = emitter.dim(substitute(kernel.values.offset, {kernel.column: 0}))
            step = coefficient(kernel.values.offset, kernel.key)
            assert step is not None
            return code.gep(emitter.pointers[kernel.values.buffer], offset, self.element), emitter.dim(step)

    def finish(self) -> None:
        """Divides by the sums, writes the rows, and the statistics for the backward pass."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        with code.for_(0, self.here) as row, emitter.scope():
            self.bind_row(row.iv)
            total = code.load(self.at["sum"], row.iv, self.element)
            empty = code.cmpf("oeq", total, code.const(0, self.element))
            total = code.splat(code.select(empty, code.const(1, self.element), total), self.lanes)
            mixed = code.gep(self.at["mixed"], code.mul(row.iv, self.wide), self.element)

            for each in kernel.norms:
                emitter.accumulator = self.norm(row.iv)
                emitter.store(each.buffer, each.offset, each.value)

            def write(index: Int) -> None:
                emitter.accumulator = math.apply(code, "div", kernel.dtype, code.load(mixed, index, self.vector), total)
                for each in kernel.epilogue:
                    emitter.store(each.buffer, each.offset, each.value)

            self.vectors_of(kernel.column, 0, self.columns, write)

    def norm(self, row: Int) -> Value:
        """log2 of the sum of a row's exponentials: minus infinity for a row without an unmasked key."""
        code = self.code
        top, total = (code.load(self.at[name], row, self.element) for name in ("top", "sum"))
        whole = self.apply("add", self.apply("log", total), top)
        return self.apply("mul", whole, code.const(1 / constants.log(2), self.element))


def is_plain(operand: Scalar, dtype: str, loop: LoopVar) -> bool:
    """True if an operand is a plain load with a constant stride along a loop."""
    return isinstance(operand, Load) and operand.dtype == dtype and coefficient(operand.offset, loop) is not None


def is_contiguous(operand: Scalar, dtype: str, loop: LoopVar) -> bool:
    """True if vectors of an operand's elements can be loaded directly."""
    return isinstance(operand, Load) and operand.dtype == dtype and coefficient(operand.offset, loop) == 1
