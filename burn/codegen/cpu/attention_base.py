"""Shared by the printers of attention kernels: blocks of rows and keys, operands staged as vectors, tile matmuls.

Printers inherit from `Attending`, which provides the row loops and the range of unmasked keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.head import open_kernel, scratch
from burn.codegen.cpu.heuristics.registers import unroll_factor
from burn.codegen.cpu.matmul.packing import bind_rows
from burn.codegen.cpu.target import Target
from burn.codegen.cpu.unroll import Body, behind, unrolled
from burn.codegen.host.emit import Function, Int, Value, vector
from burn.dialect.dims import LoopVar, product
from burn.dialect.types import DTYPES
from burn.kernels.body import AttentionGradientKernel, AttentionKernel, Scalar
from burn.kernels.parameters import argument_names


class Attending:
    """A kernel being printed into `code`, with vectors of `lanes`. `rows` are its loops over rows; `start` is the first
    row of a block and `here` its number of rows."""

    start: Int
    here: Int
    last: Int

    def __init__(
        self,
        kernel: AttentionKernel | AttentionGradientKernel,
        rows: Sequence[LoopVar],
        lanes: int,
        target: Target,
        sites: list[str],
    ) -> None:
        self.bounds_of, self.rows, self.lanes = kernel, rows, lanes
        self.together = unroll_factor(target)
        self.dtype, self.element = kernel.dtype, conversions.element_type(kernel.dtype)
        self.vector = vector(lanes, self.element)
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.row_count = product([v.extent for v in rows])
        self.depth, self.columns = (self.emitter.dim(v.extent) for v in (kernel.depth, kernel.column))
        self.bounded = kernel.first != 0 or kernel.stop != kernel.key.extent

    def round_up(self, size: Int, step: int) -> Int:
        return self.code.mul(self.code.udiv(self.code.add(size, step - 1), step), step)

    def reserve(self, sizes: dict[str, Int]) -> dict[str, Value]:
        """Reserves scratch memory of a thread: returns the address of each array, given its number of elements."""
        code, end, starts = self.code, 0, {}
        for name, size in sizes.items():
            starts[name] = end
            end = code.add(end, self.round_up(size, 64))
        memory = scratch(code, self.emitter.worker, code.mul(end, DTYPES[self.dtype].size))
        return {name: code.gep(memory, start, self.element) for name, start in starts.items()}

    # ---- rows and the keys that they see -------------------------------------------------------------------------------
    def batches(self, rest: Int) -> None:
        """Sets the batch loops for a linear index over all of them."""
        code, emitter, batch = self.code, self.emitter, self.bounds_of.batch
        for position, loop in enumerate(reversed(batch)):
            n = emitter.dim(loop.extent)
            last = position == len(batch) - 1
            emitter.bindings[loop], rest = (rest, 0) if last else (code.urem(rest, n), code.udiv(rest, n))

    def take(self, start: Int, rows: int) -> None:
        """Sets the current block: `rows` rows from `start` on, or the remaining ones."""
        code, total = self.code, self.emitter.dim(self.row_count)
        self.start, self.last = start, code.sub(total, 1)
        self.here = code.min(rows, code.sub(total, start))

    def bind_row(self, row: Int) -> None:
        """Sets the row loops for a row of the block; rows past the end repeat the last one."""
        code = self.code
        bind_rows(self.emitter, self.rows, code.min(code.add(self.start, row), self.last))

    def bounds(self, row: Int, count: Int) -> tuple[Int, Int]:
        """The first unmasked key of some rows, and the end of them."""
        code, emitter, kernel = self.code, self.emitter, self.bounds_of
        if not self.bounded:
            return 0, emitter.dim(kernel.key.extent)
        with (
            code.for_(0, count, 1, [code.value(emitter.dim(kernel.key.extent)), code.const(0)]) as loop,
            emitter.scope(),
        ):
            self.bind_row(code.add(row, loop.iv))
            least = code.min(loop.carried[0], emitter.dim(kernel.first))
            most = code.max(loop.carried[1], emitter.dim(kernel.stop))
            loop.yield_(code.value(least), code.value(most))
        return loop.results[0], loop.results[1]

    # ---- vectors -------------------------------------------------------------------------------------------------------
    def vectors_of(
        self, loop: LoopVar, start: Int, length: Int, body: Callable[[Int], None], filled: Int | None = None
    ) -> None:
        """Runs `body` for whole vectors of a loop's iterations, each under a mask of the valid ones; up to `filled`
        iterations if that is more."""
        code = self.code
        with (
            code.for_(0, length if filled is None else filled, self.lanes) as index,
            self.emitter.scope(),
            self.lane(loop, code.add(start, index.iv), length, start, filled is None or filled == length),
        ):
            body(index.iv)

    @contextmanager
    def lane(
        self, loop: LoopVar, start: Int, length: Int, first: Int = 0, starts_within: bool = True
    ) -> Iterator[None]:
        """Inside, iterations of a loop from `start` on are evaluated as lanes. Those outside of `length` iterations
        from `first` on are masked. starts_within: the first lane is not one of them."""
        emitter = self.emitter
        emitter.lane, emitter.lanes = loop, self.lanes
        with emitter.under(self.mask(self.code.sub(start, first), length, starts_within)):
            emitter.bindings[loop] = start
            yield
        emitter.lanes_changed()
        emitter.lane, emitter.lanes = None, 1

    def mask(self, index: Int, length: Int, starts_within: bool = True) -> Value | None:
        """The mask of lanes, from `index` on, within the length; None if whole vectors cover it and `index` is within it."""
        code = self.code
        if starts_within and isinstance(length, int) and length % self.lanes == 0:
            return None
        return code.cmp("slt", code.lane_ids(self.lanes), code.splat(code.value(code.sub(length, index)), self.lanes))

    def stage(self, operand: Scalar, target: Value, index: Int) -> None:
        """Stores lanes of an operand, with zeros in masked ones."""
        code, emitter = self.code, self.emitter
        value = emitter.wide(operand)
        if emitter.mask is not None:
            value = code.select(emitter.mask, value, code.const(0, value.type))
        code.store(value, target, index)

    def apply(self, function: str, *values: Value) -> Value:
        return math.apply(self.code, function, self.dtype, *values)

    def summed(self, start: Int, stop: Int, sums: list[Value], body: Body) -> list[Value]:
        """The accumulators after a range of iterations."""
        return unrolled(self.emitter, start, stop, self.together, sums, body)

    def behind(self, first: Int, index: int, step: Int) -> Int:
        return behind(self.code, first, index, step)

    def multiplied(self, lefts: list[Value], columns: list[Value], sums: list[Value]) -> list[Value]:
        """rows x columns multiply-adds."""
        code: Function = self.code
        return [
            self.apply("fma", code.splat(left, self.lanes), column, sums[r * len(columns) + v])
            for r, left in enumerate(lefts)
            for v, column in enumerate(columns)
        ]
