"""The known elements of a small tensor.

A content is an object array, so that moving elements is numpy's own reshape, take, concatenate. An element is an int or
a symbolic size; for floats also a float, or a `Ratio` of sizes, as in `Floor(Div(Cast(height), Cast(stride)))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert as as_dtype
from burn.dialect.compose import reshape, signed
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, numpy_dtype

MAX_ELEMENTS = 64
"""Larger tensors are data."""

KINDS = ("int", "uint", "bool", "float")  # the element types that contents are kept for


@dataclass(frozen=True)
class Ratio:
    """The quotient of two sizes, in a float tensor."""

    top: Dim
    bottom: Dim


@dataclass(frozen=True, eq=False)
class Content:
    """The elements of a small tensor. `array` has dtype object: ints, bools, floats, symbolic sizes and ratios."""

    dtype: str
    array: np.ndarray

    @staticmethod
    def of(dtype: str, elements: Any, shape: tuple[int, ...] | None = None) -> Content:
        """From a list of elements (rank 1), or one element (rank 0)."""
        flat = list(elements) if isinstance(elements, (list, tuple)) else [elements]
        array = np.empty(len(flat), object)
        array[:] = flat
        if shape is None:
            shape = (len(flat),) if isinstance(elements, (list, tuple)) else ()
        return Content(dtype, array.reshape(shape))

    @staticmethod
    def of_numbers(dtype: str, array: np.ndarray) -> Content:
        kind = DTYPES[dtype].kind
        element: Callable[[Any], Any] = {"float": float, "bool": bool}.get(kind, int)
        return Content.of(dtype, [element(v) for v in array.reshape(-1)], array.shape)

    @property
    def is_numbers(self) -> bool:
        return all(isinstance(e, (int, float)) for e in self.array.reshape(-1))

    def numbers(self) -> np.ndarray | None:
        """As an array of the element type, when no element is symbolic."""
        return self.array.astype(numpy_dtype(self.dtype)) if self.is_numbers else None

    def with_array(self, array: Any) -> Content:
        result = np.empty(np.shape(array), object)
        result[...] = array
        return Content(self.dtype, result)


def wanted(dtype: str, size: int) -> bool:
    """True if contents are kept for a tensor of this type and number of elements."""
    return size <= MAX_ELEMENTS and DTYPES[dtype].kind in KINDS and DTYPES[dtype].bits not in (2, 4)


class Unknown(Exception):
    """An operand's content is not known, or the operation leaves what contents can say."""


def materialise(content: Content) -> ir.Value:
    """Builds the tensor of a content. Raises Unknown for floats beside sizes, which no op writes down."""
    elements, shape = list(content.array.reshape(-1)), content.array.shape
    kind = DTYPES[content.dtype].kind
    if content.is_numbers:
        if kind in ("int", "uint"):
            numbers = tuple(signed(int(e)) for e in elements)
            return ops.constant(values=(), bits=numbers, shape=shape, dtype=content.dtype)
        return ops.constant(values=tuple(float(e) for e in elements), shape=shape, dtype=content.dtype)
    if any(isinstance(e, float) and not e.is_integer() for e in elements):
        raise Unknown
    tops = [e.top if isinstance(e, Ratio) else int(e) if isinstance(e, float) else e for e in elements]
    value = _sizes(tops, shape, content.dtype)
    if not any(isinstance(e, Ratio) for e in elements):
        return value
    bottoms = [e.bottom if isinstance(e, Ratio) else 1 for e in elements]
    return ops.div(value, _sizes(bottoms, shape, content.dtype))


def _sizes(dims: list[Dim], shape: tuple[int, ...], dtype: str) -> ir.Value:
    return as_dtype(reshape(ops.dim_values(dims=tuple(dims), scalar=not shape), shape), dtype)
