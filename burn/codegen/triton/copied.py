"""Which sides of products are copied block by block to shared memory by tensor maps, and how a map is printed.

A map says where a matrix begins, how many rows and columns it has, and how far apart its rows are. What a block has outside of it
is zero, so that loads need no conditions. Programs make their maps themselves, in scratch memory that each launch is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, Symbol, exact_div, product, substitute
from burn.dialect.types import DTYPES
from burn.kernels.body import Load, Scalar, loop_atoms

BYTES = 128
"""Of a map."""

ALIGNED = 16
"""Bytes that a matrix and each of its rows begin at multiples of."""


@dataclass(frozen=True)
class Matrix:
    """A matrix in a buffer: where it begins, which may depend on the program's own place, and how many elements its rows are
    apart. Those of one row lie side by side."""

    buffer: int
    begin: Dim
    stride: Dim
    rows: LoopVar
    columns: LoopVar


def matrix(side: Scalar, rows: LoopVar, columns: LoopVar, values: Mapping[str, Dim]) -> Matrix | None:
    """The matrix that a side of a product is read from, if a map can be made of it. values: what the names of sizes stand for."""
    if not isinstance(side, Load):
        return None
    begin: Dim = 0
    stride: Dim = 0
    across: Dim = 0
    for monomial, count in () if isinstance(side.offset, int) else side.offset.terms:
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
    least = ALIGNED * 8 // DTYPES[side.dtype].bits
    if any(part != 0 and exact_div(substitute(part, sizes), least) is None for part in (begin, stride)):
        return None
    return Matrix(side.buffer, begin, stride, rows, columns)
