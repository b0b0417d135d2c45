"""Heuristics for a row times a weight of few bits (`few_bits.py`): which kernels are such, and their blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.dims import LoopVar, product
from burn.dialect.packed import FRAGMENT_COLUMNS
from burn.kernels.body import Apply, ContractionKernel, Convert, Load, walk

MOST = 16
"""Numbers of a word of 32 bits, at most: of 2 bits."""


MANY = 4096
"""Columns from which on programs of eight columns keep all processors busy."""


@dataclass(frozen=True)
class Block:
    """Columns of a program, words of a step along the depth, and warps."""

    columns: int
    words: int
    warps: int


def is_row(kernel: ContractionKernel) -> bool:
    """True for one row times a weight that `burn.kernels.builders.blocks` unpacks."""
    one = product([v.extent for v in (*kernel.rows, *kernel.batch)]) == 1
    return one and _unpacked(kernel) is not None and not in_fragments(kernel)


def in_fragments(kernel: ContractionKernel) -> bool:
    """True for a weight that `burn.passes.block_fragments` laid out."""
    weight = _unpacked(kernel)
    return weight is not None and kernel.buffers[weight.buffer].panels == FRAGMENT_COLUMNS


def _unpacked(kernel: ContractionKernel) -> Load | None:
    """The weight's bytes that `burn.kernels.builders.blocks` unpacks; None for another rhs."""
    if (floats := float_numbers(kernel)) is not None:
        return floats
    nodes = list(walk(kernel.rhs))
    if kernel.dtype != "float32" or not any(isinstance(n, Apply) and n.function == "xor" for n in nodes):
        return None
    return next((n for n in nodes if isinstance(n, Load) and n.dtype == "uint8"), None)


def float_numbers(kernel: ContractionKernel) -> Load | None:
    """The bytes of a weight of 8-bit floats that `burn.kernels.builders.blocks` scales; None for another rhs."""
    node = kernel.rhs
    while isinstance(node, Convert):
        node = node.arg
    match node:
        case Apply(function="mul", args=(Convert(arg=Load(dtype=dtype) as load), _)) if dtype in FLOAT_NUMBERS:
            return load if kernel.buffers[load.buffer].panels else None
    return None


def inner_loops(kernel: ContractionKernel) -> tuple[LoopVar, ...]:
    """The last loops of the depth of such a kernel, over the bytes of a word and the numbers of a byte. () for other kernels."""
    if not is_row(kernel) or len(kernel.depth) != 4:
        return ()
    *_, byte, part = kernel.depth
    extents = [v.extent for v in (byte, part) if isinstance(v.extent, int)]
    return (byte, part) if len(extents) == 2 and prod(extents) <= MOST else ()


def block_of(kernel: ContractionKernel) -> Block:
    """A thread has a word of each column, so that it loads an element of the row once for all of them."""
    words, columns = product([v.extent for v in kernel.depth[:2]]), kernel.column.extent
    many = isinstance(columns, int) and columns >= MANY
    return Block(8 if many else 4, 256 if not isinstance(words, int) or words >= 256 else 128, 4)
