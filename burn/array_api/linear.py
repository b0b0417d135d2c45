"""Linear algebra functions of the array API standard, those outside of its extension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.promotion import together


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrices on the last two axes multiplied; a vector gets a temporary axis, the other axes broadcast."""
    return constant(x1).matmul(x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The matrices on the last two axes, transposed."""
    return constant(x).mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Contracts several axes: the last `axes` of x1 with the first of x2, or the axes listed for each."""
    return constant(x1).tensordot(x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The inner product along an axis, with x1 conjugated; the other axes broadcast. Raises TypeMismatch for
    vectors of two lengths."""
    a: Any
    a, b = together(constant(x1), constant(x2))
    if axis >= 0 and a.ndim != b.ndim:
        raise TypeMismatch("vecdot counts its axis from the end if the ranks differ", [f"{axis} of {a.type}, {b.type}"])
    a, b = a.moveaxis(axis, -1), b.moveaxis(axis, -1)
    if a.type.shape[-1] != b.type.shape[-1] and all(isinstance(t.type.shape[-1], int) for t in (a, b)):
        raise TypeMismatch("vecdot is of vectors of one length", [f"not {a.type} and {b.type}"])
    return a.conj().unsqueeze(-2).matmul(b.unsqueeze(-1)).squeeze(-1).squeeze(-1).astype(a.dtype)
