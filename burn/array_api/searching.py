"""Searching, sorting, indexing and set functions of the array API standard."""

from __future__ import annotations

from typing import Any, NamedTuple

from burn.tensors import Tensor, concatenation, constant
from burn.tensors.promotion import first_operand


class UniqueAllResult(NamedTuple):
    """The distinct elements, the index of the first of each, for every element its index among them, and their counts."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """The distinct elements, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """The distinct elements, and for every element its index among them."""

    values: Tensor
    inverse_indices: Tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element along an axis, or in row-major order."""
    return constant(x).argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element along an axis, or in row-major order."""
    return constant(x).argmin(axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """The number of elements that are not zero."""
    return constant(x).count_nonzero(axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero: a vector for each axis."""
    return constant(x).nonzero()


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where elements of x2 belong in the sorted vector x1: before equal elements ("left") or behind ("right"). sorter: the
    indices that sort x1."""
    row = constant(x1)
    return (row if sorter is None else row.take(sorter, 0)).searchsorted(x2, side)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition is true, x2 elsewhere; the three broadcast."""
    return concatenation.where(condition, x1, x2)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices of the elements in sorted order. Every sort is stable."""
    return constant(x).argsort(axis, descending)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sorted along an axis. Every sort is stable."""
    return constant(x).sort(axis, descending)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices of an axis with these indices. A vector needs no axis. Raises TypeError if another tensor has none."""
    given = constant(x)
    if axis is None and given.ndim != 1:
        raise TypeError(f"take needs an axis of {given.type}")
    return given.take(indices, axis or 0)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements whose index on the axis is given for each result; the other axes broadcast."""
    return constant(x).take_along_axis(indices, axis)


def unique_all(x: Tensor, /) -> UniqueAllResult:
    """The distinct elements, sorted, with first indices, inverse and counts. Every NaN is distinct."""
    given = constant(x)
    found = given.unique_with_counts()
    return UniqueAllResult(found.values, found.indices, found.inverse.reshape(given.type.shape), found.counts)


def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """The distinct elements, sorted, and their counts."""
    found = unique_all(x)
    return UniqueCountsResult(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """The distinct elements, sorted, and for every element its index among them."""
    found = unique_all(x)
    return UniqueInverseResult(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements, sorted."""
    return unique_all(x).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """True for elements of x1 that occur in x2; with `invert`, for those that do not."""
    return first_operand(x1, (x2,)).isin(x2, invert)
