"""Accumulates a register tile: rows x vectors of multiply-adds over the depth, with all accumulators in registers.

Each step broadcasts one element of the lhs and multiplies it by vectors of neighbouring columns of the rhs. `Accumulation`
is the entry point; `packing.py` reads the operands.
"""

from __future__ import annotations

from functools import partial

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.matmul import bf16_pairs, vnni
from burn.codegen.cpu.matmul.packing import Operands
from burn.codegen.cpu.matmul.schedule import Schedule, vector_lanes
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.target import Target
from burn.codegen.cpu.unroll import behind, unrolled
from burn.codegen.host.emit import Int, Value, vector
from burn.dialect.dims import LoopVar, coefficient
from burn.dialect.types import DTYPES


class Accumulation:
    """The multiply-adds of a kernel's tiles. `vectors` is the number of vectors of the current panel, which has all its columns
    if `is_whole`. The current tile is number `tile_in_block` of the `in_block` tiles that read a panel consecutively. `read` has
    the operands."""

    def __init__(self, kernel: Tiled, schedule: Schedule, target: Target, emitter: ScalarEmitter) -> None:
        self.kernel, self.schedule = kernel, schedule
        self.code, self.emitter = emitter.code, emitter
        self.element = conversions.element_type(kernel.dtype)
        self.lanes = vector_lanes(kernel, target)
        self.vectors = kernel.width // self.lanes
        self.is_whole = False
        self.type = vector(self.lanes, self.element)
        self.tile_in_block: Int = 0
        self.in_block: Int = 1
        self.widens = kernel.run > 1 and kernel.dtype == "float32" and not target.multiplies_pairs
        transposes = schedule.block if schedule.transposes else None
        self.read = Operands(
            kernel, schedule.tile, self.lanes, schedule.copies, transposes, schedule.part, schedule.held, emitter,
            widens=self.widens,
        )  # fmt: skip

    def sum(self, rows: list[Int]) -> list[Value]:
        """The tile's accumulators, row by row, after the whole depth."""
        zero = self.code.const(0, self.type)
        start = [zero] * (self.schedule.tile * self.vectors * self.schedule.split)
        sums = self._inside_and_outside(start, rows) if self.schedule.interior else self._taps(start, rows)
        each = self.schedule.tile * self.vectors
        total = sums[:each]
        for part in range(1, self.schedule.split):
            total = [
                math.apply(self.code, "add", self.kernel.dtype, a, b)
                for a, b in zip(total, sums[part * each : (part + 1) * each], strict=True)
            ]
        return total

    def _inside_and_outside(self, start: list[Value], rows: list[Int]) -> list[Value]:
        """The accumulators after the whole depth, by code without tests for tiles that read no padding."""
        code = self.code
        inside = self.read.all_inside(rows)
        padded = code.op("arith.xori", inside, code.const(True, "i1"))
        with code.for_(0, code.cast("arith.extui", inside, "i64"), 1, start) as once, self.emitter.scope():
            with self.read.without_padding(rows):
                sums = self._taps(once.carried, rows)
            once.yield_(*sums)
        with code.for_(0, code.cast("arith.extui", padded, "i64"), 1, once.results) as once, self.emitter.scope():
            once.yield_(*self._taps(once.carried, rows))
        return once.results

    def _taps(self, start: list[Value], rows: list[Int]) -> list[Value]:
        return self._depth(list(self.kernel.outer), start, rows)

    def _depth(self, outer: list[LoopVar], carried: list[Value], rows: list[Int]) -> list[Value]:
        code, emitter, read = self.code, self.emitter, self.read
        if outer:
            with code.for_(0, emitter.dim(outer[0].extent), 1, carried) as loop, emitter.scope():
                emitter.bindings[outer[0]] = loop.iv
                loop.yield_(*self._depth(outer[1:], loop.carried, rows))
            return loop.results
        inside = read.any_inside(rows) if self.schedule.skips else None
        if inside is None:
            return self._row_runs(carried, rows)
        with code.for_(0, code.cast("arith.extui", inside, "i64"), 1, carried) as once, emitter.scope():
            once.yield_(*self._row_runs(once.carried, rows))
        return once.results

    def _row_runs(self, carried: list[Value], rows: list[Int]) -> list[Value]:
        """The accumulators after the innermost contraction loop."""
        code, emitter, kernel, read = self.code, self.emitter, self.kernel, self.read
        lefts = read.row_addresses(rows)
        emitter.bindings[kernel.inner] = read.start
        right = read.column_address()
        masks = None if kernel.packed or read.copied is not None or self.is_whole else read.masks()
        depth = read.length()
        if read.staged is None:
            return self._run(depth, carried, lefts, read.left_step(), right, masks)
        with code.for_(0, depth, read.stage_length, carried) as loop, emitter.scope():
            length = code.min(code.sub(depth, loop.iv), read.stage_length)
            converted = read.stage(lefts, loop.iv, length)
            part = code.gep(right, code.mul(loop.iv, read.right_step()), read.right)
            loop.yield_(*self._run(length, loop.carried, converted, read.stage_step, part, masks))
        return loop.results

    def _run(
        self, length: Int, carried: list[Value], lefts: list[Value], step: Int, right: Value, masks: list[Value] | None
    ) -> list[Value]:
        """The accumulators after `length` iterations of the innermost contraction loop; a row's elements are `step`
        apart."""
        code = self.code
        ahead = self._ahead()

        def multiply(first: Int, index: int, sums: list[Value]) -> list[Value]:
            at = behind(code, first, index, step)
            within = range(self.kernel.run if self.widens else 1)
            loaded = [code.load(left, code.add(at, i), self.element) for i in within for left in lefts]
            return self._step(first, index, sums, loaded, right, masks)

        if self.schedule.split == 1:
            together = self.schedule.together
            prefetch = partial(self._prefetch, ahead, together)
            return unrolled(self.emitter, 0, length, together, carried, multiply, self.schedule.ragged, prefetch)
        each = self.schedule.tile * self.vectors
        whole = code.mul(code.udiv(length, self.schedule.split), self.schedule.split)
        with code.for_(0, whole, self.schedule.split, carried) as loop, self.emitter.scope():
            self._prefetch(ahead, self.schedule.split, loop.iv)
            parts: list[Value] = []
            for s in range(self.schedule.split):
                parts += multiply(loop.iv, s, loop.carried[s * each : (s + 1) * each])
            loop.yield_(*parts)
        results = loop.results
        if isinstance(length, int) and length % self.schedule.split == 0:
            return results
        with code.for_(whole, length, 1, results[:each]) as loop, self.emitter.scope():
            loop.yield_(*multiply(loop.iv, 0, loop.carried))
        return [*loop.results, *results[each:]]

    def _prefetch(self, ahead: tuple[Value, Int] | None, count: int, first: Int) -> None:
        """Prefetches the next panel's part for `count` elements of depth."""
        if ahead is None:
            return
        code, (panel, step) = self.code, ahead
        start = code.gep(panel, code.mul(first, step), "i8")
        if isinstance(step, int):
            code.prefetch_range(start, 0, count * step)
        else:
            for index in range(count):
                code.prefetch(start, code.mul(index, step), "i8", False)

    def _ahead(self) -> tuple[Value, Int] | None:
        """The part of the next panel that this tile prefetches, and its bytes per depth element: the tiles of a block
        together prefetch all of it."""
        code, emitter, kernel, read = self.code, self.emitter, self.kernel, self.read
        stride = coefficient(kernel.rhs.offset, kernel.panel)
        if not self.schedule.ahead or stride is None:
            return None
        with emitter.scope():
            for loop in kernel.outer:
                emitter.bindings[loop] = 0
            emitter.bindings[kernel.inner] = read.start
            panel = code.gep(read.column_address(), emitter.dim(stride), read.right)
        row = kernel.width * kernel.run * DTYPES[kernel.rhs.dtype].size
        step = code.udiv(code.add(self.in_block, row - 1), self.in_block)
        length = emitter.dim(read.depth) if self.schedule.part is None else read.length()
        index = code.add(code.mul(self.tile_in_block, length), emitter.dim(read.run_start()))
        return code.gep(panel, code.mul(index, step), "i8"), step

    def _step(
        self,
        first: Int,
        index: int,
        carried: list[Value],
        lefts: list[Value],
        right: Value,
        masks: list[Value] | None,
    ) -> list[Value]:
        """One element of the innermost contraction loop, `index` behind `first`: rows x vectors multiply-adds."""
        code, kernel, step = self.code, self.kernel, self.read.right_step()
        at = behind(code, first, index, step)
        if self.widens:
            return self._pairs(at, carried, lefts, right)
        if kernel.run > 1:
            return self._dots(at, carried, lefts, right)
        columns: list[Value] = []
        for c in range(self.vectors):
            mask = masks[c] if masks else None
            loaded = code.load(right, code.add(at, c * self.lanes), vector(self.lanes, self.read.right), mask)
            columns.append(conversions.convert(code, loaded, kernel.rhs.dtype, kernel.dtype))
        return [
            math.apply(code, "fma", kernel.dtype, code.splat(left, self.lanes), column, carried[r * self.vectors + c])
            for r, left in enumerate(lefts)
            for c, column in enumerate(columns)
        ]

    def _pairs(self, at: Int, carried: list[Value], lefts: list[Value], right: Value) -> list[Value]:
        """The same for a pair of bfloat16 per depth element, by two multiply-adds. lefts: the first elements of all rows, then
        the second ones."""
        code, lanes = self.code, self.lanes
        columns = [
            bf16_pairs.columns(code, right, code.add(at, c * lanes * bf16_pairs.PAIR), lanes)
            for c in range(self.vectors)
        ]
        sums = carried
        for index, column in enumerate(
            zip(*(bf16_pairs.separated(code, pair, lanes) for pair in columns), strict=True)
        ):
            sums = [
                math.apply(code, "fma", "float32", code.splat(left, lanes), part, sums[r * self.vectors + c])
                for r, left in enumerate(lefts[index * self.schedule.tile : (index + 1) * self.schedule.tile])
                for c, part in enumerate(column)
            ]
        return sums

    def _dots(self, at: Int, carried: list[Value], lefts: list[Value], right: Value) -> list[Value]:
        """The same for a run of bytes, or a pair of bfloat16, per depth element: multiplies pairwise and accumulates all."""
        code, run = self.code, self.kernel.run
        if self.kernel.dtype == "float32":
            pairs = [
                bf16_pairs.columns(code, right, code.add(at, c * self.lanes * run), self.lanes)
                for c in range(self.vectors)
            ]
            return [
                bf16_pairs.multiplied(code, carried[r * self.vectors + c], code.splat(left, self.lanes), pair)
                for r, left in enumerate(lefts)
                for c, pair in enumerate(pairs)
            ]
        columns = [
            vnni.columns(code, right, code.add(at, c * self.lanes * run), self.lanes, run) for c in range(self.vectors)
        ]
        return [
            vnni.multiplied(code, carried[r * self.vectors + c], code.splat(left, self.lanes), column, run)
            for r, left in enumerate(lefts)
            for c, column in enumerate(columns)
        ]
