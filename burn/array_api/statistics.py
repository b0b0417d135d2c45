"""Statistical and utility functions of the array API standard. The sum and prod of integers are int64 or uint64."""

from __future__ import annotations

from typing import Any

from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES
from burn.errors import TypeMismatch
from burn.tensors import Tensor, concatenation, constant
from burn.tensors.base import ELEMENT_TYPES
from burn.tensors.creation import full

Axes = int | tuple[int, ...] | None


def _summed(x: Any, dtype: Any) -> tuple[Tensor, str]:
    """The operand in the type in which sum or prod accumulates, and the type of the result."""
    given = constant(x)
    kind = DTYPES[given.dtype].kind
    default = {"bool": "int64", "int": "int64", "uint": "uint64"}.get(kind, given.dtype)
    wanted = ELEMENT_TYPES[default] if dtype is None else given.astype(dtype).dtype
    return given.astype(wanted), wanted


def sum(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes; that of no elements is 0."""
    given, wanted = _summed(x, dtype)
    return given.sum(axis, keepdims).astype(wanted)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes; that of no elements is 1."""
    given, wanted = _summed(x, dtype)
    return given.prod(axis, keepdims).astype(wanted)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if one is."""
    return constant(x).max(axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if one is."""
    return constant(x).min(axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean; NaN for no elements."""
    return constant(x).mean(axis, keepdims)


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The sum of squared distances from the mean, divided by the number of elements minus `correction`."""
    return constant(x).var(axis, correction, keepdims)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of `var`."""
    return constant(x).std(axis, correction, keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the elements up to each along an axis; with `include_initial`, after a 0."""
    return _cumulative("cumsum", x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """`prod` of the elements up to each along an axis; with `include_initial`, after a 1."""
    return _cumulative("cumprod", x, axis, dtype, 1 if include_initial else None)


def _cumulative(method: str, x: Any, axis: int | None, dtype: Any, initial: int | None) -> Tensor:
    given, wanted = _summed(x, dtype)
    if axis is None and given.ndim != 1:
        raise TypeMismatch("a cumulative function needs an axis of tensors that are no vectors", [f"of {given.type}"])
    position = given._axis(axis or 0)
    result = getattr(given, method)(position).astype(wanted)
    if initial is None:
        return result
    shape: list[Dim] = list(given.type.shape)
    shape[position] = 1
    return concatenation.concat([full(shape, initial, wanted), result], position)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """True if all elements are true (not zero)."""
    return constant(x).all(axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """True if any element is true (not zero)."""
    return constant(x).any(axis, keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of adjacent elements along an axis, taken n times, after `prepend` and `append` are joined to them."""
    parts = [p for p in (prepend, x, append) if p is not None] if n else [x]
    return concatenation.concat(parts, axis).diff(n, axis)
