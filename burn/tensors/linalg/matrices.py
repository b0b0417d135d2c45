"""Matrices of any batch axes as [batch, m, n], and their rows, columns and indices."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops as build
from burn.dialect.dims import Dim, product
from burn.dialect.types import CONTINUOUS, PARTS
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.base import made


def as_matrices(name: str, x: Any, square: bool = False) -> Tensor:
    """x as [batch, m, n] in the float type of accumulators. name: of the function, in errors. Raises TypeMismatch."""
    given = constant(x)
    if given.ndim < 2:
        raise TypeMismatch(f"{name} is of matrices", [f"not of {given.type}"])
    rows, columns = given.type.shape[-2:]
    if square and rows != columns:
        raise TypeMismatch(f"{name} is of square matrices", [f"not of {given.type}"])
    return given._wide().reshape(product(given.type.shape[:-2]), rows, columns)


def restored(result: Tensor, like: Tensor, *shape: Dim) -> Tensor:
    """A result [batch, *shape] with the batch axes of the given matrices `like`, and their element type."""
    dtype = like.dtype if like.dtype in CONTINUOUS else "float32"
    if dtype in PARTS and not result.is_complex:  # magnitudes
        dtype = PARTS[dtype]
    kept = result.dtype if result.dtype == "int64" else dtype
    return result.reshape(*like.type.shape[:-2], *shape).astype(kept)


def row_of(x: Tensor, index: Tensor) -> Tensor:
    """Row `index` of each matrix: [batch, n]."""
    return x.take(index, 1)


def column_of(x: Tensor, index: Tensor) -> Tensor:
    """Column `index` of each matrix: [batch, m]."""
    return x.take(index, 2)


def index_along(size: Dim, *shape: int) -> Tensor:
    """0, 1, .. size - 1, in the shape given, where -1 stands for the size."""
    return made(build.iota(shape=(size,), axis=0)).reshape(*(size if d == -1 else d for d in shape))
