"""Prints contraction kernels as register tiles of rows x columns, with all accumulators in registers.

A long depth is accumulated in parts, many tiles at a time, so that both operands stay in a cache. `emit` is the entry point;
`schedule.py` decides tiles and their order, `accumulation.py` prints a tile's multiply-adds, `epilogue.py` its results.
"""

from __future__ import annotations

from contextlib import nullcontext

from burn.codegen.cpu import math
from burn.codegen.cpu.head import open_kernel
from burn.codegen.cpu.heuristics.epilogue import parts_masks
from burn.codegen.cpu.matmul.accumulation import Accumulation
from burn.codegen.cpu.matmul.epilogue import Epilogue
from burn.codegen.cpu.matmul.packing import both, increment_rows
from burn.codegen.cpu.matmul.schedule import Schedule
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value
from burn.dialect.dims import exact_div, product
from burn.kernels.body import ContractionKernel
from burn.kernels.parameters import argument_names


def emit(kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        tiled = Tiled.of(kernel, schedule.width)
        assert tiled is not None
        self.kernel, self.schedule = tiled, schedule
        self.row_count = product([v.extent for v in tiled.rows])
        self.tile = schedule.tile
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.accumulation = Accumulation(tiled, schedule, target, self.emitter)
        self.lanes, self.element = self.accumulation.lanes, self.accumulation.element
        self.parts_masks = parts_masks(target)
        self.epilogue = Epilogue(tiled, self.lanes, self.element, self.emitter, target.compact)
        self.read = self.accumulation.read

    def print(self) -> str:
        code, emitter, read = self.code, self.emitter, self.read
        begin, end = code.arguments[2:]
        part, held = self.schedule.part, self.schedule.held
        if part is None:
            self._tiles(begin, end)
        else:
            depth = emitter.dim(self.kernel.inner.extent)
            with code.for_(code.sub(begin, code.urem(begin, held)), end, held) as group, emitter.scope():
                first, stop = code.max(group.iv, begin), code.min(code.add(group.iv, held), end)
                with code.for_(0, code.max(depth, 1), part) as parts, emitter.scope():  # an empty depth has one part
                    read.start, read.stop = parts.iv, code.min(code.add(parts.iv, part), depth)
                    self._tiles(first, stop)
        code.return_()
        return code.text()

    def _tiles(self, begin: Int, end: Int) -> None:
        """A range of tiles, one after the other."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        blocks, in_block = self.schedule.blocks(kernel)
        panels = kernel.panel.extent
        read = self.read
        carried = [code.const(-1) for memory in (read.copied, read.transposed_rows) if memory is not None]
        with code.for_(begin, end, 1, carried) as flat, emitter.scope():
            n = emitter.dim(in_block)
            index, rest = code.urem(flat.iv, n), code.udiv(flat.iv, n)
            group = rest
            self.accumulation.tile_in_block, self.accumulation.in_block = index, n
            n = emitter.dim(panels)
            panel, rest = code.urem(rest, n), code.udiv(rest, n)
            rows = rest
            which: Int = 0
            if blocks != 1 and not self.schedule.rows_outside:
                n = emitter.dim(blocks)
                which, rest = code.urem(rest, n), code.udiv(rest, n)
            for position, loop in enumerate(reversed(kernel.batch)):
                n = emitter.dim(loop.extent)
                last = position == len(kernel.batch) - 1 and not self.schedule.rows_outside
                emitter.bindings[loop], rest = (rest, 0) if last else (code.urem(rest, n), code.udiv(rest, n))
            if self.schedule.rows_outside:
                which = rest
            emitter.bindings[kernel.panel] = panel
            held: list[Value] = []
            tile = code.add(code.mul(which, emitter.dim(in_block)), index)
            first = code.mul(tile, self.tile)
            exists = None if blocks == 1 else code.cmp("slt", first, emitter.dim(self.row_count))
            if read.copied is not None:  # for tiles past the last one nothing is copied
                wanted = both(code, code.cmp("ne", group, flat.carried[0]), exists)
                assert wanted is not None
                with code.if_(wanted), emitter.scope():
                    read.copy_panel()
                held.append(code.value(group))
            if read.transposed_rows is not None:
                with code.if_(code.cmp("ne", rows, flat.carried[len(held)])), emitter.scope():
                    read.transpose_rows(code.mul(which, emitter.dim(in_block)))
                held.append(code.value(rows))
                read.tile_in_block = index
            if held:
                flat.yield_(*held)
            slot = code.sub(flat.iv, begin)
            with code.if_(exists) if exists is not None else nullcontext():
                self._of_panel(panel, first, slot)

    def _of_panel(self, panel: Int, first: Int, slot: Int) -> None:
        """A tile of a panel; the last panel may need fewer vectors, or masks."""
        code, emitter, schedule = self.code, self.emitter, self.schedule
        if schedule.narrow is None and not schedule.masks_last:
            self._tile(first, slot)
            return
        default = self.accumulation.vectors
        last = code.cmp("eq", code.value(panel), code.value(code.sub(emitter.dim(self.kernel.panel.extent), 1)))
        with code.if_(last), emitter.scope():
            self.accumulation.vectors = self.epilogue.vectors = schedule.narrow or default
            self._tile(first, slot)
            self.accumulation.vectors = self.epilogue.vectors = default
        with code.else_(), emitter.scope():
            self.accumulation.is_whole = schedule.masks_last
            self._tile(first, slot)
            self.accumulation.is_whole = False

    def _tile(self, first: Int, slot: Int) -> None:
        """The tile of rows from `first` on. `slot` is its number among the tiles whose accumulators are stored between parts
        of the depth."""
        code, emitter = self.code, self.emitter
        exact = self.schedule.even
        rows: list[Int] = []
        total = emitter.dim(self.row_count)
        for r in range(self.tile):
            row = code.add(first, r)
            rows.append(row if exact or r == 0 else code.min(row, code.sub(total, 1)))
        there = None if exact else [code.cmp("slt", code.add(first, r), total) for r in range(self.tile)]
        increment_rows(emitter, self.kernel.rows, rows, there)
        last = self.read.last()
        if self.schedule.fetches:
            with code.if_(last) if last is not None else nullcontext():
                self.epilogue.fetch(rows)
        sums = self.accumulation.sum(rows)
        if last is None:
            self._write(first, rows, sums)
            return
        sums = self._continued(sums, slot)
        with code.if_(last), emitter.scope():
            self._write(first, rows, sums)
        with code.else_(), emitter.scope():
            for address, value in zip(self._held(slot), sums, strict=True):
                code.store(value, address, 0)

    def _held(self, slot: Int) -> list[Value]:
        """The addresses of a tile's accumulators between two parts of the depth."""
        code, held = self.code, self.read.held
        assert held is not None
        base = code.gep(held, code.mul(slot, self.tile * self.kernel.width), self.element)
        return [
            code.gep(base, index * self.lanes, self.element) for index in range(self.tile * self.accumulation.vectors)
        ]

    def _continued(self, sums: list[Value], slot: Int) -> list[Value]:
        """The accumulators plus those of the previous parts."""
        code, type_ = self.code, self.accumulation.type
        zero = code.const(0, type_)
        first = code.cmp("eq", self.read.start, 0)
        before = [code.select(first, zero, code.load(address, 0, type_)) for address in self._held(slot)]
        return [math.apply(code, "add", self.kernel.dtype, a, b) for a, b in zip(before, sums, strict=True)]

    def _write(self, first: Int, rows: list[Int], sums: list[Value]) -> None:
        code, total = self.code, self.emitter.dim(self.row_count)
        if self.schedule.rolls:
            kept = code.alloca(self.tile * self.kernel.width, self.element)
            for index, value in enumerate(sums):
                code.store(value, kept, index * self.lanes)
            left = self.tile if self.schedule.even else code.min(code.sub(total, first), self.tile)
            self.epilogue.rolled(first, left, kept)
            return
        everything = (
            [] if self.schedule.even or self.tile == 1 else [code.cmp("sle", code.add(first, self.tile), total)]
        )
        exists = [code.cmp("slt", code.add(first, r), total) for r in range(self.tile)] if everything else None
        if self.parts_masks and exact_div(self.kernel.column.extent, self.kernel.width) is None:
            stop = code.mul(code.add(self.emitter.bindings[self.kernel.panel], 1), self.kernel.width)
            everything.append(code.cmp("sle", stop, self.emitter.dim(self.kernel.column.extent)))
        if not everything:
            self.epilogue.written(rows, sums, None)
            return
        whole: Value | None = None
        for condition in everything:
            whole = both(code, whole, condition)
        assert whole is not None
        with code.if_(whole), self.emitter.scope():
            self.epilogue.written(rows, sums, None, masked=not self.parts_masks)
        with code.else_(), self.emitter.scope():
            self.epilogue.written(rows, sums, exists)
