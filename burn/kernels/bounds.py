"""Bounds of integer scalars: `bounds`. An index whose bounds lie within its axis needs no check at run time."""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect.dims import Dim, LoopVar
from burn.dialect.types import DTYPES
from burn.kernels.body import Apply, Const, Convert, Index, Scalar, Where

Bounds = tuple[int, int]
"""The least and the greatest value, both possible as far as is known."""


def within(scalar: Scalar, extent: Dim) -> bool:
    """True if every value is an index of an axis of that size."""
    low, high = bounds(scalar)
    return isinstance(extent, int) and low >= 0 and high < extent


def bounds(scalar: Scalar) -> Bounds:
    """Bounds of an integer or boolean scalar, which are those of its type if nothing else is known. Values of other types have
    none: the bounds of int64 stand for them."""
    return _bounds(scalar, {})


def _bounds(scalar: Scalar, known: dict[int, Bounds]) -> Bounds:
    if id(scalar) not in known:
        own = _of_type(scalar.dtype)
        low, high = _found(scalar, known)
        known[id(scalar)] = (low, high) if own[0] <= low and high <= own[1] else own  # else it may have wrapped around
    return known[id(scalar)]


def _found(scalar: Scalar, known: dict[int, Bounds]) -> Bounds:
    match scalar:
        case Const(value=int(value)):
            return int(value), int(value)
        case Index(dim=LoopVar(extent=int(extent))):
            return 0, max(0, extent - 1)
        case Convert(arg=arg) if _is_integer(arg.dtype):
            return _bounds(arg, known)
        case Where(then=then, otherwise=otherwise):
            return _either(_bounds(then, known), _bounds(otherwise, known))
        case Apply(function="select", args=(_, then, otherwise)):
            return _either(_bounds(then, known), _bounds(otherwise, known))
        case Apply(function=function, args=(first, second)) if function in RULES and _is_integer(first.dtype):
            return RULES[function](_bounds(first, known), _bounds(second, known), scalar.dtype)
    return _of_type(scalar.dtype)


def _is_integer(dtype: str) -> bool:
    return dtype == "bool" or DTYPES[dtype].kind in ("int", "uint")


def _of_type(dtype: str) -> Bounds:
    if dtype == "bool":
        return 0, 1
    bits = DTYPES[dtype].bits
    return (0, 2**bits - 1) if DTYPES[dtype].kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _either(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), max(a[1], b[1])


def _and(a: Bounds, b: Bounds, dtype: str) -> Bounds:
    """The result has no bits but those of both: one operand that is not negative bounds it."""
    highs = [high for low, high in (a, b) if low >= 0]
    return (0, min(highs)) if highs else _of_type(dtype)


def _or(a: Bounds, b: Bounds, dtype: str) -> Bounds:
    if a[0] < 0 or b[0] < 0:
        return _of_type(dtype)
    return max(a[0], b[0]), 2 ** max(a[1], b[1]).bit_length() - 1


def _shift_right(a: Bounds, b: Bounds, dtype: str) -> Bounds:
    """Zeros are shifted in: a negative number becomes a large one."""
    if b[0] != b[1] or not 0 <= b[0] < DTYPES[dtype].bits:
        return _of_type(dtype)
    if a[0] >= 0:
        return a[0] >> b[0], a[1] >> b[0]
    return _of_type(dtype) if b[0] == 0 else (0, 2 ** (DTYPES[dtype].bits - b[0]) - 1)


RULES: dict[str, Callable[[Bounds, Bounds, str], Bounds]] = {
    "add": lambda a, b, _: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b, _: (a[0] - b[1], a[1] - b[0]),
    "min": lambda a, b, _: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b, _: (max(a[0], b[0]), max(a[1], b[1])),
    "and": _and,
    "or": _or,
    "shift_right": _shift_right,
}
"""The result's bounds from the operands', by the function's name in the dialect."""
