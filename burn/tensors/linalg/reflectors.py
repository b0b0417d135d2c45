"""Householder's reflectors 1 - t v v^H, as LAPACK chooses them: v is 1 at its head, and a column becomes a real number there.

The signs and phases of factors are then those of LAPACK, numpy and PyTorch. In complex arithmetic a reflector is unitary, but not
Hermitian. Source: Golub and Van Loan, "Matrix Computations" (4th edition), 5.1; LAPACK's documentation of `larfg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burn.dialect import ops as build
from burn.dialect.compose import dim_value
from burn.dialect.dims import Dim, dim_min
from burn.tensors.base import made
from burn.tensors.complexes import complex
from burn.tensors.control import loop
from burn.tensors.creation import zeros

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


def reflector(column: Tensor, head: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """v [batch, n], t [batch, 1] and the number b [batch, 1] for columns [batch, n].

    (1 - t v v^H)^H column is b at the index `head` and 0 behind it. v is 0 before the head. t is 0 if nothing is reflected."""
    index = _index(column.type.shape[1]).unsqueeze(0)
    behind = (index > head).where(column, 0.0)
    first = column.take(head, 1).unsqueeze(1)
    rest = behind.norm(2, 1, keepdims=True)
    length = rest.hypot(first.abs())
    idle = (rest == 0) & (first.imag == 0) if column.is_complex else rest == 0
    real = first.real
    size = (real < 0).where(length, -length)
    factor = _complex((size - real) / idle.where(1.0, size), first.imag / -idle.where(1.0, size), column)
    vector = behind / idle.where(1.0, first - size.astype(column.dtype))
    return (
        (index == head).where(1.0, idle.where(0.0, vector)),
        idle.where(0.0, factor),
        idle.where(first, size.astype(column.dtype)),
    )


def _complex(re: Tensor, im: Tensor, like: Tensor) -> Tensor:
    return complex(re, im) if like.is_complex else re


def from_left(vector: Tensor, factor: Tensor, x: Tensor) -> Tensor:
    """(1 - t v v^H) x."""
    across = (vector.unsqueeze(2).conj() * x).sum(1, keepdims=True)
    return x - factor.unsqueeze(2) * vector.unsqueeze(2) * across


def from_right(x: Tensor, vector: Tensor, factor: Tensor) -> Tensor:
    """x (1 - t v v^H)."""
    down = (x * vector.unsqueeze(1)).sum(2, keepdims=True)
    return x - factor.unsqueeze(2) * down * vector.unsqueeze(1).conj()


def packed(x: Tensor) -> tuple[Tensor, Tensor]:
    """LAPACK's `geqrf` of matrices [batch, m, n].

    The upper factor with the reflectors' elements below the diagonal, [batch, m, n], and t [batch, k] of the k = min(m, n)
    reflectors."""
    batch, m, n = x.type.shape
    k = dim_min(m, n)
    row, column = _index(m).reshape(1, m, 1), _index(n).reshape(1, 1, n)

    def reflect(step: Tensor, going: Tensor, matrix: Tensor, factors: Tensor) -> tuple:
        vector, factor, _ = reflector(matrix.take(step, 2), step)
        kept = (column < step) | ((column == step) & (row > step))
        stored = (column < step).where(matrix, vector.unsqueeze(2))
        matrix = kept.where(stored, from_left(vector, factor.conj(), matrix))
        return going, matrix, (_index(k).unsqueeze(0) == step).where(factor, factors)

    matrix, factors = loop(reflect, (x, zeros((batch, k), dtype=x.dtype)), trips=k)
    return matrix, factors


def multiplied(packed: Tensor, factors: Tensor, x: Tensor, left: bool = True, adjoint: bool = False) -> Tensor:
    """q x, or x q with `left` false, or with q^H with `adjoint`, where q is the matmul of reflectors.

    Their vectors are in the columns of `packed` [batch, m, n] below the diagonal, their t are `factors` [batch, k]."""
    m = packed.type.shape[1]
    k = factors.type.shape[1]
    index = _index(m).unsqueeze(0)

    def apply(step: Tensor, going: Tensor, x: Tensor) -> tuple:
        i = step if left == adjoint else made(dim_value(k)) - 1 - step
        vector = (index == i).where(1.0, (index > i).where(packed.take(i, 2), 0.0))
        factor = factors.take(i, 1).unsqueeze(1)
        factor = factor.conj() if adjoint else factor
        return going, from_left(vector, factor, x) if left else from_right(x, vector, factor)

    return loop(apply, (x,), trips=k)[0]


def _index(n: Dim) -> Tensor:
    return made(build.iota(shape=(n,), axis=0))
