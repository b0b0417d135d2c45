"""Prints contractions of few rows whose operands both have a contiguous depth: each element of the result is a dot product.

Such an rhs is a transposed matrix (a weight of PyTorch's `Linear`, the keys of an attention). Panels of it would be gathered or
transposed first, which takes longer than few multiplications of each element. Here vectors lie along the depth, a few rows of
each operand are multiplied at a time, and the lanes of their accumulators are summed last. `emit` is the entry point.
"""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.head import open_kernel
from burn.codegen.cpu.heuristics.dot_products import columns_at_once, reads_rows, rows_at_once
from burn.codegen.cpu.heuristics.registers import split_depth
from burn.codegen.cpu.matmul.epilogue import Epilogue
from burn.codegen.cpu.matmul.packing import bind_rows, increment_rows
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.shuffles import lane_sums
from burn.codegen.cpu.target import Target
from burn.codegen.cpu.unroll import behind, unrolled
from burn.codegen.host.emit import Int, Value, vector
from burn.dialect.dims import Dim, exact_div, product
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel
from burn.kernels.parameters import argument_names


@dataclass(frozen=True)
class Schedule:
    """`width` columns and `tile` rows are accumulated at a time, in vectors of `lanes` along the depth; `split`: accumulators of
    each dot product. `rows`: their number."""

    width: int
    tile: int
    lanes: int
    split: int
    rows: int

    @staticmethod
    def of(kernel: ContractionKernel, target: Target) -> Schedule | None:
        """None if another kernel computes the contraction in less time."""
        lanes, rows = target.lanes(DTYPES[kernel.dtype].size), product([v.extent for v in kernel.rows])
        if not isinstance(rows, int) or not 0 < rows <= reads_rows(target):
            return None
        width = columns_at_once(rows, lanes)
        tiled = Tiled.of(kernel, width)
        if tiled is None or not tiled.has_contiguous_depth or tiled.valid or kernel.stages:
            return None
        tile = rows_at_once(rows, width, target)
        return Schedule(width, tile, lanes, split_depth(tile, width, target), rows)

    def count(self, kernel: Tiled) -> Dim:
        """Iterations of a launch: panels x batches."""
        return product([v.extent for v in kernel.batch]) * kernel.panel.extent

    def work(self, kernel: Tiled) -> Dim:
        """Vector operations of one iteration."""
        return kernel.inner.extent * (self.rows * self.width) // 8


def emit(kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        tiled = Tiled.of(kernel, schedule.width)
        assert tiled is not None
        self.kernel, self.schedule = tiled, schedule
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.element = conversions.element_type(kernel.dtype)
        self.epilogue = Epilogue(tiled, schedule.width, self.element, self.emitter)

    def print(self) -> str:
        code, emitter, kernel, schedule = self.code, self.emitter, self.kernel, self.schedule
        begin, end = code.arguments[2:]
        with code.for_(begin, end) as flat, emitter.scope():
            panels = emitter.dim(kernel.panel.extent)
            panel, rest = code.urem(flat.iv, panels), code.udiv(flat.iv, panels)
            for position, loop in enumerate(reversed(kernel.batch)):
                n, last = emitter.dim(loop.extent), position == len(kernel.batch) - 1
                emitter.bindings[loop], rest = (rest, 0) if last else (code.urem(rest, n), code.udiv(rest, n))
            emitter.bindings[kernel.panel] = panel
            rights = self._columns(panel)
            whole = schedule.rows // schedule.tile * schedule.tile
            with code.for_(0, whole, schedule.tile) as rows, emitter.scope():
                self._tile([code.add(rows.iv, r) for r in range(schedule.tile)], rights)
            if whole < schedule.rows:
                self._tile(list(range(whole, schedule.rows)), rights)
        code.return_()
        return code.text()

    def _columns(self, panel: Int) -> list[Value]:
        """The addresses of a panel's columns; that of the last one for those behind it."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        last = code.sub(emitter.dim(kernel.column.extent), 1)
        first = code.mul(panel, kernel.width)
        found: list[Value] = []
        for c in range(kernel.width):
            with emitter.scope():
                column = code.add(first, c)
                is_inside = exact_div(kernel.column.extent, kernel.width) is not None
                emitter.bindings |= {
                    kernel.panel: 0, kernel.inner: 0, kernel.within: column if is_inside else code.min(column, last),
                }  # fmt: skip
                offset = emitter.dim(kernel.rhs.offset)
                found.append(code.gep(emitter.pointers[kernel.rhs.buffer], offset, self.element))
        return found

    def _tile(self, rows: list[Int], rights: list[Value]) -> None:
        """The dot products of some rows with a panel's columns, and their epilogue."""
        code, emitter, kernel, width = self.code, self.emitter, self.kernel, self.kernel.width
        increment_rows(emitter, kernel.rows, rows, None)
        lefts: list[Value] = []
        for row in rows:
            with emitter.scope():
                bind_rows(emitter, kernel.rows, row)
                emitter.bindings[kernel.inner] = 0
                offset = emitter.dim(kernel.lhs.offset)
                lefts.append(code.gep(emitter.pointers[kernel.lhs.buffer], offset, self.element))
        sums = self._accumulated(lefts, rights)
        totals = [lane_sums(code, kernel.dtype, sums[r * width : (r + 1) * width]) for r in range(len(rows))]
        if exact_div(kernel.column.extent, width) is not None:
            self.epilogue.written(rows, totals, None)
            return
        stop = code.mul(code.add(emitter.bindings[kernel.panel], 1), width)
        with code.if_(code.cmp("sle", stop, emitter.dim(kernel.column.extent))), emitter.scope():
            self.epilogue.written(rows, totals, None, masked=False)
        with code.else_(), emitter.scope():
            self.epilogue.written(rows, totals, None)

    def _accumulated(self, lefts: list[Value], rights: list[Value]) -> list[Value]:
        """One vector for each row and column, row by row. Its lanes sum to the dot product."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        lanes, split, each = self.schedule.lanes, self.schedule.split, len(lefts) * len(rights)
        type_, depth = vector(lanes, self.element), emitter.dim(kernel.inner.extent)
        steps = code.udiv(depth, lanes)

        def multiply(at: Int, sums: list[Value], mask: Value | None = None) -> list[Value]:
            found = list(sums)
            rows = [code.load(left, at, type_, mask) for left in lefts]
            for c, right in enumerate(rights):  # one after the other, so that registers hold one vector of them
                column = code.load(right, at, type_, mask)
                for r, row in enumerate(rows):
                    number = r * len(rights) + c
                    found[number] = math.apply(code, "fma", kernel.dtype, row, column, sums[number])
            return found

        def step(first: Int, index: int, sums: list[Value]) -> list[Value]:
            part = slice(index % split * each, (index % split + 1) * each)
            return [*sums[: part.start], *multiply(behind(code, first, index, lanes), sums[part]), *sums[part.stop :]]

        start = [code.const(0, type_)] * (each * split)
        parts = unrolled(emitter, 0, steps, max(2, split), start, step)
        sums = parts[:each]
        for number in range(1, split):
            more = parts[number * each : (number + 1) * each]
            sums = [math.apply(code, "add", kernel.dtype, a, b) for a, b in zip(sums, more, strict=True)]
        if exact_div(kernel.inner.extent, lanes) is not None:
            return sums
        done = code.mul(steps, lanes)
        left = code.splat(code.value(code.sub(depth, done)), lanes)
        return multiply(done, sums, code.cmp("slt", code.lane_ids(lanes), left))
