"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.linalg.spectral import svdvals


def norm(
    x: Any, ord: float | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """numpy.linalg.norm. Without ord and axis, the 2-norm of all elements. One axis: a vector's norm of any order. Two
    axes: a matrix' norm, "fro", 1, -1, inf, -inf, or of its singular values: 2, -2, and "nuc", their sum."""
    given = constant(x)
    if ord is None:
        return given.norm(2, axis, keepdims)
    axes = given._axes(axis)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise TypeMismatch(f"a vector has no norm '{ord}'", ["its order is a number"])
        return given.norm(ord, axes, keepdims)
    if len(axes) != 2:
        raise TypeMismatch("a norm with an order is of vectors or matrices", [f"axes {list(axes)} of {given.type}"])
    if ord == "fro":
        return given.norm(2, axes, keepdims)
    if ord in (2, -2, "nuc"):
        values = svdvals(given.moveaxis(axes, (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else values.max(-1) if ord == 2 else values.min(-1)
        return result.reshape(*(1 if i in axes else d for i, d in enumerate(given.type.shape))) if keepdims else result
    if ord not in (1, -1, math.inf, -math.inf):
        raise TypeMismatch(f"there is no matrix norm {ord!r}", ["there are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf"])
    summed, over = axes if abs(ord) == 1 else axes[::-1]  # type: ignore[arg-type]
    totals = given.norm(1, summed, keepdims=True)
    result = totals.norm(math.inf if ord > 0 else -math.inf, over, keepdims=True)  # type: ignore[operator]
    return result if keepdims else result.squeeze(*axes)
