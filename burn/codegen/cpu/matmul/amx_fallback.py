"""Float32 sums of a strip's rows, one row after the other, for tiles that AMX cannot sum (amx.py).

`sum_rows` is the entry point.
"""

from __future__ import annotations

from burn.codegen.cpu import math
from burn.codegen.cpu.matmul.blockwise import BlockReader, Blockwise
from burn.codegen.cpu.matmul.packing import bind_rows, panel_mask
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Int, Value, vector


def sum_rows(
    kernel: Tiled, narrow: Tiled | None, lanes: int, first: Int, count: Int, sums: Value, emitter: ScalarEmitter
) -> None:
    """Writes the accumulators of `count` rows from row `first` on, for the emitter's current panel, row by row. narrow:
    as in `Bf16Split`."""
    code, panel = emitter.code, emitter.bindings[kernel.panel]
    vectors = kernel.width // lanes
    with code.for_(0, vectors) as c, emitter.scope(), code.for_(0, count) as row, emitter.scope():
        bind_rows(emitter, kernel.rows, code.add(first, row.iv))
        if narrow is not None and narrow.blocks is not None:
            last = code.sub(emitter.dim(narrow.panel.extent), 1)
            emitter.bindings[narrow.panel] = code.min(code.add(code.mul(panel, vectors), c.iv), last)
            total = _sum_blocks(narrow, narrow.blocks, emitter)
        else:
            total = _sum(kernel, lanes, c.iv, emitter)
        code.store(total, sums, code.add(code.mul(row.iv, kernel.width), code.mul(c.iv, lanes)))


def _sum(kernel: Tiled, lanes: int, column: Int, emitter: ScalarEmitter) -> Value:
    """The accumulator of vector number `column` of the panel."""
    code, zero = emitter.code, emitter.code.const(0, vector(lanes, "f32"))
    mask = panel_mask(emitter, kernel, column, lanes)
    emitter.lane, emitter.lanes = kernel.within, lanes
    with emitter.under(mask):
        emitter.bindings[kernel.within] = code.mul(column, lanes)
        with code.for_(0, emitter.dim(kernel.inner.extent), 1, [zero]) as depth, emitter.scope():
            emitter.bindings[kernel.inner] = depth.iv
            pair = emitter.wide(kernel.lhs), emitter.wide(kernel.rhs)
            depth.yield_(math.apply(code, "fma", kernel.dtype, *pair, depth.carried[0]))
    emitter.lanes_changed()
    emitter.lane, emitter.lanes = None, 1
    return depth.results[0]


def _sum_blocks(kernel: Tiled, blocks: Blockwise, emitter: ScalarEmitter) -> Value:
    """The accumulators of a panel of few-bit weights, which are converted to floats again."""
    code, lanes, words = emitter.code, kernel.width, emitter.dim(blocks.words)
    reader, zero = BlockReader(blocks, lanes, 1, emitter), code.const(0, vector(lanes, "f32"))
    with code.for_(0, emitter.dim(blocks.loops[0].extent), 1, [zero]) as block, emitter.scope():
        parameters = reader.parameters(block.iv)
        with code.for_(0, words, 1, block.carried) as word, emitter.scope():
            held, total = reader.word(block.iv, word.iv), word.carried[0]
            start = code.mul(code.add(code.mul(block.iv, words), word.iv), blocks.each)
            for index in range(blocks.each):
                with emitter.scope():
                    emitter.bindings[kernel.inner] = code.add(start, index)
                    left = code.splat(emitter.value(kernel.lhs), lanes)
                (value,) = reader.scaled(held, index, parameters)
                total = math.apply(code, "fma", kernel.dtype, left, value, total)
            word.yield_(total)
        block.yield_(*word.results)
    return block.results[0]
