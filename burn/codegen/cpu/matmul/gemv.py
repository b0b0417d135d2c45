"""Prints contractions of few rows with weights of a few bits, which are read once, in packed form.

Memory bandwidth bounds such a kernel, so the work for each weight must be small. Few rows become int8 limbs and are multiplied
as bytes (int8_activations.py). Rows that cannot, or do not fit limbs, are multiplied with weights that become floats in
registers. For one row the sum of a block is scaled; for more rows each weight is scaled once for all of them. `emit` is the
entry point. For many rows gemm.py reads panels of floats, which `Operands` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.head import open_kernel, scratch
from burn.codegen.cpu.heuristics.registers import LimbRows
from burn.codegen.cpu.matmul.blockwise import BlockReader, Parameters
from burn.codegen.cpu.matmul.epilogue import Epilogue
from burn.codegen.cpu.matmul.int8_activations import LIMBS, Int8Activations, Steps
from burn.codegen.cpu.matmul.packing import bind_rows
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value, vector
from burn.dialect.dims import Dim, coefficient, product
from burn.errors import CompileError
from burn.kernels.body import ContractionKernel
from burn.kernels.parameters import argument_names

AHEAD = 4096
"""The prefetch distance in bytes. Hardware prefetchers stop at the end of a page and fetch little at once."""

SPLIT = 2
"""Accumulators of a row for each block, so that multiply-adds do not wait for each other."""

TOGETHER = 4
"""Rows that are accumulated together, in floats, if the number of rows is known only at run time or exceeds the
registers."""


@dataclass(frozen=True)
class Schedule:
    """Processes a panel of `width` columns at a time. `rows` rows are accumulated together; `even`: there are no more.
    Otherwise rows are processed TOGETHER at a time, then one by one. With `steps` rows are int8 limbs
    (int8_activations.py), `limbs` of them accumulated together."""

    width: int
    rows: int
    even: bool
    steps: Steps | None
    limbs: LimbRows

    @staticmethod
    def of(kernel: Tiled, rows: int, target: Target) -> Schedule:
        limbs = LimbRows.of(target)
        even = product([v.extent for v in kernel.rows]) == rows
        return Schedule(kernel.width, rows, even, steps_of(kernel, target) if rows <= limbs.most else None, limbs)

    def work(self, kernel: Tiled) -> Dim:
        """Vector operations of one iteration: a panel."""
        count = product([v.extent for v in kernel.rows])
        rows = count if isinstance(count, int) else self.rows
        return kernel.inner.extent * (rows * self.width // 8 + 1)


def steps_of(kernel: Tiled, target: Target) -> Steps | None:
    """The steps for rows in limbs. None if rows stay floats: for exact sums, for size-optimised code, or if rows are not
    contiguous."""
    assert kernel.blocks is not None
    lanes = target.lanes(4)
    if target.exact or target.small or target.compact:
        return None
    if coefficient(kernel.lhs.offset, kernel.inner) != 1 or kernel.width % lanes:
        return None
    return Steps.of(kernel.blocks, lanes, target)


def emit(kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        tiled = Tiled.of(kernel, schedule.width)
        assert tiled is not None and tiled.blocks is not None
        self.kernel, self.blocks, self.schedule = tiled, tiled.blocks, schedule
        self.lanes, self.run = min(target.lanes(4), tiled.width), target.byte_run
        self.vectors = tiled.width // self.lanes
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.type = vector(self.lanes, "f32")
        self.epilogue = Epilogue(tiled, self.lanes, "f32", self.emitter)
        ahead = 0 if target.compact else AHEAD
        self.reader = BlockReader(self.blocks, self.lanes, self.vectors, self.emitter, ahead)

    def print(self) -> str:
        code, emitter = self.code, self.emitter
        if self.schedule.steps is None:
            self._panels(self._in_floats)
        else:
            limbs = Int8Activations(
                self.blocks, self.kernel.lhs.dtype, emitter, self.lanes, self.schedule.steps, self.run
            )
            length = code.mul(limbs.size, emitter.dim(self.blocks.loops[0].extent))
            memory = scratch(code, emitter.worker, code.mul(length, self._row_count))
            with code.if_(self._written(limbs, memory, length)), emitter.scope():
                self._panels(lambda: self._in_limbs(limbs, memory, length))
            with code.else_(), emitter.scope():
                self._panels(self._in_floats)
        code.return_()
        return code.text()

    def _written(self, limbs: Int8Activations, memory: Value, length: Int) -> Value:
        """Writes the limbs of all rows; returns if all rows have them."""
        code = self.code
        with code.for_(0, self._row_count, 1, [code.const(True, "i1")]) as loop, self.emitter.scope():
            written = limbs.write(self._row(loop.iv), code.gep(memory, code.mul(loop.iv, length), "i8"))
            loop.yield_(code.op("arith.andi", loop.carried[0], written))
        return loop.results[0]

    @property
    def _row_count(self) -> Int:
        return self.emitter.dim(product([v.extent for v in self.kernel.rows]))

    def _panels(self, body: Callable[[], None]) -> None:
        begin, end = self.code.arguments[2:]
        with self.code.for_(begin, end) as panels, self.emitter.scope():
            self.emitter.bindings[self.kernel.panel] = panels.iv
            body()

    def _in_limbs(self, limbs: Int8Activations, memory: Value, length: Int) -> None:
        def some(rows: list[Int]) -> None:
            self._limb_rows(rows, limbs, memory, length)

        count, together = self.schedule.rows, self.schedule.limbs.together
        if not self.schedule.even:
            self._all_rows(together, some)
            return
        for first in range(0, count, together):
            some(list(range(first, min(first + together, count))))

    def _limb_rows(self, rows: list[Int], limbs: Int8Activations, memory: Value, length: Int) -> None:
        """Accumulates some rows of the panel together, a few vectors of columns at a time."""
        code, emitter = self.code, self.emitter
        beside = self.schedule.limbs.beside(self.vectors, LIMBS * len(rows))
        starts = [code.gep(memory, code.mul(row, length), "i8") for row in rows]
        totals = [code.const(0, self.type)] * (len(rows) * self.vectors)
        with code.for_(0, emitter.dim(self.blocks.loops[0].extent), 1, totals) as loop, emitter.scope():
            records = [code.gep(start, code.mul(loop.iv, limbs.size), "i8") for start in starts]
            parameters, totals = self.reader.parameters(loop.iv), list(loop.carried)
            for first in range(0, self.vectors, beside):
                columns = range(first, min(first + beside, self.vectors))
                sums = limbs.summed(records, self.reader, loop.iv, columns)
                for r, (record, of_row) in enumerate(zip(records, sums, strict=True)):
                    for index, c in enumerate(columns):
                        at = r * self.vectors + c
                        totals[at] = limbs.finished(record, parameters, of_row[index :: len(columns)], totals[at], c)
            loop.yield_(*totals)
        self.epilogue.written(rows, loop.results, None)

    def _in_floats(self) -> None:
        if self.schedule.even:
            self._rows(list(range(self.schedule.rows)))
        else:
            self._all_rows(TOGETHER, self._rows)

    def _all_rows(self, together: int, some: Callable[[list[Int]], None]) -> None:
        """Runs `some` for `together` rows at a time, then for the remaining rows one by one."""
        code, rows = self.code, self._row_count
        whole = code.mul(code.udiv(rows, together), together) if together > 1 else 0
        if together > 1:
            with code.for_(0, whole, together) as loop, self.emitter.scope():
                some([code.add(loop.iv, r) for r in range(together)])
        with code.for_(whole, rows) as loop, self.emitter.scope():
            some([loop.iv])

    def _rows(self, rows: list[Int]) -> None:
        """Accumulates some rows of the panel together."""
        code, emitter = self.code, self.emitter
        addresses = [self._row(row) for row in rows]
        blocks, words = (emitter.dim(loop.extent) for loop in self.blocks.loops[:2])
        zero = code.const(0, self.type)
        length = code.mul(words, self.blocks.each)
        with code.for_(0, blocks, 1, [zero] * (len(rows) * self.vectors)) as loop, emitter.scope():
            parameters = self.reader.parameters(loop.iv)
            start = code.mul(loop.iv, length)
            summed = self._one_row if len(rows) == 1 else self._several_rows
            loop.yield_(*summed(loop.iv, words, start, addresses, parameters, loop.carried))
        self.epilogue.written(rows, loop.results, None)

    def _row(self, row: Int) -> Value:
        """The address of a row."""
        code, emitter, operand = self.code, self.emitter, self.kernel.lhs
        with emitter.scope():
            bind_rows(emitter, self.kernel.rows, row)
            emitter.bindings[self.kernel.inner] = 0
            return code.gep(
                emitter.pointers[operand.buffer], emitter.dim(operand.offset), conversions.element_type(operand.dtype)
            )

    def _element(self, row: Value, k: Int) -> Value:
        operand = self.kernel.lhs
        step = coefficient(operand.offset, self.kernel.inner)
        if step is None:
            raise CompileError("internal: the lhs of a contraction does not advance evenly")
        at = self.code.mul(k, self.emitter.dim(step))
        loaded = self.code.load(row, at, conversions.element_type(operand.dtype))
        return conversions.convert(self.code, loaded, operand.dtype, "float32")

    def _one_row(
        self, block: Int, words: Int, start: Int, rows: list[Value], parameters: Parameters, total: Sequence[Value]
    ) -> list[Value]:
        """The accumulators with those of a block: sum (q - z) x s = (sum q x - z sum x) s. It also accumulates the sum
        of x."""
        code, emitter, each = self.code, self.emitter, self.blocks.each
        (row,) = rows
        count = self.vectors * SPLIT
        carried = [code.const(0, self.type)] * count
        if parameters.zeros is not None:
            carried += [code.const(0.0, "f32")] * SPLIT
        with code.for_(0, words, 1, carried) as loop, emitter.scope():
            sums, plain = loop.carried[:count], loop.carried[count:]
            held = self.reader.word(block, loop.iv)
            first = code.add(start, code.mul(loop.iv, each))
            for index in range(each):
                x, part = self._element(row, code.add(first, index)), index % SPLIT
                wide = code.splat(x, self.lanes)
                for c, number in enumerate(self.reader.plain(held, index)):
                    at = part * self.vectors + c
                    sums[at] = self._fma(number, wide, sums[at])
                if plain:
                    plain[part] = self._add(plain[part], x)
            loop.yield_(*sums, *plain)
        block_sums = self._together(loop.results[:count], self.vectors)
        if parameters.zeros is not None:
            (x,) = self._together(loop.results[count:], 1)
            negative = code.splat(code.op("arith.negf", x), self.lanes)
            block_sums = [self._fma(z, negative, s) for z, s in zip(parameters.zeros, block_sums, strict=True)]
        return [self._fma(*three) for three in zip(parameters.scales, block_sums, total, strict=True)]

    def _several_rows(
        self, block: Int, words: Int, start: Int, rows: list[Value], parameters: Parameters, total: Sequence[Value]
    ) -> list[Value]:
        """The accumulators with those of a block, one number after another."""
        code, emitter, each = self.code, self.emitter, self.blocks.each
        with code.for_(0, words, 1, total) as loop, emitter.scope():
            sums = list(loop.carried)
            held = self.reader.word(block, loop.iv)
            first = code.add(start, code.mul(loop.iv, each))
            for index in range(each):
                values = self.reader.scaled(held, index, parameters)
                for r, row in enumerate(rows):
                    wide = code.splat(self._element(row, code.add(first, index)), self.lanes)
                    for c, value in enumerate(values):
                        at = r * self.vectors + c
                        sums[at] = self._fma(value, wide, sums[at])
            loop.yield_(*sums)
        return loop.results

    def _together(self, parts: Sequence[Value], count: int) -> list[Value]:
        """Adds the split accumulators: `count` values."""
        made = list(parts[:count])
        for first in range(count, len(parts), count):
            made = [self._add(a, b) for a, b in zip(made, parts[first : first + count], strict=True)]
        return made

    def _add(self, a: Value, b: Value) -> Value:
        return math.apply(self.code, "add", "float32", a, b)

    def _fma(self, a: Value, b: Value, c: Value) -> Value:
        return math.apply(self.code, "fma", "float32", a, b, c)
