"""Prints contraction kernels: one register tile of rows x columns after another, the whole sum in registers.

The left side is read in place, an element broadcast at a time; the right side in vectors of neighbouring columns. Padding of a
convolution costs nothing in the inner loop: a pixel that does not exist is read from a row of zeros. `emit` is the entry
point; tile sizes and the order of tiles come from `heuristics.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.body import (
    Accumulator,
    ContractionKernel,
    Load,
    Rewriter,
    Write,
    children,
    loop_atoms,
    own_dims,
    walk,
)
from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import heuristics, math
from burn.codegen.cpu.emit import PTR, Int, Value, vector
from burn.codegen.cpu.loops import argument_names, conversions_size, open_kernel
from burn.codegen.cpu.target import Target
from burn.codegen.lower import linear
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, coefficient, exact_div, product, substitute
from burn.errors import CompileError


@dataclass(frozen=True)
class Schedule:
    """What is decided while sizes are numbers. `tile` rows are summed at a time, each sum split in `split`; tiles are taken in
    blocks of `block` through all panels (None: all tiles); `even` says that tiles cover the rows exactly, `copies` that a panel
    is copied side by side before a block's tiles read it."""

    tile: int
    split: int
    block: int | None
    even: bool
    copies: bool

    @staticmethod
    def of(kernel: ContractionKernel, target: Target) -> Schedule:
        rows = product([v.extent for v in kernel.rows])
        vectors = kernel.width // vector_lanes(kernel, target)
        tile = heuristics.tile_rows(rows, vectors, bool(kernel.valid), target)
        split = heuristics.split_depth(tile, vectors, target)
        even = isinstance(rows, int) and rows % tile == 0
        block = heuristics.row_block(kernel, rows, tile)
        return Schedule(tile, split, block, even, heuristics.copies_panel(kernel, rows, tile, block))

    def count(self, kernel: ContractionKernel) -> Dim:
        """Iterations of a launch: tiles x panels x batches."""
        tiles = ceildiv(product([v.extent for v in kernel.rows]), self.tile)
        blocked = ceildiv(tiles, self.block) * self.block if self.block else tiles
        return product([v.extent for v in kernel.batch]) * blocked * kernel.panel.extent

    def work(self, kernel: ContractionKernel) -> Dim:
        """Vector operations of one iteration."""
        return product([v.extent for v in (*kernel.outer, kernel.inner)]) * (self.tile * kernel.width // 8)


def vector_lanes(kernel: ContractionKernel, target: Target) -> int:
    return min(target.lanes(conversions_size(kernel.dtype)), kernel.width)


def emit(kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    return _Printer(kernel, schedule, target, sites).print()


class _Printer:
    def __init__(self, kernel: ContractionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        self.kernel, self.schedule = kernel, schedule
        self.element = conversions.element_type(kernel.dtype)
        self.left, self.right = (conversions.element_type(side.dtype) for side in (kernel.lhs, kernel.rhs))
        self.lanes = vector_lanes(kernel, target)
        self.vectors = kernel.width // self.lanes
        self.row_count = product([v.extent for v in kernel.rows])
        self.tile, self.split = schedule.tile, schedule.split
        self.code, self.emitter = open_kernel(kernel.buffers, argument_names(kernel), target, sites)
        self.type = vector(self.lanes, self.element)
        self.zeros, self.staged, self.copied = self._scratch()

    def print(self) -> str:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        begin, end = code.arguments[2:]
        tiles = ceildiv(self.row_count, self.tile)
        block = self.schedule.block
        blocks = ceildiv(tiles, block) if block else 1
        in_block: Dim = block if block else tiles
        panels = kernel.panel.extent
        carried = [] if self.copied is None else [code.const(-1)]
        with code.for_(begin, end, 1, carried) as flat, emitter.scope():
            n = emitter.dim(in_block)
            place, rest = code.urem(flat.iv, n), code.udiv(flat.iv, n)
            group = rest
            n = emitter.dim(panels)
            panel, rest = code.urem(rest, n), code.udiv(rest, n)
            which: Int = 0
            if blocks != 1:
                n = emitter.dim(blocks)
                which, rest = code.urem(rest, n), code.udiv(rest, n)
            for position, loop in enumerate(reversed(kernel.batch)):
                n = emitter.dim(loop.extent)
                last = position == len(kernel.batch) - 1
                emitter.places[loop], rest = (rest, 0) if last else (code.urem(rest, n), code.udiv(rest, n))
            emitter.places[kernel.panel] = panel
            if self.copied is not None:
                with code.if_(code.cmp("ne", group, flat.carried[0])), emitter.scope():
                    self._copy_panel(list(kernel.outer), self.copied)
                flat.yield_(code.value(group))
            tile = code.add(code.mul(which, emitter.dim(in_block)), place)
            first = code.mul(tile, self.tile)
            if blocks != 1:
                with code.if_(code.cmp("slt", first, emitter.dim(self.row_count))):
                    self._tile(first)
            else:
                self._tile(first)
        code.return_()
        return code.text()

    def _scratch(self) -> tuple[Value | None, Value | None, Value | None]:
        """A row of zeros for pixels outside the operand, room for a tile's rows where they must be converted, and room for a
        panel where it is copied."""
        kernel, code = self.kernel, self.code
        zeros, panel = kernel.inner.extent, product([v.extent for v in (*kernel.outer, kernel.inner)]) * kernel.width
        sizes: list[Int | None] = [
            code.mul(self.emitter.dim(zeros), conversions_size(kernel.lhs.dtype)) if kernel.valid else None,
            self.tile * heuristics.STAGE * conversions_size(kernel.dtype) if kernel.lhs.dtype != kernel.dtype else None,
            code.mul(self.emitter.dim(panel), conversions_size(kernel.rhs.dtype)) if self.schedule.copies else None,
        ]
        starts: list[Int] = []
        end: Int = 0
        for size in sizes:
            starts.append(end)
            end = code.add(end, code.mul(code.udiv(code.add(size or 0, 63), 64), 64))
        if all(size is None for size in sizes):
            return None, None, None
        memory = code.call("burn_rt_scratch", [self.emitter.worker, code.value(end)], PTR)
        assert memory is not None
        if sizes[0] is not None:
            with code.for_(0, sizes[0]) as loop:
                code.store(code.const(0, "i8"), memory, loop.iv)
        zeros_at, staged, copied = (
            None if size is None else code.gep(memory, start, "i8") for size, start in zip(sizes, starts, strict=True)
        )
        return zeros_at, staged, copied

    def _copy_panel(self, outer: list[LoopVar], copied: Value) -> None:
        """The panel's columns, those that exist, one place of the depth after another."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        loop_var = outer[0] if outer else kernel.inner
        with code.for_(0, emitter.dim(loop_var.extent)) as loop, emitter.scope():
            emitter.places[loop_var] = loop.iv
            if outer:
                self._copy_panel(outer[1:], copied)
                return
            source = code.gep(emitter.pointers[kernel.rhs.buffer], emitter.dim(kernel.rhs.offset), self.right)
            target = code.gep(
                copied, emitter.dim(self._copied_offset() + Expr.of(kernel.inner) * kernel.width), self.right
            )
            masks = self._masks()
            for c in range(self.vectors):
                mask = masks[c] if masks else None
                loaded = code.load(source, c * self.lanes, vector(self.lanes, self.right), mask)
                code.store(loaded, target, c * self.lanes)

    def _copied_offset(self) -> Dim:
        """Where in a copied panel the innermost contraction loop begins."""
        outer = self.kernel.outer
        at = linear([Expr.of(v) for v in outer], [v.extent for v in outer])
        return at * self.kernel.inner.extent * self.kernel.width

    def _places(self, row: Int) -> None:
        """Sets the row loops for a flattened row number."""
        code, emitter = self.code, self.emitter
        rest = row
        for position, loop in enumerate(reversed(self.kernel.rows)):
            n = emitter.dim(loop.extent)
            last = position == len(self.kernel.rows) - 1
            emitter.places[loop], rest = (rest, 0) if last else (code.urem(rest, n), code.udiv(rest, n))

    def _tile(self, first: Int) -> None:
        code, emitter = self.code, self.emitter
        exact = self.schedule.even
        rows: list[Int] = []
        total = emitter.dim(self.row_count)
        for r in range(self.tile):
            row = code.add(first, r)
            rows.append(row if exact or r == 0 else code.min(row, code.sub(total, 1)))
        sums = self._sum(rows)
        if exact or self.tile == 1:
            self._epilogue(rows, sums, None)
            return
        whole = code.cmp("sle", code.add(first, self.tile), total)
        with code.if_(whole), emitter.scope():
            self._epilogue(rows, sums, None)
        with code.else_(), emitter.scope():
            self._epilogue(rows, sums, [code.cmp("slt", code.add(first, r), total) for r in range(self.tile)])

    # ---- the sum -------------------------------------------------------------------------------------------------------
    def _sum(self, rows: list[Int]) -> list[Value]:
        """The tile's accumulators, row by row, after all of the contraction."""
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
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if outer:
            with code.for_(0, emitter.dim(outer[0].extent), 1, carried) as loop, emitter.scope():
                emitter.places[outer[0]] = loop.iv
                loop.yield_(*self._depth(outer[1:], loop.carried, rows))
            return loop.results
        lefts = [self._row_address(row) for row in rows]
        emitter.places[kernel.inner] = 0
        if self.copied is None:
            right = code.gep(emitter.pointers[kernel.rhs.buffer], emitter.dim(kernel.rhs.offset), self.right)
        else:
            right = code.gep(self.copied, emitter.dim(self._copied_offset()), self.right)
        masks = None if kernel.packed or self.copied is not None else self._masks()
        depth = emitter.dim(kernel.inner.extent)
        if self.staged is None:
            return self._run(depth, carried, lefts, self._advance(kernel.lhs), right, masks)
        with code.for_(0, depth, heuristics.STAGE, carried) as loop, emitter.scope():
            length = code.min(code.sub(depth, loop.iv), heuristics.STAGE)
            converted = self._stage(lefts, loop.iv, length)
            part = code.gep(right, code.mul(loop.iv, self._right_step()), self.right)
            loop.yield_(*self._run(length, loop.carried, converted, 1, part, masks))
        return loop.results

    def _advance(self, side: Load) -> Int:
        """How far apart a side's elements lie along the innermost contraction loop."""
        step = coefficient(side.offset, self.kernel.inner)
        if step is None:
            raise CompileError("internal: a contraction's operand does not advance evenly")
        return self.emitter.dim(step)

    def _right_step(self) -> Int:
        return self._advance(self.kernel.rhs) if self.copied is None else self.kernel.width

    def _stage(self, lefts: list[Value], start: Int, length: Int) -> list[Value]:
        """The rows' elements from `start` on, converted side by side; returns where each row's begin."""
        code, kernel = self.code, self.kernel
        assert self.staged is not None
        step = self._advance(kernel.lhs)
        rows = [code.gep(self.staged, r * heuristics.STAGE, self.element) for r in range(self.tile)]

        def copy(k: Int, lanes: int) -> None:
            for left, row in zip(lefts, rows, strict=True):
                loaded = code.load(left, code.mul(code.add(start, k), step), vector(lanes, self.left))
                code.store(conversions.convert(code, loaded, kernel.lhs.dtype, kernel.dtype), row, k)

        whole: Int = 0
        if step == 1:
            whole = code.mul(code.udiv(length, self.lanes), self.lanes)
            with code.for_(0, whole, self.lanes) as loop:
                copy(loop.iv, self.lanes)
        with code.for_(whole, length) as loop:
            copy(loop.iv, 1)
        return rows

    def _run(
        self, length: Int, carried: list[Value], lefts: list[Value], step: Int, right: Value, masks: list[Value] | None
    ) -> list[Value]:
        """The sums after `length` places of the innermost contraction loop; a row's elements lie `step` apart."""
        code, emitter = self.code, self.emitter

        def multiply(k: Int, sums: list[Value]) -> list[Value]:
            return self._step(
                k, sums, [code.load(left, code.mul(k, step), self.element) for left in lefts], right, masks
            )

        if self.split == 1:
            with code.for_(0, length, 1, carried) as loop, emitter.scope():
                loop.yield_(*multiply(loop.iv, loop.carried))
            return loop.results
        each = self.tile * self.vectors
        whole = code.mul(code.udiv(length, self.split), self.split)
        with code.for_(0, whole, self.split, carried) as loop, emitter.scope():
            parts: list[Value] = []
            for s in range(self.split):
                parts += multiply(code.add(loop.iv, s), loop.carried[s * each : (s + 1) * each])
            loop.yield_(*parts)
        results = loop.results
        if isinstance(length, int) and length % self.split == 0:
            return results
        with code.for_(whole, length, 1, results[:each]) as loop, emitter.scope():
            loop.yield_(*multiply(loop.iv, loop.carried))
        return [*loop.results, *results[each:]]

    def _row_address(self, row: Int) -> Value:
        """Where a row's elements begin, at the current place of the outer loops."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        with emitter.scope():
            self._places(row)
            emitter.places[kernel.inner] = 0
            offset = emitter.dim(kernel.lhs.offset)
            address = code.gep(emitter.pointers[kernel.lhs.buffer], offset, self.left)
            if self.zeros is None:
                return address
            inside: Value | None = None
            for place, extent in kernel.valid:
                test = code.cmp("ult", code.value(emitter.dim(place)), code.value(emitter.dim(extent)))
                inside = test if inside is None else code.op("arith.andi", inside, test)
            assert inside is not None
            return code.select(inside, address, self.zeros)

    def _masks(self) -> list[Value] | None:
        """Which columns of each vector exist, where the last panel may be short."""
        kernel, code = self.kernel, self.code
        columns = kernel.column.extent
        if exact_div(columns, kernel.width) is not None:
            return None
        left = code.sub(self.emitter.dim(columns), code.mul(self.emitter.places[kernel.panel], kernel.width))
        return [
            code.cmp(
                "slt", code.lane_ids(self.lanes), code.splat(code.value(code.sub(left, c * self.lanes)), self.lanes)
            )
            for c in range(self.vectors)
        ]

    def _step(
        self, k: Int, carried: list[Value], lefts: list[Value], right: Value, masks: list[Value] | None
    ) -> list[Value]:
        """One place of the innermost contraction loop: rows x vectors multiply-adds."""
        code, kernel = self.code, self.kernel
        at = code.mul(k, self._right_step())
        columns: list[Value] = []
        for c in range(self.vectors):
            mask = masks[c] if masks else None
            loaded = code.load(right, code.add(at, c * self.lanes), vector(self.lanes, self.right), mask)
            columns.append(conversions.convert(code, loaded, kernel.rhs.dtype, kernel.dtype))
        return [
            math.apply(code, "fma", kernel.dtype, code.splat(left, self.lanes), column, carried[r * self.vectors + c])
            for r, left in enumerate(lefts)
            for c, column in enumerate(columns)
        ]

    # ---- the epilogue --------------------------------------------------------------------------------------------------
    def _epilogue(self, rows: list[Int], sums: list[Value], exists: list[Value] | None) -> None:
        """Writes the tile: for every vector of columns, what does not depend on the row once, then row by row."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        lane = LoopVar("lane", self.lanes)
        masks = self._masks()
        for c in range(self.vectors):
            column = Expr.of(kernel.panel) * kernel.width + c * self.lanes + Expr.of(lane)
            rewrite = Rewriter(lambda d, column=column: substitute(d, {kernel.column: column}))
            writes = [Write(w.buffer, rewrite.dim(w.offset), rewrite(w.value)) for w in kernel.epilogue]
            emitter.lane, emitter.lanes = lane, self.lanes
            emitter.places[lane] = 0
            with emitter.under(masks[c] if masks else None):
                self._hoist(writes)
                for r, row in enumerate(rows):
                    if exists is None:
                        with emitter.scope():
                            self._write_row(writes, row, sums[r * self.vectors + c])
                    else:
                        with code.if_(exists[r]), emitter.scope():
                            self._write_row(writes, row, sums[r * self.vectors + c])
            emitter._varies.clear()
            emitter.lane = None
        emitter.lanes = 1

    def _hoist(self, writes: list[Write]) -> None:
        """Computes what is the same for every row of the tile (a bias, say) once."""
        rows = set(self.kernel.rows)
        dependent: set[int] = set()
        for write in writes:
            for node in walk(write.value):
                mine = any(rows & loop_atoms(d) for d in own_dims(node))
                if mine or isinstance(node, Accumulator) or any(id(c) in dependent for c in children(node)):
                    dependent.add(id(node))
                else:
                    self.emitter.value(node)

    def _write_row(self, writes: list[Write], row: Int, total: Value) -> None:
        self._places(row)
        self.emitter.accumulator = total
        for write in writes:
            self.emitter.store(write.buffer, write.offset, write.value)
