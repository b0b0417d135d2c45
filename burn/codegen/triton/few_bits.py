"""Prints a row times a weight of few bits, whose time is that of reading the weight: `emit`.

The depth's last loops are over a word of 32 bits: its bytes, and the numbers of a byte. They are unrolled. A word is loaded once
for all its numbers, and neighbouring threads load neighbouring words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product as combinations

from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.heuristics.few_bits import block_of, inner_loops
from burn.codegen.triton.instances import InstancePrinter, Instances
from burn.codegen.triton.printed import Printed, closed, opened
from burn.dialect.dims import Atom, Dim, ceildiv, product
from burn.kernels.body import Apply, ContractionKernel, Load


@dataclass
class _WordPrinter(InstancePrinter):
    """Prints the load of a byte as a part of a word. byte: its number in the word, of the present iteration."""

    byte: int = 0

    def _load(self, node: Load) -> str:
        if node.dtype != "uint8":
            return super()._load(node)
        first = node.offset - self.byte
        pointer, mask = self._address(node.buffer, first, NONE)
        pointer = f"({pointer}).to(tl.pointer_type(tl.int32), bitcast=True)"
        text = f"tl.load({pointer}, mask={mask}, other=0)" if mask else f"tl.load({pointer})"
        word = self._part(("word", node.buffer, first), lambda: text, "word")
        return f"({word} >> {8 * self.byte}).to(tl.uint8)"


def emit(kernel: ContractionKernel, values: Mapping[str, Dim], sizes: ContractionKernel, sites: list[str]) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values, for choosing blocks."""
    block, inner = block_of(sizes), kernel.depth[-len(inner_loops(sizes)) :]
    printer = opened(kernel.buffers, sites, _WordPrinter)
    assert isinstance(printer, _WordPrinter)
    code, instances = printer.code, Instances()
    words, columns = product([v.extent for v in kernel.depth[:2]]), kernel.column.extent
    known_words, known_columns = product([v.extent for v in sizes.depth[:2]]), sizes.column.extent
    code.line("y = tl.program_id(0).to(INT) * COLUMNS + tl.arange(0, COLUMNS)[:, None]")
    inside = "" if _is_whole(known_columns, block.columns) else code.let(f"y < {printer.dim(columns)}", "inside")
    printer.axes["y"] = Axis("y", inside)
    for single in (*kernel.batch, *kernel.rows):
        printer.put(single, "0", NONE)
    printer.put(kernel.column, "y", frozenset("y"))
    code.line("total = tl.full([COLUMNS, WORDS], 0.0, tl.float32)")
    with code.block(f"for start in range(0, {printer.dim(words)}, WORDS):"), printer.scope():
        code.line("k = (start + tl.arange(0, WORDS)[None, :]).to(INT)")
        within = "" if _is_whole(known_words, block.words) else code.let(f"k < {printer.dim(words)}", "within")
        printer.axes["k"] = Axis("k", within)
        printer.walk_flat(kernel.depth[:2], "k", frozenset("k"))
        extents = [v.extent for v in sizes.depth[2:] if isinstance(v.extent, int)]
        for index in combinations(*map(range, extents)):
            at: dict[Atom, Dim] = dict(zip(inner, index, strict=True))
            printer.byte = index[0]
            body = Apply(kernel.dtype, "mul", (kernel.lhs, kernel.rhs))
            code.line(f"total += {printer.value(instances.at(body, at))}")
    printer.axes.pop("k", None)
    printer.accumulator = (code.let("tl.sum(total, 1)[:, None]", "sum"), frozenset("y"))
    for write in kernel.epilogue:
        printer.value(write.value)
    for write in kernel.epilogue:
        printer.store(write)
    constants = {"COLUMNS": block.columns, "WORDS": block.words}
    about = "A few columns each; words of packed numbers are multiplied with the row and summed."
    programs = ceildiv(known_columns, block.columns)
    return closed(printer, kernel, about, constants, programs, values, known_columns, block.warps)


def _is_whole(size: Dim, block: int) -> bool:
    return isinstance(size, int) and size % block == 0
