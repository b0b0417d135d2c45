"""Copies the operands of a contraction into AMX's layout as bfloat16; weights of a few bits become floats first.

A float32 is the sum of three bfloat16: itself rounded, the remainder rounded, and the remainder of that (Henry, Tang,
Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, arXiv 1904.06376). A tile
register holds 16 rows of 16 words, and a word holds two elements of the depth. Any pairing is correct if both operands use it.
Here a word has the elements j and j + 16 of a block of 32, so that its low and high parts come from two whole vectors.
`Bf16Split` is the entry point.
"""

from __future__ import annotations

from burn.codegen.cpu.matmul.blockwise import BlockReader, Blockwise
from burn.codegen.cpu.matmul.packing import bind_rows, both, panel_mask
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.shuffles import transposed
from burn.codegen.host.emit import Int, Value
from burn.dialect.dims import Dim, LoopVar, coefficient, product
from burn.errors import CompileError
from burn.kernels.body import Load

LINES = 16
"""Rows of a tile register, and words of each."""

BLOCK = 32
"""The depth elements in a tile register."""

PARTS = 3
"""Numbers of bfloat16 that make a float32."""

BYTES = 1024
"""Bytes of a tile register."""

LINE = 64
"""Bytes from one row of a tile register to the next."""

PART_PAIRS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 0))
"""Which parts of lhs and rhs are multiplied, small ones first. Neighbours share an operand, which stays in its
registers."""

_LANES = "vector<16xf32>"
_WORDS = "vector<16xi32>"


