"""Prints contraction kernels as register tiles of rows x columns, with all accumulators in registers.

Each step broadcasts one element of the lhs and multiplies it by vectors of neighbouring columns of the rhs. A long depth is
accumulated in parts, many tiles at a time, so that both operands stay in a cache. `emit` is the entry point;
`packing.py` reads the operands, `heuristics/` chooses tile sizes and their order.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.head import open_kernel
from burn.codegen.cpu.heuristics.cache_blocking import (
    copies_panel,
    depth_part,
    fetches_ahead,
    held_tiles,
    row_block,
    rows_outside,
    transposed_block,
    transposes_rows,
)
from burn.codegen.cpu.heuristics.epilogue import fetches_epilogue, parts_masks, rolls_epilogue
from burn.codegen.cpu.heuristics.padding import skips_padding
from burn.codegen.cpu.heuristics.panels import last_vectors
from burn.codegen.cpu.heuristics.registers import split_depth, tile_rows, unroll_factor
from burn.codegen.cpu.matmul import bf16_pairs, vnni
from burn.codegen.cpu.matmul.epilogue import Epilogue
from burn.codegen.cpu.matmul.packing import Operands, both, increment_rows
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.codegen.cpu.unroll import behind, unrolled
from burn.codegen.host.emit import Int, Value, vector
from burn.dialect.dims import Dim, LoopVar, ceildiv, coefficient, dim_max, exact_div, factor, product
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel
from burn.kernels.parameters import argument_names


@dataclass(frozen=True)
class Order:
    """The order of a matmul's tiles: the fields of a `Schedule` from which the others follow."""

    tile: int
    part: int | None
    transposes: bool
    block: int | None
    copies: bool
    rows_outside: bool


