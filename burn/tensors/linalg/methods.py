"""Functions of `burn.linalg` that are methods of `Tensor`, for matrices on the last two axes."""

from __future__ import annotations

from typing import Any

from burn.tensors import Tensor, constant


def trace(x: Any, offset: int = 0) -> Tensor:
    """The sums of the diagonals of matrices: [.., m, n] -> [..]."""
    return constant(x).trace(offset, -2, -1)


def matrix_transpose(x: Any) -> Tensor:
    """Matrices with rows and columns exchanged."""
    return constant(x).mT


def cross(x: Any, y: Any, axis: int = -1) -> Tensor:
    """The cross product of vectors of 3 elements along an axis."""
    return constant(x).cross(y, axis)


def outer(x: Any, y: Any) -> Tensor:
    """The outer product of two vectors: a matrix of all pairs multiplied."""
    return constant(x).outer(y)
