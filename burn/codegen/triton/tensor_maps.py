"""Tensor maps: which matmul operands are copied block by block to shared memory by TMA, and how a map is printed.

A map has a matrix' address, its rows and columns, and its row stride. Elements of a block outside of it are zero, so
loads need no masks. Programs create their maps in scratch memory of the launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, Symbol, exact_div, product, substitute
from burn.dialect.types import DTYPES
from burn.kernels.body import Load, Scalar, loop_atoms

BYTES = 128
"""Bytes of a map."""

ALIGNED = 16
"""The alignment in bytes of a matrix and its rows."""


@dataclass(frozen=True)
class Matrix:
    """A matrix in a buffer: its start, which may depend on the program id, and its row stride in elements. Rows are
    contiguous."""

    buffer: int
    begin: Dim
    stride: Dim
    rows: LoopVar
    columns: LoopVar


def matrix(operand: Scalar, rows: LoopVar, columns: LoopVar, values: Mapping[str, Dim]) -> Matrix | None:
    """The matrix of a matmul operand, if it can be read through a map. values: the values of named sizes."""
    if not isinstance(operand, Load):
        return None
    begin: Dim = 0
    stride: Dim = 0
    across: Dim = 0
    for monomial, count in () if isinstance(operand.offset, int) else operand.offset.terms:
        term = product([count, *(Expr.of(atom) for atom in monomial)])
        inside = loop_atoms(term)
        if rows not in inside and columns not in inside:
            begin = begin + term
        elif monomial.count(rows) == 1:
            stride = stride + product([count, *(Expr.of(atom) for atom in monomial if atom != rows)])
        else:
            across = across + term
    if across != Expr.of(columns) or stride == 0 or any(isinstance(atom, LoopVar) for atom in loop_atoms(stride)):
        return None
    sizes: dict[Atom, Dim] = {Symbol(name): value for name, value in values.items()}
    least = ALIGNED * 8 // DTYPES[operand.dtype].bits
    if any(part != 0 and exact_div(substitute(part, sizes), least) is None for part in (begin, stride)):
        return None
    return Matrix(operand.buffer, begin, stride, rows, columns)
