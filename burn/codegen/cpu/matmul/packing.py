"""Reads the operands of a contraction kernel, in place where possible.

There is no im2col. Padding of a convolution costs nothing in the inner loop, because pixels outside of the image are read from
a row of zeros. Three kinds of operands are copied:

- rows whose element type differs from the accumulator's, in pieces
- an unpacked rhs that enough rows read, panel by panel
- an lhs whose rows instead of its depth are contiguous: transposed, a block of tiles at a time

`Operands` is the entry point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu.counting import following, split
from burn.codegen.cpu.head import scratch
from burn.codegen.cpu.heuristics.cache_blocking import STAGE, TRANSPOSED_DEPTH
from burn.codegen.cpu.matmul import vnni
from burn.codegen.cpu.matmul.blockwise import BlockReader, Blockwise
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Function, Int, Value, vector
from burn.dialect.dims import Dim, Expr, LoopVar, coefficient, exact_div, product, substitute
from burn.dialect.types import DTYPES
from burn.errors import CompileError
from burn.kernels.body import Load
from burn.kernels.lower import linear


class Operands:
    """The operands of one kernel, `tile` rows and a panel of vectors of `lanes` at a time. `zeros`, `staged`, `copied`
    and `transposed_rows` are scratch memory, or None if not needed. `transposes` is the number of tiles transposed
    together (None: none); `tile_in_block` is the index of the current one. If the depth is accumulated in parts of
    `part` elements, `start` to `stop` is the current part, and `held` stores the accumulators of several tiles in
    between. `inner_rows` are the addresses of a tile's rows at the window's first tap while none is padding."""

    def __init__(
        self,
        kernel: Tiled,
        tile: int,
        lanes: int,
        copies: bool,
        transposes: int | None,
        part: int | None,
        held: int,
        emitter: ScalarEmitter,
        zeros: Value | None = None,
        widens: bool = False,
    ) -> None:
        """zeros: existing memory for them, because a kernel can request scratch memory once. widens: pairs of bfloat16 are
        converted to float32. Raises CompileError if columns would be read contiguously that are not."""
        if not (copies or kernel.has_contiguous_columns or kernel.blocks is not None):
            raise CompileError("internal: a contraction's columns do not lie side by side, and are not copied")
        self.kernel, self.tile, self.lanes = kernel, tile, lanes
        self.code, self.emitter = emitter.code, emitter
        self.vectors = kernel.width // lanes
        self.element, self.left, self.right = map(
            conversions.element_type, (kernel.dtype, kernel.lhs.dtype, kernel.rhs.dtype)
        )
        self.read_as = kernel.dtype
        self.stage_step, self.stage_length = 1, STAGE
        if widens:
            self.stage_step, self.stage_length = kernel.run, STAGE // kernel.run
        elif kernel.run > 1:
            self.read_as = vnni.read_as(kernel.run) if kernel.dtype == "int32" else kernel.lhs.dtype
        self.transposes = transposes
        self.tile_in_block: Int = 0
        self.depth: Dim = part or product([v.extent for v in (*kernel.outer, kernel.inner)])
        self.copied_lanes = 1 << (tile - 1).bit_length()
        self.tile_size: Dim = self.depth * tile + (self.copied_lanes - tile)
        self.start: Int = 0
        self.stop: Int | None = None
        self.inner_rows: list[Value] | None = None
        if zeros is not None:
            self._fill(zeros)
        found, self.staged, self.copied, self.transposed_rows, self.held = self._scratch(copies, held, zeros is None)
        self.zeros = zeros if found is None else found

    def _fill(self, zeros: Value) -> None:
        """Writes a row of padding values. Those of floats are zero."""
        fill = self.kernel.fill
        with self.code.for_(0, self.emitter.dim(self.kernel.run_bytes)) as loop:
            self.code.store(self.code.const(fill - (fill & 128) * 2, "i8"), zeros, loop.iv)

    def _scratch(self, copies: bool, held: int, zeroed: bool) -> list[Value | None]:
        """The sizes of a row of padding values, of converted rows of a tile, of a copied panel, of transposed tiles,
        and of accumulators."""
        kernel, code = self.kernel, self.code
        panel = self.depth * kernel.width
        transposed_rows = self.tile_size * (self.transposes or 0)
        sizes: list[Int | None] = [
            self.emitter.dim(kernel.run_bytes) if kernel.valid and zeroed else None,
            self.tile * STAGE * DTYPES[kernel.dtype].size if self.read_as != kernel.lhs.dtype else None,
            code.mul(self.emitter.dim(panel), DTYPES[kernel.rhs.dtype].size) if copies else None,
            code.mul(self.emitter.dim(transposed_rows), DTYPES[kernel.dtype].size) if self.transposes else None,
            held * self.tile * kernel.width * DTYPES[kernel.dtype].size if held else None,
        ]
        starts: list[Int] = []
        end: Int = 0
        for size in sizes:
            starts.append(end)
            end = code.add(end, code.mul(code.udiv(code.add(size or 0, 63), 64), 64))
        if all(size is None for size in sizes):
            return [None] * len(sizes)
        memory = scratch(code, self.emitter.worker, end)
        if sizes[0] is not None:
            self._fill(memory)
        return [
            None if size is None else code.gep(memory, start, "i8") for size, start in zip(sizes, starts, strict=True)
        ]

    def length(self) -> Int:
        """The elements of the innermost contraction loop that a tile accumulates at a time."""
        if self.stop is None:
            return self.emitter.dim(self.kernel.inner.extent)
        return self.code.sub(self.stop, self.start)

    def last(self) -> Value | None:
        """True in the last part of the depth; None if there are no parts."""
        if self.stop is None:
            return None
        return self.code.cmp("eq", self.stop, self.emitter.dim(self.kernel.inner.extent))

    def copy_panel(self) -> None:
        """Copies the panel's existing columns, one depth element after another."""
        assert self.copied is not None
        if self.kernel.blocks is not None:
            self._copy_blocks(self.kernel.blocks, self.copied)
        else:
            self._copy((*self.kernel.outer, self.kernel.inner), self.copied)

    def _copy_blocks(self, blocks: Blockwise, copied: Value) -> None:
        """Writes the dequantised numbers, word by word."""
        code, emitter = self.code, self.emitter
        stop = emitter.dim(self.kernel.inner.extent) if self.stop is None else self.stop
        words = emitter.dim(blocks.words)
        reader = BlockReader(blocks, self.lanes, self.vectors, emitter)
        first, last = code.udiv(self.start, blocks.each), code.udiv(stop, blocks.each)
        with code.for_(first, last) as loop, emitter.scope():
            block = code.udiv(loop.iv, words)
            parameters = reader.parameters(block)
            held = reader.word(block, code.urem(loop.iv, words))
            start = code.sub(code.mul(loop.iv, blocks.each), self.start)
            for index in range(blocks.each):
                target = code.gep(copied, code.mul(code.add(start, index), self.kernel.width), self.right)
                for c, value in enumerate(reader.scaled(held, index, parameters)):
                    code.store(value, target, c * self.lanes)

    def _copy(self, depth: tuple[LoopVar, ...], copied: Value) -> None:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if depth:
            start, stop = (0, emitter.dim(depth[0].extent)) if self.stop is None else (self.start, self.stop)
            with code.for_(start, stop) as loop, emitter.scope():
                emitter.bindings[depth[0]] = loop.iv
                self._copy(depth[1:], copied)
            return
        source = code.gep(emitter.pointers[kernel.rhs.buffer], emitter.dim(kernel.rhs_start), self.right)
        index = code.mul(code.sub(emitter.dim(self.run_start() + Expr.of(kernel.inner)), self.start), kernel.width)
        target = code.gep(copied, index, self.right)
        masks = self.masks()
        for c in range(self.vectors):
            mask = masks[c] if masks else None
            loaded = (
                code.load(source, c * self.lanes, vector(self.lanes, self.right), mask)
                if kernel.has_contiguous_columns
                else self._gathered(c * self.lanes, mask)
            )
            code.store(loaded, target, c * self.lanes)

    def _gathered(self, first: int, mask: Value | None) -> Value:
        """Gathers columns of the panel that are not contiguous."""
        emitter, kernel = self.emitter, self.kernel
        emitter.lane, emitter.lanes = kernel.within, self.lanes
        with emitter.under(mask):
            emitter.bindings[kernel.within] = first
            loaded = emitter.wide(kernel.rhs)
        emitter.lane, emitter.lanes = None, 1
        emitter.lanes_changed()
        return loaded

    def run_start(self) -> Dim:
        """The index in the whole depth at which the innermost contraction loop begins."""
        outer = self.kernel.outer
        return linear([Expr.of(v) for v in outer], [v.extent for v in outer]) * self.kernel.inner.extent

    def transpose_rows(self, tile: Int) -> None:
        """Copies and transposes a block's rows from this tile on, so that the rows of a tile are contiguous. A few
        depth elements at a time are copied for all tiles, so that loads are contiguous. Stores are whole vectors of
        `copied_lanes`: a masked one takes more than ten cycles on AMD's cores with AVX2. The next depth element overwrites
        the lanes behind a tile's rows. Those of the last element are the padding in `tile_size`."""
        assert self.transposed_rows is not None and self.transposes is not None
        code, emitter, kernel = self.code, self.emitter, self.kernel
        rows = emitter.dim(product([v.extent for v in kernel.rows]))
        left = code.udiv(code.sub(code.add(rows, self.tile - 1), code.mul(tile, self.tile)), self.tile)
        self._transpose(kernel.outer, self.transposed_rows, tile, code.min(left, self.transposes), rows)

    def _transpose(self, outer: tuple[LoopVar, ...], transposed_rows: Value, tile: Int, tiles: Int, rows: Int) -> None:
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if outer:
            with code.for_(0, emitter.dim(outer[0].extent)) as loop, emitter.scope():
                emitter.bindings[outer[0]] = loop.iv
                self._transpose(outer[1:], transposed_rows, tile, tiles, rows)
            return
        lanes = self.copied_lanes
        end = emitter.dim(kernel.inner.extent) if self.stop is None else self.stop
        with code.for_(self.start, end, TRANSPOSED_DEPTH) as part, emitter.scope():
            stop = code.min(code.add(part.iv, TRANSPOSED_DEPTH), end)
            with code.for_(0, tiles) as loop, emitter.scope():
                first = code.mul(code.add(tile, loop.iv), self.tile)
                bind_rows(emitter, kernel.rows, first)
                emitter.bindings[kernel.inner] = 0
                source = code.gep(emitter.pointers[kernel.lhs.buffer], emitter.dim(kernel.lhs.offset), self.left)
                start = code.mul(emitter.dim(self.run_start()), self.tile)
                start = code.add(code.mul(loop.iv, emitter.dim(self.tile_size)), start)
                target = code.gep(transposed_rows, start, self.element)
                there = code.min(code.sub(rows, first), self.tile)
                mask = code.cmp("slt", code.lane_ids(lanes), code.splat(code.value(there), lanes))
                with code.for_(part.iv, stop) as index:
                    at = code.mul(index.iv, self.advance(kernel.lhs))
                    loaded = code.load(source, at, vector(lanes, self.left), mask)
                    code.store(loaded, target, code.mul(code.sub(index.iv, self.start), self.tile))

    def column_address(self) -> Value:
        """The address of the panel's elements, at the current indices of the outer loops and the start of the inner one."""
        emitter = self.emitter
        if self.copied is not None:
            return self.code.gep(self.copied, emitter.dim(self.run_start() * self.kernel.width), self.right)
        return self.code.gep(emitter.pointers[self.kernel.rhs.buffer], emitter.dim(self.kernel.rhs_start), self.right)

    def row_addresses(self, rows: list[Int]) -> list[Value]:
        """The addresses of a tile's rows, at the current indices of the outer loops."""
        if self.inner_rows is not None:
            moved = self.kernel.lhs.offset - self._first_tap()
            distance = self.emitter.dim(substitute(moved, {self.kernel.inner: 0}))
            distance = self.code.add(distance, self.code.mul(self.start, self.advance(self.kernel.lhs)))
            return [self.code.gep(row, distance, self.left) for row in self.inner_rows]
        if self.transposed_rows is None:
            return [self.row_address(row) for row in rows]
        start = self.code.mul(self.tile_in_block, self.emitter.dim(self.tile_size))
        start = self.code.add(start, self.code.mul(self.emitter.dim(self.run_start()), self.tile))
        base = self.code.gep(self.transposed_rows, start, self.element)
        return [self.code.gep(base, r, self.element) for r in range(len(rows))]

    def left_step(self) -> Int:
        """The stride of a row's elements, or of runs of bytes, along the innermost contraction loop, as they are read."""
        if self.kernel.run > 1:
            return 1
        return self.advance(self.kernel.lhs) if self.transposed_rows is None else self.tile

    def row_address(self, row: Int) -> Value:
        """The address of a row, at the current indices of the outer loops."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        with emitter.scope():
            bind_rows(emitter, kernel.rows, row)
            emitter.bindings[kernel.inner] = self.start
            offset = emitter.dim(kernel.lhs.offset)
            address = code.gep(emitter.pointers[kernel.lhs.buffer], offset, self.left)
            return address if self.zeros is None else code.select(self._inside(), address, self.zeros)

    def _inside(self) -> Value:
        """True if the current row of a convolution, at the current indices of the outer loops, is not padding."""
        inside: Value | None = None
        for index, extent in self.kernel.valid:
            position, size = (self.code.value(self.emitter.dim(dim)) for dim in (index, extent))
            inside = both(self.code, inside, self.code.cmp("ult", position, size))
        assert inside is not None
        return inside

    def all_inside(self, rows: list[Int]) -> Value:
        """True if no tap of a tile's rows is padding. Rows are neighbours along the last axis of the image, so that the first and
        the last one decide. A tile that crosses the end of a line counts as padded."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        first, last = (row_indices(emitter, kernel.rows, row)[-1] for row in (rows[0], rows[-1]))
        found = code.cmp("eq", code.value(code.sub(last, first)), code.const(len(rows) - 1))
        for row, tap in ((rows[0], lambda loop: 0), (rows[-1], lambda loop: loop.extent - 1)):
            with emitter.scope():
                bind_rows(emitter, kernel.rows, row)
                emitter.bindings |= {loop: emitter.dim(tap(loop)) for loop in kernel.outer}
                found = code.op("arith.andi", found, self._inside())
        return found

    @contextmanager
    def without_padding(self, rows: list[Int]) -> Iterator[None]:
        """Inside, the rows of a tile are read without tests, as no tap is padding: `all_inside`."""
        addresses: list[Value] = []
        for row in rows:
            with self.emitter.scope():
                bind_rows(self.emitter, self.kernel.rows, row)
                first = self.emitter.dim(self._first_tap())
                addresses.append(self.code.gep(self.emitter.pointers[self.kernel.lhs.buffer], first, self.left))
        self.inner_rows = addresses
        try:
            yield
        finally:
            self.inner_rows = None

    def _first_tap(self) -> Dim:
        """The offset of a row's first element, at the first tap of a convolution's window."""
        return substitute(self.kernel.lhs.offset, dict.fromkeys((*self.kernel.outer, self.kernel.inner), 0))

    def any_inside(self, rows: list[Int]) -> Value | None:
        """True if any of a tile's rows is not padding; None if no row is."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        if self.zeros is None or self.transposed_rows is not None or self.inner_rows is not None:
            return None
        found: Value | None = None
        for row in rows:
            with emitter.scope():
                bind_rows(emitter, kernel.rows, row)
                emitter.bindings[kernel.inner] = self.start
                inside = self._inside()
            found = inside if found is None else code.op("arith.ori", found, inside)
        return found

    def advance(self, operand: Load) -> Int:
        """The stride of an operand's elements along the innermost contraction loop."""
        step = coefficient(operand.offset, self.kernel.inner)
        if step is None:
            raise CompileError("internal: a contraction's operand does not advance evenly")
        return self.emitter.dim(step)

    def right_step(self) -> Int:
        """The stride of the rhs along that loop."""
        return self.advance(self.kernel.rhs) if self.copied is None else self.kernel.width

    def stage(self, lefts: list[Value], start: Int, length: Int) -> list[Value]:
        """Converts the rows' elements from `start` on to contiguous memory, in which those of the innermost contraction loop are
        `stage_step` apart; returns the address of each row."""
        code, kernel = self.code, self.kernel
        assert self.staged is not None
        step = self.advance(kernel.lhs) if kernel.run == 1 else 1
        rows = [code.gep(self.staged, r * STAGE, self.element) for r in range(self.tile)]
        start, length = code.mul(start, kernel.run), code.mul(length, kernel.run)

        def copy(k: Int, lanes: int) -> None:
            for left, row in zip(lefts, rows, strict=True):
                loaded = code.load(left, code.mul(code.add(start, k), step), vector(lanes, self.left))
                code.store(conversions.convert(code, loaded, kernel.lhs.dtype, self.read_as), row, k)

        done: Int = 0
        whole = self.lanes * DTYPES[kernel.dtype].size // DTYPES[self.read_as].size
        for lanes in sorted({whole, self.lanes}, reverse=True) if step == 1 else ():
            stop = code.mul(code.udiv(length, lanes), lanes)
            with code.for_(done, stop, lanes) as loop:
                copy(loop.iv, lanes)
            done = stop
        with code.for_(done, length) as loop:
            copy(loop.iv, 1)
        return rows

    def masks(self) -> list[Value] | None:
        """The masks of existing columns, if the last panel may be short."""
        found = [self.mask(c) for c in range(self.vectors)]
        return [mask for mask in found if mask is not None] or None

    def mask(self, which: Int) -> Value | None:
        return panel_mask(self.emitter, self.kernel, which, self.lanes)