class Bf16Split:
    """`left` and `right` have room for `blocks` blocks of the depth for every tile of rows, or of columns. Copies cover
    `start` to `stop` of the innermost contraction loop. `ragged`: the depth is not a multiple of a block.
    `transposed_rows` has room for a transposed block. If the rhs has weights of a few bits, packed in panels several
    tiles wide, `narrow` is the kernel in panels as wide as a tile. See `TileOperands`."""

    instruction = "tdpbf16ps"
    part_pairs = PART_PAIRS
    strides = LINE, LINE
    steps = PARTS * BYTES, PARTS * BYTES

    def __init__(
        self,
        kernel: Tiled,
        narrow: Tiled | None,
        blocks: int,
        ragged: bool,
        left: Value,
        right: Value,
        transposed_vectors: Value,
        emitter: ScalarEmitter,
    ) -> None:
        self.kernel, self.narrow, self.blocks, self.ragged = kernel, narrow, blocks, ragged
        self.left, self.right, self.transposed_rows = left, right, transposed_vectors
        self.code, self.emitter = emitter.code, emitter
        self.row_count = product([v.extent for v in kernel.rows])
        self.start: Int = 0
        self.stop: Int = 0

    @property
    def here(self) -> Int:
        """Blocks of the depth from `start` to `stop`."""
        return self.code.udiv(self.code.add(self.code.sub(self.stop, self.start), BLOCK - 1), BLOCK)

    def between(self, start: Int, stop: Int) -> None:
        """Sets the range of the depth for the following copies."""
        self.start, self.stop = start, stop

    def bases(self, strip: Int, panel_index: Int) -> tuple[Value, ...]:
        """The addresses of the blocks of a strip's rows, and of the panel copied to a slot."""
        size = self.blocks * PARTS * BYTES
        left, right = self.left_tile(self.code.mul(strip, 2)), self.right_tile(self.code.mul(panel_index, 2))
        return left, self.code.gep(left, size, "i8"), right, self.code.gep(right, size, "i8")

    def left_tile(self, tile: Int) -> Value:
        """The address of the first block of a tile of rows."""
        return self.code.gep(self.left, self.code.mul(tile, self.blocks * PARTS * BYTES), "i8")

    def right_tile(self, tile: Int) -> Value:
        """The address of the first block of a tile of columns."""
        return self.code.gep(self.right, self.code.mul(tile, self.blocks * PARTS * BYTES), "i8")

    # ---- both operands -------------------------------------------------------------------------------------------------
    def copy_left(self, first: Int, tiles: Int) -> None:
        """Copies `tiles` tiles of rows from row `first` on."""
        (self._rows_straight if is_depth_contiguous(self.kernel, self.kernel.lhs) else self._rows_transposed)(
            first, tiles
        )

    @property
    def units(self) -> int:
        return units(self.kernel)

    def copy_panels(self, panel: Int, end: Int, into: Int, first: Int, stop: Int) -> None:
        """Copies units from `first` to `stop` of panels, each two tiles of columns, to slots from `into` on."""
        code = self.code
        with code.for_(first, stop) as unit, self.emitter.scope(), code.for_(panel, end) as each, self.emitter.scope():
            self.copy_unit(each.iv, unit.iv, code.add(code.sub(each.iv, panel), into))

    def copy_unit(self, panel: Int, unit: Int, into: Int) -> None:
        """Copies part of a panel; if it is copied row by row, prefetches the corresponding part of the next one."""
        block, which = self.code.udiv(unit, self.units), self.code.urem(unit, self.units)
        if self.narrow is not None and self.narrow.blocks is not None:
            self._words(self.narrow, self.narrow.blocks, panel, block, which, into)
        elif self.kernel.has_contiguous_columns:
            self._line_straight(panel, block, which, into)
        else:
            self._tile_transposed(panel, block, which, into)

    def _rows_straight(self, first: Int, tiles: Int) -> None:
        """Copies rows whose elements are contiguous: a block of them is a row of a tile."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        last = code.sub(emitter.dim(self.row_count), 1)
        with code.for_(0, code.mul(tiles, LINES)) as row, emitter.scope():
            bind_rows(emitter, kernel.rows, code.min(code.add(first, row.iv), last))
            emitter.bindings[kernel.inner] = self.start
            source = code.gep(emitter.pointers[kernel.lhs.buffer], emitter.dim(kernel.lhs.offset), "f32")
            tile, line = code.udiv(row.iv, LINES), code.urem(row.iv, LINES)
            target = code.gep(self.left_tile(tile), code.mul(line, LINES), "i32")
            with code.for_(0, self.here) as block:
                index = code.mul(block.iv, BLOCK)
                pair: list[Value] = []
                for half in range(2):
                    at = code.add(index, half * LINES)
                    pair.append(code.load(source, at, _LANES, self._depth_mask(at)))
                self._store(pair, target, block.iv)

    def _rows_transposed(self, first: Int, tiles: Int) -> None:
        """Copies rows if neighbouring rows instead of a row's elements are contiguous: transposes square blocks."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        step = self._advance(kernel.lhs, kernel.inner)
        with code.for_(0, self.here) as block, emitter.scope(), code.for_(0, tiles) as tile, emitter.scope():
            row = code.add(first, code.mul(tile.iv, LINES))
            bind_rows(emitter, kernel.rows, row)
            emitter.bindings[kernel.inner] = 0
            source = code.gep(emitter.pointers[kernel.lhs.buffer], emitter.dim(kernel.lhs.offset), "f32")
            mask = self._below(code.sub(emitter.dim(self.row_count), row))
            with code.for_(0, 2) as half, emitter.scope():
                begin = code.add(code.mul(block.iv, BLOCK), code.mul(half.iv, LINES))
                vectors: list[Value] = []
                for i in range(LINES):
                    index = code.add(code.add(begin, i), self.start)
                    line = code.gep(source, code.mul(index, step), "f32")
                    vectors.append(code.load(line, 0, _LANES, both(code, mask, self._in_depth(index))))
                for i, transposed_vectors in enumerate(transposed(code, vectors)):
                    code.store(
                        transposed_vectors, code.gep(self.transposed_rows, code.mul(half.iv, LINES), "f32"), i * BLOCK
                    )
            target = self.left_tile(tile.iv)
            with code.for_(0, LINES) as line:
                at = code.mul(line.iv, BLOCK)
                pair = [code.load(self.transposed_rows, code.add(at, half * LINES), _LANES) for half in range(2)]
                self._store(pair, code.gep(target, code.mul(line.iv, LINES), "i32"), block.iv)

    def _line_straight(self, panel: Int, block: Int, line: Int, into: Int) -> None:
        """Copies a line of a panel whose columns are contiguous, like the words of a tile's row."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        step = self._advance(kernel.rhs, kernel.inner)
        begin = code.add(code.add(self.start, code.mul(block, BLOCK)), line)
        source, later = self._source(panel), self._source(code.add(panel, 1))
        for half in range(2):
            for c in range(2):
                at = code.gep(later, code.mul(code.add(begin, half * LINES), step), "f32")
                code.prefetch(at, c * LINES, "f32", False)
        emitter.bindings[kernel.panel] = panel
        for c in range(2):
            mask = panel_mask(emitter, kernel, c, LINES)
            pair: list[Value] = []
            for half in range(2):
                index = code.add(begin, half * LINES)
                at = code.gep(source, code.mul(index, step), "f32")
                pair.append(code.load(at, c * LINES, _LANES, both(code, mask, self._in_depth(index))))
            tile = code.add(code.mul(into, 2), c)
            self._store(pair, code.gep(self.right_tile(tile), code.mul(line, LINES), "i32"), block)

    def _words(self, narrow: Tiled, blocks: Blockwise, panel: Int, block: Int, which: Int, into: Int) -> None:
        """Converts few-bit weights to floats: those of two words of a tile's columns, half a block of the depth apart."""
        code, words = self.code, self.emitter.dim(blocks.words)
        column, upper = code.urem(which, 2), code.udiv(which, 2)
        last = code.sub(self.emitter.dim(narrow.panel.extent), 1)  # memory after it may not have been packed
        self.emitter.bindings[narrow.panel] = code.min(code.add(code.mul(panel, 2), column), last)
        reader = BlockReader(blocks, LINES, 1, self.emitter)
        first = code.add(code.udiv(code.add(self.start, code.mul(block, BLOCK)), blocks.each), upper)
        numbers: list[list[Value]] = []
        for half in range(2):
            word = code.add(first, half * LINES // blocks.each)
            number = code.udiv(word, words)
            parameters, held = reader.parameters(number), reader.word(number, code.urem(word, words))
            numbers.append([reader.scaled(held, index, parameters)[0] for index in range(blocks.each)])
        tile = self.right_tile(code.add(code.mul(into, 2), column))
        for index, pair in enumerate(zip(*numbers, strict=True)):
            line = code.add(code.mul(upper, blocks.each), index)
            self._store(list(pair), code.gep(tile, code.mul(line, LINES), "i32"), block)

    def _tile_transposed(self, panel: Int, block: Int, which: Int, into: Int) -> None:
        """Copies a tile whose columns are contiguous along the depth: transposes square blocks."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        step = self._advance(kernel.rhs, kernel.within)
        columns = emitter.dim(kernel.column.extent)
        begin = code.add(self.start, code.mul(block, BLOCK))
        base = code.gep(self._source(panel), code.mul(begin, self._advance(kernel.rhs, kernel.inner)), "f32")
        last = code.sub(code.sub(columns, 1), code.mul(panel, kernel.width))
        within = code.mul(which, LINES)
        sources = [code.gep(base, code.mul(code.min(code.add(within, i), last), step), "f32") for i in range(LINES)]
        target = self.right_tile(code.add(code.mul(into, 2), which))
        with code.for_(0, 2) as half, emitter.scope():
            first = code.mul(half.iv, LINES)
            mask = self._depth_mask(code.add(code.mul(block, BLOCK), first))
            transposed_vectors = transposed(code, [code.load(source, first, _LANES, mask) for source in sources])
            for i, vector in enumerate(transposed_vectors):
                code.store(vector, self.transposed_rows, code.add(code.mul(half.iv, LINES * LINES), i * LINES))
        with code.for_(0, LINES) as line:
            at = code.mul(line.iv, LINES)
            pair = [code.load(self.transposed_rows, code.add(at, h * LINES * LINES), _LANES) for h in range(2)]
            self._store(pair, code.gep(target, code.mul(line.iv, LINES), "i32"), block)

    def _source(self, panel: Int) -> Value:
        """The address that a panel is copied from."""
        emitter, kernel = self.emitter, self.kernel
        with emitter.scope():
            emitter.bindings[kernel.panel], emitter.bindings[kernel.inner] = panel, 0
            return self.code.gep(emitter.pointers[kernel.rhs.buffer], emitter.dim(kernel.rhs_start), "f32")

    # ---- a line of a block ---------------------------------------------------------------------------------------------
    def _store(self, pair: list[Value], target: Value, block: Int) -> None:
        """Stores the words of a block's line, given their low and high parts, part by part."""
        code = self.code
        base = code.gep(target, code.mul(block, PARTS * BYTES), "i8")
        for part in range(PARTS):
            words = self._rounded(pair)
            code.store(words, base, part * BYTES // 4)
            if part + 1 < PARTS:
                low = code.op("arith.shli", words, code.const(16, _WORDS))
                high = code.op("arith.andi", words, code.const(-65536, _WORDS))
                pair = [
                    code.op("arith.subf", value, code.pure(f"arith.bitcast {taken} : {_WORDS} to {_LANES}", _LANES))
                    for value, taken in zip(pair, (low, high), strict=True)
                ]

    def _rounded(self, pair: list[Value]) -> Value:
        """Words with the first of two vectors, rounded, in their low 16 bits, and the second in their high 16 bits."""
        code, bf16s, int16s = self.code, "vector<32xbf16>", "vector<32xi16>"
        low, high = pair
        both = code.raw(
            f'llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"({high}, {low}) : ({_LANES}, {_LANES}) -> {bf16s}',
            bf16s,
        )
        both = code.raw(f"arith.bitcast {both} : {bf16s} to {int16s}", int16s)
        order = [i // 2 + LINES * (i % 2) for i in range(2 * LINES)]
        mixed = code.raw(f"vector.shuffle {both}, {both} {order} : {int16s}, {int16s}", int16s)
        return code.raw(f"vector.bitcast {mixed} : {int16s} to {_WORDS}", _WORDS)

    # ---- masks ---------------------------------------------------------------------------------------------------------
    def _below(self, count: Int) -> Value:
        """The first `count` lanes."""
        return self.code.cmp("slt", self.code.lane_ids(LINES), self.code.splat(self.code.value(count), LINES))

    def _depth_mask(self, index: Int) -> Value | None:
        """The mask of lanes, from an offset after `start` on, that are in the depth."""
        code = self.code
        return self._below(code.sub(code.sub(self.stop, self.start), index)) if self.ragged else None

    def _in_depth(self, index: Int) -> Value | None:
        """True in all lanes if the index is in the depth."""
        return self.code.splat(self.code.cmp("slt", index, self.stop), LINES) if self.ragged else None

    def _advance(self, operand: Load, loop: LoopVar) -> Int:
        step: Dim | None = coefficient(operand.offset, loop)
        if step is None:
            raise CompileError("internal: a contraction's operand does not advance evenly")
        return self.emitter.dim(step)


def units(kernel: Tiled) -> int:
    """The number of units in which a block of a panel is copied. A unit is a line of both tiles, a tile, or, for few-bit
    weights, the numbers of one word of a tile's columns."""
    if kernel.blocks is not None:
        return 2 * LINES // kernel.blocks.each
    return LINES if kernel.has_contiguous_columns else 2


def is_depth_contiguous(kernel: Tiled, operand: Load) -> bool:
    return coefficient(operand.offset, kernel.inner) == 1
