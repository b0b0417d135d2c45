"""Operands of AMX kernels that multiply the elements in memory: bytes, and bfloat16.

A register holds 16 lines of 64 bytes. For the lhs a line is neighbouring elements along the depth of one row: 64 bytes or 32
bfloat16. Strips of rows are copied, because the rows of a convolution are not contiguous; rows past the end repeat the last
one. For the rhs a line has four bytes for each of 16 columns: four neighbouring depth elements, or two bfloat16. The pass
`pack` lays panels out like this, so that the rhs is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu.counting import split
from burn.codegen.cpu.matmul.bf16_split import BYTES, LINES
from burn.codegen.cpu.matmul.packing import Operands
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Int, Value
from burn.dialect.dims import LoopVar, floordiv, product
from burn.dialect.types import DTYPES

LINE = 64
"""Bytes of a line."""


INSTRUCTIONS = {"int32": "tdpbusd", "float32": "tdpbf16ps"}
"""By the type of the accumulators."""


class ElementRows:
    """See `TileOperands`. `left` has room for all blocks of the depth of every tile of rows, `zeros` for a padding line."""

    part_pairs = ((0, 0),)

    def __init__(self, kernel: Tiled, left: Value, zeros: Value, emitter: ScalarEmitter) -> None:
        self.kernel, self.left = kernel, left
        self.code, self.emitter = emitter.code, emitter
        self.row_count = product([v.extent for v in kernel.rows])
        self.read = Operands(kernel, 1, LINES, False, None, None, 0, emitter, zeros if kernel.valid else None)
        self.instruction = INSTRUCTIONS[kernel.dtype]
        self.element = conversions.element_type(kernel.rhs.dtype)
        lines = floordiv(kernel.run_bytes, LINE)
        self.inner = emitter.dim(lines)
        self.here = emitter.dim(product([*(v.extent for v in kernel.outer), lines]))
        row = kernel.width * kernel.run * DTYPES[kernel.rhs.dtype].size
        self.strides = LINE, row
        self.steps = BYTES, LINES * row

    units = 0

    def between(self, start: Int, stop: Int) -> None:
        """Nothing to do: the depth is one part."""

    def copy_left(self, first: Int, tiles: Int) -> None:
        """Copies `tiles` tiles of rows from row `first` on."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        last = code.sub(emitter.dim(self.row_count), 1)
        sizes = [emitter.dim(loop.extent) for loop in kernel.rows]
        with code.for_(0, code.mul(tiles, LINES)) as number, emitter.scope():
            row = code.min(code.add(first, number.iv), last)
            emitter.rows = {row: split(code, row, sizes)}
            tile, line = code.udiv(number.iv, LINES), code.urem(number.iv, LINES)
            target = code.gep(self._left_tile(tile), code.mul(line, LINE), "i8")
            self._copy_row(row, target, kernel.outer, 0)
            emitter.rows = {}

    def _copy_row(self, row: Int, target: Value, outer: Sequence[LoopVar], number: Int) -> None:
        """A row's lines, at index `number` of the enclosing outer loops."""
        code, emitter = self.code, self.emitter
        if outer:
            size = emitter.dim(outer[0].extent)
            with code.for_(0, size) as loop, emitter.scope():
                emitter.bindings[outer[0]] = loop.iv
                self._copy_row(row, target, outer[1:], code.add(code.mul(number, size), loop.iv))
            return
        source, first = self.read.row_address(row), code.mul(number, self.inner)
        with code.for_(0, self.inner) as block:
            loaded = code.load(source, code.mul(block.iv, LINE), f"vector<{LINE}xi8>")
            code.store(loaded, target, code.mul(code.add(first, block.iv), BYTES))

    def copy_panels(self, panel: Int, end: Int, into: Int, first: Int, stop: Int) -> None:
        """Nothing to do: panels are read in place."""

    def copy_unit(self, panel: Int, unit: Int, into: Int) -> None:
        """Nothing to do: panels are read in place."""

    def bases(self, strip: Int, panel_index: Int) -> tuple[Value, ...]:
        """The addresses of the first blocks of a strip's rows and of the current panel."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        with emitter.scope():
            emitter.bindings |= dict.fromkeys((*kernel.outer, kernel.inner), 0)
            panel = code.gep(emitter.pointers[kernel.rhs.buffer], emitter.dim(kernel.rhs_start), self.element)
        upper = code.mul(strip, 2)
        return self._left_tile(upper), self._left_tile(code.add(upper, 1)), panel, code.gep(panel, LINE, "i8")

    def _left_tile(self, tile: Int) -> Value:
        return self.code.gep(self.left, self.code.mul(tile, self.code.mul(self.here, BYTES)), "i8")
