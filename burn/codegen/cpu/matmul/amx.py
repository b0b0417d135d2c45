"""Prints contraction kernels for AMX: 32 rows x 32 columns of accumulators at a time, in four tile registers.

Int8 contractions are exact, and those of bfloat16 have float32 accumulators (amx_rows.py). A float32 operand
is split into three bfloat16 parts (bf16_split.py), which tile instructions multiply and accumulate in float32. Of the nine
combinations of parts the six largest are computed; the others are below one ULP of float32. Two neighbouring terms are added
before rounding, so that the error is no larger than that of float32 multiply-adds. The parts of an infinity are NaN: a tile
with an element that is not finite is accumulated again in float32 (amx_fallback.py). Numbers and parts below 2 ** -126 count
as zero, as in all AMX instructions.

A thread copies a block of rows that fits in a cache, then one panel after another. While strips of rows are multiplied with
one panel, other instructions copy the next panel and store the accumulators of the previous strip. Tile instructions take
long, and a core reorders only some hundred instructions, so the copies are interleaved with them. `emit` is the entry point;
`heuristics/amx.py` decides when AMX pays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from burn.codegen.cpu import math
from burn.codegen.cpu.head import open_kernel, scratch
from burn.codegen.cpu.heuristics.amx import (
    overlapped_rows,
    tile_copies,
    tile_held,
    tile_panels,
    tile_part,
    tile_space,
    tile_strips,
)
from burn.codegen.cpu.matmul.amx_fallback import sum_rows
from burn.codegen.cpu.matmul.amx_instructions import configure, pad, tile
from burn.codegen.cpu.matmul.amx_rows import ElementRows
from burn.codegen.cpu.matmul.bf16_split import BLOCK, BYTES, LINES, PARTS, Bf16Split, units
from burn.codegen.cpu.matmul.epilogue import Epilogue
from burn.codegen.cpu.matmul.packing import both
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value
from burn.dialect.dims import Dim, ceildiv, factor, product, symbol
from burn.kernels.body import ContractionKernel
from burn.kernels.parameters import argument_names

WIDTH = 2 * LINES
"""Columns of a panel, and rows of a strip."""

SUMS = WIDTH * WIDTH * 4
"""Bytes of the accumulators of a strip and a panel."""


class TileOperands(Protocol):
    """Both operands in tile registers. `part_pairs` lists the parts of lhs and rhs that `instruction` multiplies, small
    ones first. `strides` are the distances in memory between the rows of a register, `steps` those between blocks of
    the depth; parts are BYTES apart."""

    @property
    def instruction(self) -> str: ...
    @property
    def part_pairs(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def strides(self) -> tuple[int, int]: ...
    @property
    def steps(self) -> tuple[int, int]: ...
    @property
    def here(self) -> Int:
        """Blocks of the depth that are accumulated at a time."""
        ...

    @property
    def units(self) -> int:
        """The number of units in which a block of a panel is copied."""
        ...

    def between(self, start: Int, stop: Int) -> None: ...
    def copy_left(self, first: Int, tiles: Int) -> None: ...
    def copy_panels(self, panel: Int, end: Int, into: Int, first: Int, stop: Int) -> None: ...
    def copy_unit(self, panel: Int, unit: Int, into: Int) -> None: ...
    def bases(self, strip: Int, panel_index: Int) -> tuple[Value, ...]:
        """The addresses of the first blocks of both tiles of the lhs, and of the rhs."""
        ...


@dataclass(frozen=True)
class Schedule:
    """The depth is processed in parts of `part` elements; `parts`: there may be several; `ragged`: the last block of a
    part may be short. `strips` of rows are copied together; accumulators are stored for `held` panels between parts.
    The multiplications of each block overlap with the copies of `copies` units of the next panel (0: `panels` are copied
    together beforehand). They also overlap with stores of `rows` rows of the previous strip (0: a strip is stored when
    it is complete).

    A launch iterates over strips, or across them, over panels. The other dimension is split into groups, which each
    iteration processes one after another. The last arguments of the function select one of the two.
    """

    part: int
    parts: bool
    ragged: bool
    strips: int
    held: int
    copies: int
    panels: int
    rows: int

    @staticmethod
    def of(kernel: Tiled, target: Target) -> Schedule:
        rows, depth = product([v.extent for v in kernel.rows]), kernel.inner.extent
        if kernel.run > 1:
            blocks = kernel.byte_blocks
            assert isinstance(blocks, int)
            strips = tile_strips(ceildiv(rows, WIDTH), blocks * 2 * BYTES, target)
            return Schedule(blocks * BLOCK, False, False, strips, 1, 0, 1, overlapped_rows(kernel, blocks, blocks))
        part = tile_part(depth, BLOCK, target)
        parts = not isinstance(depth, int) or depth > part
        strips = tile_strips(ceildiv(rows, WIDTH), part * WIDTH * PARTS * 2, target)
        held = tile_held(strips * SUMS, target) if parts else 1
        ragged = factor(depth) % BLOCK != 0
        copies = tile_copies(kernel, units(kernel), strips)
        panels = tile_panels(kernel, part * WIDTH * PARTS * 2)
        beside = overlapped_rows(kernel, part // BLOCK, -(-depth // BLOCK) if isinstance(depth, int) else None)
        return Schedule(part, parts, ragged, strips, held, copies, panels, beside)

    @staticmethod
    def units(kernel: Tiled, across: bool) -> tuple[Dim, Dim]:
        """Iterations of a launch for each group, over all batches, and the units of groups."""
        strips = ceildiv(product([v.extent for v in kernel.rows]), WIDTH)
        units, others = (kernel.panel.extent, strips) if across else (strips, kernel.panel.extent)
        return product([v.extent for v in kernel.batch]) * units, others


ACROSS, GROUPS = "across", "groups"
"""The last arguments: 1 if a launch iterates over panels, and the number of groups of the other dimension."""


def emit(kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        tiled = Tiled.of(kernel, WIDTH)
        assert tiled is not None
        self.kernel, self.schedule, self.space = tiled, schedule, tile_space(target)
        self.narrow = None if tiled.blocks is None else Tiled.of(kernel, LINES)
        self.code, self.emitter = open_kernel(kernel.buffers, (*argument_names(kernel), ACROSS, GROUPS), target, sites)
        self.row_count = product([v.extent for v in tiled.rows])
        self.epilogue = Epilogue(tiled, LINES, "i32" if tiled.dtype == "int32" else "f32", self.emitter)
        self.checks = tiled.run == 1  # a tile of split operands may need a second pass in float32
        self.operands, self.sums = self._operands()

    def _operands(self) -> tuple[TileOperands, Value]:
        """Both operands, with memory for copies and accumulators."""
        schedule, code, kernel = self.schedule, self.code, self.kernel
        blocks = schedule.part // BLOCK
        sums = (schedule.held * schedule.strips if schedule.parts else 2) * SUMS
        parts = PARTS if kernel.run == 1 else 1
        tile = blocks * parts * BYTES
        sizes: list[int] = [sums, schedule.strips * 2 * tile]
        sizes += [max(2, schedule.panels) * 2 * tile, 2 * BYTES] if kernel.run == 1 else [tile]
        memory = scratch(code, self.emitter.worker, sum(sizes))
        buffers = [code.gep(memory, sum(sizes[:i]), "i8") for i in range(len(sizes))]
        if kernel.run > 1:
            return ElementRows(kernel, buffers[1], buffers[2], self.emitter), buffers[0]
        left, right, scratch_rows = buffers[1:]
        return Bf16Split(
            kernel, self.narrow, blocks, schedule.ragged, left, right, scratch_rows, self.emitter
        ), buffers[0]

    def print(self) -> str:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        begin, end = code.arguments[2:]
        configure(self.code)
        strips: Int = emitter.dim(ceildiv(self.row_count, WIDTH))
        panels: Int = emitter.dim(kernel.panel.extent)
        across = code.cmp("ne", emitter.dim(symbol(ACROSS)), 0)

        def of_both(panel: Int, strip: Int) -> Int:
            return code.select(across, code.value(panel), code.value(strip))

        units, others = code.max(of_both(panels, strips), 1), of_both(strips, panels)
        groups = emitter.dim(symbol(GROUPS))
        each = code.udiv(code.add(others, code.sub(groups, 1)), groups)
        last = code.udiv(code.add(end, code.sub(units, 1)), units)
        with code.for_(code.udiv(begin, units), last) as outer, emitter.scope():
            rest: Int = code.udiv(outer.iv, groups)
            for position, loop in enumerate(reversed(kernel.batch)):
                n = emitter.dim(loop.extent)
                outermost = position == len(kernel.batch) - 1
                emitter.bindings[loop], rest = (rest, 0) if outermost else (code.urem(rest, n), code.udiv(rest, n))
            before = code.mul(outer.iv, units)
            low, high = code.max(code.sub(begin, before), 0), code.min(code.sub(end, before), units)
            start = code.mul(code.urem(outer.iv, groups), each)
            stop = code.min(code.add(start, each), others)
            self._rows(of_both(start, low), of_both(stop, high), of_both(low, start), of_both(high, stop))
        tile(self.code, "tilerelease")
        code.return_()
        return code.text()

    # ---- loops around tiles --------------------------------------------------------------------------------------------
    def _rows(self, first: Int, stop: Int, panel: Int, panels: Int) -> None:
        """Strips and panels of one batch."""
        code, schedule = self.code, self.schedule
        with code.for_(first, stop, schedule.strips) as block, self.emitter.scope():
            strips = code.min(code.sub(stop, block.iv), schedule.strips)
            if not schedule.parts:
                self._part(block.iv, strips, panel, panels)
                return
            with code.for_(panel, panels, schedule.held) as group, self.emitter.scope():
                end = code.min(code.add(group.iv, schedule.held), panels)
                self._parts(block.iv, strips, group.iv, end)

    def _parts(self, first: Int, strips: Int, panel: Int, panels: Int) -> None:
        """Accumulates a block of strips and a group of panels, one part of the depth after another."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        depth = emitter.dim(kernel.inner.extent)
        with (
            code.for_(0, code.max(depth, 1), self.schedule.part) as part,
            emitter.scope(),
        ):  # an empty depth has one part
            self._between(part.iv, code.min(code.add(part.iv, self.schedule.part), depth))
            self._part(first, strips, panel, panels)

    def _between(self, start: Int, stop: Int) -> None:
        self.start, self.stop = start, stop
        self.operands.between(start, stop)

    def _part(self, first: Int, strips: Int, panel: Int, panels: Int) -> None:
        code, emitter, schedule, operands = self.code, self.emitter, self.schedule, self.operands
        if not schedule.parts:
            self._between(0, emitter.dim(self.kernel.inner.extent))
        operands.copy_left(code.mul(first, WIDTH), code.mul(strips, 2))
        units = code.mul(operands.here, operands.units)
        with code.for_(panel, panels, schedule.panels, [code.const(0)]) as few, emitter.scope():
            stop = code.min(code.add(few.iv, schedule.panels), panels)
            there = code.urem(code.sub(few.iv, panel), 2) if schedule.copies else 0
            operands.copy_panels(few.iv, stop, there, few.carried[0], units)
            with code.for_(few.iv, stop) as each, emitter.scope():
                emitter.bindings[self.kernel.panel] = each.iv
                panel_index = code.add(code.sub(each.iv, few.iv), there)
                slots = code.mul(code.sub(each.iv, panel), schedule.strips) if schedule.parts else None
                later = code.min(code.add(each.iv, 1), code.sub(panels, 1))
                with code.for_(0, strips) as strip, emitter.scope():
                    self._strip(first, strips, strip.iv, panel_index, slots, later)
            copied = code.mul(code.mul(strips, operands.here), schedule.copies)
            few.yield_(code.value(code.min(copied, units)))

    # ---- a strip and a panel -------------------------------------------------------------------------------------------
    def _strip(self, first: Int, strips: Int, strip: Int, panel_index: Int, slots: Int | None, later: Int) -> None:
        """Accumulates strip number `strip` from `first` on and panel `panel_index` of those in memory. Overlaps with stores
        of the previous strip and copies of units of panel `later`."""
        code, emitter, schedule, operands = self.code, self.emitter, self.schedule, self.operands
        sums, others = (self._sums(slots, s) for s in (strip, code.max(code.sub(strip, 1), 0)))
        start, last, rows = self._first(), self._last(), code.mul(code.add(first, strip), WIDTH)
        corners = [(t, code.gep(sums, t // 2 * LINES * WIDTH + t % 2 * LINES, "f32")) for t in range(4)]
        stride = code.const(4 * WIDTH)
        if start is None:
            for t, _ in corners:
                tile(self.code, "tilezero", t)
        else:
            with code.if_(start):
                for t, _ in corners:
                    tile(self.code, "tilezero", t)
            with code.else_():
                for t, at in corners:
                    tile(self.code, "tileloadd64", t, at, stride)
        if not schedule.rows:
            with self._if(last), code.for_(rows, code.add(rows, WIDTH)) as row, emitter.scope():
                self.epilogue.fetch([row.iv])
        waits = both(code, code.cmp("sgt", strip, 0), last)

        def beside(block: Int) -> None:
            for line in range(schedule.copies):
                number = code.add(code.mul(code.add(code.mul(strip, operands.here), block), schedule.copies), line)
                number = code.min(number, code.sub(code.mul(operands.here, operands.units), 1))
                with emitter.scope():
                    operands.copy_unit(later, number, code.sub(1, panel_index))
            if schedule.rows:
                begin = code.mul(block, schedule.rows)
                with self._if(last), emitter.scope():
                    self.epilogue.fetch([code.add(code.add(rows, begin), i) for i in range(schedule.rows)])
                inside = both(code, waits, code.cmp("slt", begin, WIDTH))
                begin = code.min(begin, WIDTH - schedule.rows)
                self._write_few(code.add(code.sub(rows, WIDTH), begin), others, begin, inside)

        def checked(block: Int) -> None:
            if schedule.rows and self.checks:
                begin = code.mul(block, schedule.rows)
                kept = code.gep(others, code.mul(code.min(begin, WIDTH - schedule.rows), WIDTH), "f32")
                not_finite = self._is_not_finite(kept, schedule.rows)
                with (
                    self._if(both(code, both(code, waits, code.cmp("slt", begin, WIDTH)), not_finite)),
                    emitter.scope(),
                ):
                    self._sum_in_float32(code.add(code.sub(rows, WIDTH), begin), schedule.rows, kept)

        self._multiply(operands.bases(strip, panel_index), checked, beside)
        for t, at in corners:
            tile(self.code, "tilestored64", t, at, stride)
        over = code.cmp("eq", strip, code.sub(strips, 1)) if schedule.rows else None
        with self._if(both(code, over, last)), emitter.scope():
            self._write(rows, sums)

    def _sums(self, slots: Int | None, strip: Int) -> Value:
        """The address of the accumulators of a strip and the current panel."""
        code = self.code
        slot = code.urem(strip, 2) if slots is None else code.add(slots, strip)
        return code.gep(self.sums, code.mul(slot, SUMS), "i8")

    def _multiply(self, bases: tuple[Value, ...], before: Callable[[Int], None], beside: Callable[[Int], None]) -> None:
        """Multiplies one part of the depth. The work of `beside` is interleaved with each block's instructions, because a
        core's reorder window is short and should contain both kinds."""
        code, operands = self.code, self.operands
        strides = tuple(code.const(stride) for stride in operands.strides)
        parts = max(max(pair) for pair in operands.part_pairs) + 1
        with code.for_(0, operands.here) as block:
            before(block.iv)
            addresses = [
                [
                    code.gep(code.gep(base, code.mul(block.iv, operands.steps[t // 2]), "i8"), part * BYTES, "i8")
                    for part in range(parts)
                ]
                for t, base in enumerate(bases)
            ]
            with code.aside() as pieces:
                beside(block.iv)
            left_over = iter(pieces)
            instructions = _block(addresses, strides, operands)
            share = -(-len(pieces) // len(instructions))
            for name, registers in instructions:
                tile(self.code, name, *registers)
                few = list(islice(left_over, share))
                self.code.lines += few
                pad(self.code, max(0, self.space - len(few)), self._newest(few))

    def _newest(self, pieces: list[str]) -> Value | None:
        """The last vector that these lines compute; LLVM would move its computation down to its store."""
        names = [piece.split(" = ", 1)[0].strip() for piece in pieces]
        types = [(name, self.code.types.get(name, "")) for name in names]
        return next(
            (Value(n, t) for n, t in reversed(types) if t in (self.epilogue.type, f"vector<{LINES}xi32>")), None
        )

    def _if(self, condition: Value | None) -> AbstractContextManager[None]:
        """Runs the body if the condition holds; always for None."""
        return nullcontext() if condition is None else self.code.if_(condition)

    def _first(self) -> Value | None:
        """True in the first part of the depth; None if there is only one."""
        if not self.schedule.parts:
            return None
        return self.code.cmp("eq", self.start, 0)

    def _last(self) -> Value | None:
        if not self.schedule.parts:
            return None
        return self.code.cmp("eq", self.stop, self.emitter.dim(self.kernel.inner.extent))

    def _write(self, first: Int, sums: Value) -> None:
        """Writes the existing rows of a strip."""
        code, emitter = self.code, self.emitter
        left = code.min(code.sub(emitter.dim(self.row_count), first), WIDTH)
        if self.checks:
            with code.if_(self._is_not_finite(sums, WIDTH)), emitter.scope():
                self._sum_in_float32(first, left, sums)
        self.epilogue.rolled(first, left, sums)

    def _write_few(self, first: Int, sums: Value, begin: Int, inside: Value | None) -> None:
        """Writes a few rows of a strip from its row `begin` on, under the condition `inside`."""
        code = self.code
        kept = code.gep(sums, code.mul(begin, WIDTH), "f32")
        rows: list[Int] = [code.add(first, i) for i in range(self.schedule.rows)]
        loads = [code.load(kept, i * LINES, self.epilogue.type) for i in range(2 * len(rows))]
        self.epilogue.written(rows, loads, None, None if inside is None else code.splat(inside, LINES))

    def _sum_in_float32(self, first: Int, count: Int, sums: Value) -> None:
        sum_rows(self.kernel, self.narrow, LINES, first, count, sums, self.emitter)

    def _is_not_finite(self, sums: Value, count: int) -> Value:
        """True if an element of `count` rows (an even number) is not finite: multiplied by zero it is not zero."""
        code, type_ = self.code, self.epilogue.type
        zero = code.const(0, type_)
        with code.for_(0, count, 2, [zero] * 4) as row:
            at = code.mul(row.iv, WIDTH)
            row.yield_(
                *(
                    math.apply(code, "fma", "float32", code.load(sums, code.add(at, c * LINES), type_), zero, total)
                    for c, total in enumerate(row.carried)
                )
            )
        total = row.results[0]
        for other in row.results[1:]:
            total = math.apply(code, "add", "float32", total, other)
        bad = code.cmpf("uno", total, total)
        return code.raw(f"vector.reduction <or>, {bad} : {bad.type} into i1", "i1")


def _block(
    addresses: list[list[Value]], strides: tuple[Value, ...], operands: TileOperands
) -> list[tuple[str, tuple[Value | int, ...]]]:
    """The instructions that multiply a block. `addresses` are those of the parts of both tiles of the lhs, and of the
    rhs. The four registers after the accumulators hold one part of each."""
    made: list[tuple[str, tuple[Value | int, ...]]] = []
    there: list[int | None] = [None, None]
    for pair in operands.part_pairs:
        for which, part in enumerate(pair):
            if there[which] != part:
                made += [
                    ("tileloadd64", (4 + t, addresses[t][part], strides[which])) for t in (2 * which, 2 * which + 1)
                ]
        there = list(pair)
        made += [(operands.instruction, (t, 4 + t // 2, 6 + t % 2)) for t in range(4)]
    return made