@dataclass(frozen=True)
class Schedule:
    """Decisions made while sizes are numbers:

    - `tile`, `split`: rows accumulated at a time, each with `split` accumulators; `even`: tiles cover the rows exactly
    - `block`: tiles that are multiplied with all panels before the next ones (None: all)
    - `copies`: a panel of `width` columns is copied before a block's tiles read it; `transposes`: a block's rows are
      transposed
    - `fetches`: epilogue operands are prefetched; `rolls`: the epilogue is a loop
    - `part`, `held`: the depth is accumulated in parts, for `held` tiles at a time (None: all of it for each tile)
    - `ahead`: the next panel is prefetched
    - `together`, `ragged`: the unroll factor without `split`, and if a remainder may exist
    - `rows_outside`: batches within a block of rows, instead of blocks of rows within a batch
    - `narrow`: vectors of the last panel, if it has fewer columns
    - `skips`: taps of a window that lie in the padding for all rows of a tile are left out
    """

    width: int
    tile: int
    split: int
    block: int | None
    even: bool
    copies: bool
    transposes: bool
    fetches: bool
    rolls: bool
    part: int | None
    held: int
    ahead: bool
    together: int
    ragged: bool
    rows_outside: bool = False
    narrow: int | None = None
    skips: bool = False

    @staticmethod
    def of(kernel: Tiled, target: Target, one_by_one: bool = False) -> Schedule:
        """one_by_one: each row is accumulated as if it were the only one."""
        rows = 1 if one_by_one else product([v.extent for v in kernel.rows])
        vectors = kernel.width // vector_lanes(kernel, target)
        if target.compact:
            return Schedule.plain(kernel, vectors)
        tile = tile_rows(rows, vectors, target)
        part = depth_part(kernel, rows, target)
        transposes = transposes_rows(kernel, tile, target)
        block = (transposed_block if transposes else row_block)(kernel, rows, tile, part, target)
        copies, outside = copies_panel(kernel, rows, tile, block, target), rows_outside(kernel, block, target)
        return Schedule.ordered(kernel, target, rows, Order(tile, part, transposes, block, copies, outside))

    @property
    def order(self) -> Order:
        return Order(self.tile, self.part, self.transposes, self.block, self.copies, self.rows_outside)

    @staticmethod
    def ordered(kernel: Tiled, target: Target, rows: Dim, order: Order) -> Schedule:
        """The schedule with this order of tiles. If rows are transposed, the block must be a number; panels without
        contiguous columns are copied. Otherwise any order is correct. A block has no more tiles than there are."""
        tile, part, block = order.tile, order.part, order.block
        tiles = ceildiv(rows, tile)
        if block is not None and isinstance(tiles, int):
            alike = -(-tiles // max(1, -(-tiles // block)))
            block = max(1, min(block, tiles) if order.transposes else alike)
        vectors = kernel.width // vector_lanes(kernel, target)
        together = unroll_factor(target)
        rolls = rolls_epilogue(kernel, tile * vectors)
        return Schedule(
            width=kernel.width,
            tile=tile,
            split=split_depth(tile, vectors, target),
            block=block,
            even=isinstance(rows, int) and rows % tile == 0,
            copies=order.copies,
            transposes=order.transposes,
            fetches=fetches_epilogue(kernel),
            rolls=rolls,
            part=part,
            held=held_tiles(kernel, rows, tile, block, target) if part else 0,
            ahead=fetches_ahead(kernel, tile, vectors, block, target),
            together=together,
            ragged=any(factor(n) % together != 0 for n in (kernel.inner.extent, part or 0)),
            rows_outside=order.rows_outside,
            narrow=None if rolls else last_vectors(kernel.column.extent, kernel.width, kernel.width // vectors),
            skips=skips_padding(kernel, tile, vectors, target),
        )

    @staticmethod
    def plain(kernel: Tiled, vectors: int) -> Schedule:
        """The schedule with the least code: row by row, with copies only of columns that are not contiguous."""
        copies = not kernel.has_contiguous_columns or kernel.blocks is not None
        return Schedule(kernel.width, 1, 1, None, True, copies, False, False, vectors > 1, None, 0, False, 1, False)

    def least(self, target: Target) -> int:
        """Iterations of a launch that share copies."""
        if self.transposes and self.block:
            return self.block * target.costs.copied_tiles
        return target.costs.copied_tiles if self.copies else 1

    def blocks(self, kernel: Tiled) -> tuple[Dim, Dim]:
        """The number of blocks of tiles, and of tiles in each: the same in all blocks; the last tiles may not exist."""
        tiles = ceildiv(product([v.extent for v in kernel.rows]), self.tile)
        if self.block is None:
            return 1, tiles
        blocks = ceildiv(tiles, self.block)
        return blocks, self.block if self.transposes else ceildiv(tiles, dim_max(blocks, 1))

    def count(self, kernel: Tiled) -> Dim:
        """Iterations of a launch: tiles x panels x batches."""
        return product([v.extent for v in kernel.batch]) * product(self.blocks(kernel)) * kernel.panel.extent

    def work(self, kernel: Tiled) -> Dim:
        """Vector operations of one iteration."""
        return product([v.extent for v in (*kernel.outer, kernel.inner)]) * (self.tile * kernel.width // 8)


def vector_lanes(kernel: Tiled, target: Target) -> int:
    return min(target.lanes(DTYPES[kernel.dtype].size), kernel.width)


def emit(kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        tiled = Tiled.of(kernel, schedule.width)
        assert tiled is not None
        self.kernel, self.schedule = tiled, schedule
        self.element = conversions.element_type(kernel.dtype)
        self.lanes = vector_lanes(tiled, target)
        self.vectors = tiled.width // self.lanes
        self.row_count = product([v.extent for v in tiled.rows])
        self.tile, self.split = schedule.tile, schedule.split
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.type = vector(self.lanes, self.element)
        self.parts_masks = parts_masks(target)
        self.epilogue = Epilogue(tiled, self.lanes, self.element, self.emitter, target.compact)
        self.tile_in_block: Int = 0  # index among the `in_block` tiles that read a panel consecutively
        self.in_block: Int = 1
        transposes = schedule.block if schedule.transposes else None
        self.widens = tiled.run > 1 and tiled.dtype == "float32" and not target.multiplies_pairs
        self.read = Operands(
            tiled, schedule.tile, self.lanes, schedule.copies, transposes, schedule.part, schedule.held, self.emitter,
            widens=self.widens,
        )  # fmt: skip

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
            self.tile_in_block, self.in_block = index, n
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
        """A tile of a panel; the last panel may need fewer vectors."""
        code, emitter, narrow = self.code, self.emitter, self.schedule.narrow
        if narrow is None:
            self._tile(first, slot)
            return
        default = self.vectors
        last = code.cmp("eq", code.value(panel), code.value(code.sub(emitter.dim(self.kernel.panel.extent), 1)))
        with code.if_(last), emitter.scope():
            self.vectors = self.epilogue.vectors = narrow
            self._tile(first, slot)
            self.vectors = self.epilogue.vectors = default
        with code.else_(), emitter.scope():
            self._tile(first, slot)

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
        sums = self._sum(rows)
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
        return [code.gep(base, index * self.lanes, self.element) for index in range(self.tile * self.vectors)]

    def _continued(self, sums: list[Value], slot: Int) -> list[Value]:
        """The accumulators plus those of the previous parts."""
        code, zero = self.code, self.code.const(0, self.type)
        first = code.cmp("eq", self.read.start, 0)
        before = [code.select(first, zero, code.load(address, 0, self.type)) for address in self._held(slot)]
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

    # ---- accumulation --------------------------------------------------------------------------------------------------
    def _sum(self, rows: list[Int]) -> list[Value]:
        """The tile's accumulators, row by row, after the whole depth."""
        zero = self.code.const(0, self.type)
        start = [zero] * (self.tile * self.vectors * self.split)
        sums = self._depth(list(self.kernel.outer), start, rows)
        each = self.tile * self.vectors
        total = sums[:each]
        for part in range(1, self.split):
            total = [
                math.apply(self.code, "add", self.kernel.dtype, a, b)
                for a, b in zip(total, sums[part * each : (part + 1) * each], strict=True)
            ]
        return total

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
        masks = None if kernel.packed or read.copied is not None else read.masks()
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

        if self.split == 1:
            together = self.schedule.together
            prefetch = partial(self._prefetch, ahead, together)
            return unrolled(self.emitter, 0, length, together, carried, multiply, self.schedule.ragged, prefetch)
        each = self.tile * self.vectors
        whole = code.mul(code.udiv(length, self.split), self.split)
        with code.for_(0, whole, self.split, carried) as loop, self.emitter.scope():
            self._prefetch(ahead, self.split, loop.iv)
            parts: list[Value] = []
            for s in range(self.split):
                parts += multiply(loop.iv, s, loop.carried[s * each : (s + 1) * each])
            loop.yield_(*parts)
        results = loop.results
        if isinstance(length, int) and length % self.split == 0:
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
                for r, left in enumerate(lefts[index * self.tile : (index + 1) * self.tile])
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
