"""Prints contraction kernels for tile registers: 32 rows x 32 columns of sums at a time, in four of them.

A tile register multiplies bfloat16 and sums in float32. The sides are split into three numbers of bfloat16 each (splits.py), and
the six largest of their nine products are summed: what is left out is below a unit in float32's last place, and the sum of a
word's two products is rounded once, so that the error is no larger than that of multiply-adds in float32. Infinities split into
NaN: a tile with an element that is not finite is summed once more, plainly. Numbers below 2 ** -126, parts of others too,
count as zero, as everywhere on these registers.

What a thread copies is shared by all that it sums: a block of rows, as large as a cache holds, and panel after panel.
`emit` is the entry point, `heuristics.py` says when it pays.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from burn.codegen.cpu import heuristics, math
from burn.codegen.cpu.amx import apart, configure, tile
from burn.codegen.cpu.epilogue import Epilogue
from burn.codegen.cpu.loops import open_kernel, scratch
from burn.codegen.cpu.operands import panel_mask, place_rows
from burn.codegen.cpu.panels import Tiled
from burn.codegen.cpu.splits import BLOCK, BYTES, LINES, PARTS, Splits
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value
from burn.dialect.dims import Dim, ceildiv, product
from burn.kernels.body import ContractionKernel
from burn.kernels.parameters import argument_names

WIDTH = 2 * LINES
"""Columns of a panel, and rows of a strip."""

SUMS = WIDTH * WIDTH * 4
"""Bytes of the sums of a strip and a panel."""

LINE = 16
"""Numbers of float32 in a cache line."""

PRODUCTS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 0))
"""Parts of the left and of the right side that are multiplied, small ones first. Neighbours share a side, which stays in its
registers."""


@dataclass(frozen=True)
class Schedule:
    """The depth is taken `part` places at a time; `parts` says that there may be several, and `ragged` that the last block of
    one may be short. `strips` of rows are copied together, and `panels` of columns; sums are held for `held` panels between
    parts. A launch goes over strips, or `across` over panels. Each block that is multiplied asks for `fetches` lines of the
    panels that are copied next."""

    part: int
    parts: bool
    ragged: bool
    strips: int
    panels: int
    held: int
    across: bool
    fetches: int

    @staticmethod
    def of(kernel: Tiled) -> Schedule:
        rows, depth = product([v.extent for v in kernel.rows]), kernel.inner.extent
        part = heuristics.tile_part(depth, BLOCK)
        parts = not isinstance(depth, int) or depth > part
        strips = heuristics.tile_strips(ceildiv(rows, WIDTH), part * WIDTH * PARTS * 2)
        panels = heuristics.tile_panels(kernel.panel.extent, part * WIDTH * PARTS * 2)
        held = heuristics.tile_held(strips * SUMS) if parts else 1
        ragged = heuristics.factor(depth) % BLOCK != 0
        across = heuristics.across_panels(rows, kernel.column.extent, strips * WIDTH)
        fetches = heuristics.tile_fetches(kernel, strips)
        return Schedule(part, parts, ragged, strips, panels, held, across, fetches)

    def units(self, kernel: Tiled) -> Dim:
        """Iterations of a launch for each batch."""
        if self.across:
            return kernel.panel.extent
        return ceildiv(product([v.extent for v in kernel.rows]), WIDTH)

    def count(self, kernel: Tiled) -> Dim:
        return product([v.extent for v in kernel.batch]) * self.units(kernel)

    def work(self, kernel: Tiled) -> Dim:
        """Vector operations of one iteration."""
        rows = product([v.extent for v in kernel.rows])
        return kernel.inner.extent * (rows if self.across else kernel.column.extent)

    def least(self, kernel: Tiled) -> int:
        """Iterations that share what is copied for them."""
        return heuristics.tile_least(self.units(kernel))


def emit(kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        tiled = Tiled.of(kernel, WIDTH)
        assert tiled is not None
        self.kernel, self.schedule = tiled, schedule
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.row_count = product([v.extent for v in tiled.rows])
        self.epilogue = Epilogue(tiled, LINES, "f32", self.emitter)
        left, right, turned, self.sums = self._scratch()
        blocks = schedule.part // BLOCK
        self.splits = Splits(tiled, blocks, schedule.ragged, left, right, turned, self.emitter)

    def _scratch(self) -> list[Value]:
        """Room for a block of rows, for panels, for a block that is turned, and for sums."""
        schedule, code = self.schedule, self.code
        tile = schedule.part // BLOCK * PARTS * BYTES
        held = schedule.held * schedule.strips if schedule.parts else 1
        sizes = (schedule.strips * 2 * tile, schedule.panels * 2 * tile, 2 * BYTES, held * SUMS)
        memory = scratch(code, self.emitter.worker, sum(sizes))
        return [code.gep(memory, sum(sizes[:i]), "i8") for i in range(len(sizes))]

    def print(self) -> str:
        code, emitter, kernel, schedule = self.code, self.emitter, self.kernel, self.schedule
        begin, end = code.arguments[2:]
        configure(self.code)
        strips: Int = emitter.dim(ceildiv(self.row_count, WIDTH))
        panels: Int = emitter.dim(kernel.panel.extent)
        units = code.max(panels if schedule.across else strips, 1)
        last = code.udiv(code.add(end, code.sub(units, 1)), units)
        with code.for_(code.udiv(begin, units), last) as batch, emitter.scope():
            rest: Int = batch.iv
            for position, loop in enumerate(reversed(kernel.batch)):
                n = emitter.dim(loop.extent)
                outermost = position == len(kernel.batch) - 1
                emitter.places[loop], rest = (rest, 0) if outermost else (code.urem(rest, n), code.udiv(rest, n))
            before = code.mul(batch.iv, units)
            low, high = code.max(code.sub(begin, before), 0), code.min(code.sub(end, before), units)
            if schedule.across:
                self._rows(0, strips, low, high)
            else:
                self._rows(low, high, 0, panels)
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
        """Part of the depth after part, for a block of strips and a group of panels."""
        code, emitter, kernel, splits = self.code, self.emitter, self.kernel, self.splits
        depth = emitter.dim(kernel.inner.extent)
        with code.for_(0, code.max(depth, 1), self.schedule.part) as part, emitter.scope():  # of nothing, one
            splits.start, splits.stop = part.iv, code.min(code.add(part.iv, self.schedule.part), depth)
            self._part(first, strips, panel, panels)

    def _part(self, first: Int, strips: Int, panel: Int, panels: Int) -> None:
        code, emitter, schedule, splits = self.code, self.emitter, self.schedule, self.splits
        if not schedule.parts:
            splits.start, splits.stop = 0, emitter.dim(self.kernel.inner.extent)
        splits.copy_left(code.mul(first, WIDTH), code.mul(strips, 2))
        with code.for_(panel, panels, schedule.panels) as few, emitter.scope():
            stop = code.min(code.add(few.iv, schedule.panels), panels)
            splits.copy_right(few.iv, stop)
            with code.for_(few.iv, stop) as each, emitter.scope():
                emitter.places[self.kernel.panel] = each.iv
                right = splits.right_tile(code.mul(code.sub(each.iv, few.iv), 2))
                later = splits.right_source(code.add(each.iv, schedule.panels)) if schedule.fetches else None
                with code.for_(0, strips) as strip, emitter.scope():
                    left = splits.left_tile(code.mul(strip.iv, 2))
                    slot = code.add(code.mul(code.sub(each.iv, panel), schedule.strips), strip.iv)
                    fetched = self._share(later, strip.iv)
                    self._strip(code.add(first, strip.iv), left, right, slot if schedule.parts else 0, fetched)

    def _share(self, panel: Value | None, strip: Int) -> Value | None:
        """What of a panel a strip asks for."""
        if panel is None:
            return None
        lines = self.code.mul(self.splits.here, self.schedule.fetches)
        return self.code.gep(panel, self.code.mul(self.code.mul(strip, lines), LINE), "f32")

    # ---- a strip and a panel -------------------------------------------------------------------------------------------
    def _strip(self, strip: Int, left: Value, right: Value, slot: Int, fetched: Value | None) -> None:
        code = self.code
        sums = code.gep(self.sums, code.mul(slot, SUMS), "i8")
        first, last = self._first(), self._last()
        with code.if_(last) if last is not None else nullcontext(), self.emitter.scope():
            rows = code.mul(strip, WIDTH)
            stop = code.min(code.add(rows, WIDTH), self.emitter.dim(self.row_count))
            with code.for_(rows, stop) as row, self.emitter.scope():
                self.epilogue.fetch([row.iv])
        corners = [(t, code.gep(sums, t // 2 * LINES * WIDTH + t % 2 * LINES, "f32")) for t in range(4)]
        apart = code.const(4 * WIDTH)
        if first is None:
            for t, _ in corners:
                tile(self.code, "tilezero", t)
        else:
            with code.if_(first):
                for t, _ in corners:
                    tile(self.code, "tilezero", t)
            with code.else_():
                for t, at in corners:
                    tile(self.code, "tileloadd64", t, at, apart)
        self._multiply(left, right, fetched)
        for t, at in corners:
            tile(self.code, "tilestored64", t, at, apart)
        if last is None:
            self._write(strip, sums)
        else:
            with code.if_(last), self.emitter.scope():
                self._write(strip, sums)

    def _multiply(self, left: Value, right: Value, fetched: Value | None) -> None:
        """Adds the products of one part of the depth, and asks for lines from `fetched` on."""
        code, splits, fetches = self.code, self.splits, self.schedule.fetches
        times = 4 * len(PRODUCTS)
        asked = {number * times // fetches: number for number in range(fetches)}
        line = code.const(4 * LINES)
        size = splits.blocks * PARTS * BYTES
        sides = (left, code.gep(left, size, "i8"), right, code.gep(right, size, "i8"))
        with code.for_(0, splits.here) as block:
            at = code.mul(block.iv, PARTS * BYTES)
            there: list[int | None] = [None, None]
            for number, product_ in enumerate(PRODUCTS):
                for side, part in enumerate(product_):
                    if there[side] != part:
                        for t in (2 * side, 2 * side + 1):
                            address = code.gep(code.gep(sides[t], at, "i8"), part * BYTES, "i8")
                            tile(self.code, "tileloadd64", 4 + t, address, line)
                            apart(self.code, heuristics.TILE_SPACE)
                there = list(product_)
                for t in range(4):
                    tile(self.code, "tdpbf16ps", t, 4 + t // 2, 6 + t % 2)
                    if fetched is not None and (which := asked.get(4 * number + t)) is not None:
                        place = code.mul(code.add(code.mul(block.iv, fetches), which), LINE)
                        code.prefetch(fetched, place, "f32", False)
                    apart(self.code, heuristics.TILE_SPACE)

    def _first(self) -> Value | None:
        """Whether this is the first part of the depth; None where there is but one."""
        if not self.schedule.parts:
            return None
        return self.code.cmp("eq", self.splits.start, 0)

    def _last(self) -> Value | None:
        if not self.schedule.parts:
            return None
        return self.code.cmp("eq", self.splits.stop, self.emitter.dim(self.kernel.inner.extent))

    def _write(self, strip: Int, sums: Value) -> None:
        code, emitter = self.code, self.emitter
        first = code.mul(strip, WIDTH)
        left = code.min(code.sub(emitter.dim(self.row_count), first), WIDTH)
        with code.if_(self._strange(sums)), emitter.scope():
            self._sum_plainly(first, left, sums)
        self.epilogue.rolled(first, left, sums)

    def _strange(self, sums: Value) -> Value:
        """Whether an element is not finite: zero times it is not zero then."""
        code, type_ = self.code, self.epilogue.type
        zero = code.const(0, type_)
        with code.for_(0, WIDTH, 1, [zero, zero]) as row:
            at = code.mul(row.iv, WIDTH)
            row.yield_(
                *(
                    math.apply(code, "fma", "float32", code.load(sums, code.add(at, c * LINES), type_), zero, total)
                    for c, total in enumerate(row.carried)
                )
            )
        total = math.apply(code, "add", "float32", *row.results)
        bad = code.cmpf("uno", total, total)
        return code.raw(f"vector.reduction <or>, {bad} : {bad.type} into i1", "i1")

    def _sum_plainly(self, first: Int, left: Int, sums: Value) -> None:
        """Sums a strip's rows in float32."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        with code.for_(0, 2) as c, emitter.scope(), code.for_(0, left) as row, emitter.scope():
            place_rows(emitter, kernel.rows, code.add(first, row.iv))
            mask = panel_mask(emitter, kernel, c.iv, LINES)
            emitter.lane, emitter.lanes = kernel.within, LINES
            with emitter.under(mask):
                emitter.places[kernel.within] = code.mul(c.iv, LINES)
                zero = code.const(0, self.epilogue.type)
                with code.for_(0, emitter.dim(kernel.inner.extent), 1, [zero]) as depth, emitter.scope():
                    emitter.places[kernel.inner] = depth.iv
                    pair = emitter.wide(kernel.lhs), emitter.wide(kernel.rhs)
                    depth.yield_(math.apply(code, "fma", kernel.dtype, *pair, depth.carried[0]))
            emitter._varies.clear()
            emitter.lane, emitter.lanes = None, 1
            code.store(depth.results[0], sums, code.add(code.mul(row.iv, WIDTH), code.mul(c.iv, LINES)))
