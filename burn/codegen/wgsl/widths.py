"""Index expressions of 32 bits: `needed` gives the sizes that have to fit.

Kernels count in i32. The entry function computes these sizes in 64 bits and passes them to the launch, which refuses larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from burn.dialect.dims import Atom, Call, Dim, Expr, LoopVar, atoms, dim_max, product, terms
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel, Index, Kernel, LoopKernel, Where
from burn.kernels.rewrite import kernel_dims, kernel_loops, kernel_nodes

MOST = 2**31 - 1

BLOCK = 256
"""Loops over blocks count beyond their end by less than this."""


def needed(kernel: Kernel) -> tuple[Dim, ...]:
    """Sizes of a kernel that must be at most `MOST`, without those that are numbers within it.

    They bound the elements of buffers of bytes, as a device's memory bounds those of others. They bound index expressions that
    are values, or in tests or divisions, and the ends of loops over blocks. Offsets in memory may wrap in between."""
    sizes = dict.fromkeys(_sizes(kernel))
    return tuple(size for size in sizes if not isinstance(size, int) or size > MOST)


def _sizes(kernel: Kernel) -> Iterator[Dim]:
    for buffer in kernel.buffers:
        if DTYPES[buffer.dtype].size == 1:
            yield buffer.elements
    for node in kernel_nodes(kernel):
        if isinstance(node, Index):
            yield largest(node.dim)
        elif isinstance(node, Where):
            for index, _ in node.ranges:
                yield largest(index)
    for dim in kernel_dims(kernel):
        for atom in atoms(dim):
            if isinstance(atom, Call):
                for each in atom.args:
                    yield largest(each)
    if isinstance(kernel, ContractionKernel):
        for loops in (kernel.rows, (kernel.column,), kernel.depth):
            yield product([v.extent for v in loops]) + BLOCK
    elif not isinstance(kernel, LoopKernel):
        yield from (loop.extent + BLOCK for loop in kernel_loops(kernel))


def largest(dim: Dim) -> Dim:
    """An upper bound of an expression's magnitude, of sizes alone."""
    total: Dim = 0
    for monomial, count in terms(dim):
        total = total + abs(count) * product([_largest(atom) for atom in monomial])
    return total


def _largest(atom: Atom) -> Dim:
    if isinstance(atom, LoopVar):
        return atom.extent
    if not isinstance(atom, Call):
        return Expr.of(atom)
    if atom.op == "floordiv":  # the divisor is at least 1
        return largest(atom.args[0])
    if atom.op == "mod":
        return largest(atom.args[1])
    return dim_max(*map(largest, atom.args))
