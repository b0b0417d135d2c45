"""Householder's reflectors 1 - t v v^H, as LAPACK chooses them: v is 1 at its head, and a column becomes a real number there.

The signs and phases of factors are then those of LAPACK, numpy and PyTorch. In complex arithmetic a reflector is unitary, but not
Hermitian. Source: Golub and Van Loan, "Matrix Computations" (4th edition), 5.1; LAPACK's documentation of `larfg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burn.dialect import ops as build
from burn.dialect.dims import Dim
from burn.tensors.base import made
from burn.tensors.complexes import complex

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


def reflector(column: Tensor, head: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """v [batch, n], t [batch, 1] and the number b [batch, 1] for columns [batch, n]: (1 - t v v^H)^H column is b at the index `head`
    and 0 behind it. v is 0 before the head. t is 0 if there is nothing to reflect."""
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


def _index(n: Dim) -> Tensor:
    return made(build.iota(shape=(n,), axis=0))