def panel_mask(emitter: ScalarEmitter, kernel: Tiled, which: Int, lanes: int) -> Value | None:
    """The mask of existing columns of a vector of the panel; None if all exist."""
    code, columns = emitter.code, kernel.column.extent
    if exact_div(columns, kernel.width) is not None:
        return None
    left = code.sub(emitter.dim(columns), code.mul(emitter.bindings[kernel.panel], kernel.width))
    left = code.sub(left, code.mul(which, lanes))
    return code.cmp("slt", code.lane_ids(lanes), code.splat(code.value(left), lanes))


def bind_rows(emitter: ScalarEmitter, rows: Sequence[LoopVar], row: Int) -> None:
    """Sets the row loops for a flattened row number."""
    emitter.bindings |= dict(zip(rows, row_indices(emitter, rows, row), strict=True))


def row_indices(emitter: ScalarEmitter, rows: Sequence[LoopVar], row: Int) -> Sequence[Int]:
    """The indices of the row loops, from `increment_rows` or by division."""
    if row not in emitter.rows:
        return split(emitter.code, row, [emitter.dim(loop.extent) for loop in rows])
    return emitter.rows[row]


def increment_rows(
    emitter: ScalarEmitter, loops: Sequence[LoopVar], rows: Sequence[Int], there: Sequence[Value] | None
) -> None:
    """Computes the indices of neighbouring rows by incrementing the first: divisions take longer than the row. `there`:
    masks of rows that exist, if not all do; a missing row repeats the last one."""
    code, sizes = emitter.code, [emitter.dim(loop.extent) for loop in loops]
    emitter.rows = {}
    if len(loops) < 2:
        return
    indices = split(code, rows[0], sizes)
    emitter.rows[rows[0]] = indices
    for number, row in enumerate(rows[1:], 1):
        moved = following(code, indices, sizes)
        if there is not None:
            moved = [code.select(there[number], a, b) for a, b in zip(moved, indices, strict=True)]
        indices = emitter.rows[row] = moved


def both(code: Function, a: Value | None, b: Value | None) -> Value | None:
    """The conjunction of two conditions or masks; None always holds."""
    if a is None or b is None:
        return a or b
    return code.op("arith.andi", a, b)
