"""Reductions: by a named operation or by any function, the index of an extreme, and running ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burn.dialect import ops
from burn.dialect.compose import limit, part, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.errors import TypeMismatch
from burn.importers.lax.conversion import convert_element_type
from burn.importers.lax.scalars import extreme, full, is_empty, kind_of, like

Combine = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]

COMBINE: dict[str, Callable[[Value, Value], Value]] = {
    "sum": lambda a, b: ops.add(a, b),
    "prod": lambda a, b: ops.mul(a, b),
    "max": lambda a, b: ops.max(a, b),
    "min": lambda a, b: ops.min(a, b),
    "and": lambda a, b: ops.and_(a, b),
    "or": lambda a, b: ops.or_(a, b),
    "xor": lambda a, b: ops.xor(a, b),
}


def identity(kind: str, x: Value) -> Value:
    """The scalar that a reduction starts from."""
    dtype = type_of(x).dtype
    if kind in ("max", "min"):
        return limit(dtype, kind == "min")
    if kind == "and":
        return like(True if dtype == "bool" else extreme(dtype, True) if kind_of(x) == "uint" else -1, x)
    return like({"prod": 1}.get(kind, 0), x)


def reduce(x: Value, kind: str, axes: Sequence[int]) -> Value:
    """sum, prod, max, min, and, or, xor over axes, in x's element type; the operation's identity where there is nothing."""
    axes = tuple(sorted(axes))
    type_ = type_of(x)
    if not axes:
        return x
    if is_empty(type_.shape):
        shape = tuple(d for i, d in enumerate(type_.shape) if i not in axes)
        return ops.broadcast_to(identity(kind, x), shape=shape) if shape else identity(kind, x)
    if kind in ("sum", "prod", "max", "min") and type_.dtype != "bool":
        return ops.reduce(x, kind=kind, axes=axes)
    if type_.dtype == "bool":
        known = {"and": "all", "or": "any", "prod": "all", "sum": "any", "min": "all", "max": "any"}.get(kind)
        if known is not None:
            return ops.reduce(x, kind=known, axes=axes)
        ones = ops.reduce(ops.cast(x, dtype="int32"), kind="sum", axes=axes)
        return ops.ne(ops.and_(ones, like(1, ones)), like(0, ones))
    return reduce_with([x], [identity(kind, x)], axes, lambda a, b: [COMBINE[kind](a[0], b[0])])[0]


def reduce_with(xs: Sequence[Value], starts: Sequence[Value], axes: Sequence[int], combine: Combine) -> list[Value]:
    """A reduction of several operands together, by an associative function of two lists of tensors. starts: its identities.

    Neighbours are combined pairwise. Raises TypeMismatch for a size that is not known."""
    axes = tuple(sorted(axes))
    if not axes:
        return list(xs)
    rank = type_of(xs[0]).rank
    kept = tuple(i for i in range(rank) if i not in axes)
    shape = type_of(xs[0]).shape
    size = 1
    for axis in axes:
        if not isinstance(length := shape[axis], int):
            raise TypeMismatch("a reduction by a function is of fixed sizes", [f"axis {axis} has {length} elements"])
        size *= length
    rest = tuple(shape[i] for i in kept)
    if not size or is_empty(rest):
        return [
            full(type_of(x).with_shape(rest), 0) if is_empty(rest) else _spread(s, rest)
            for x, s in zip(xs, starts, strict=True)
        ]
    rows = [reshape(transpose(x, (*axes, *kept)), (size, *rest)) for x in xs]
    while size > 1:
        half = size // 2
        first, second = ([_every(r, at, half) for r in rows] for at in (0, 1))
        joined = list(combine(first, second))
        if size % 2:
            joined = [ops.concat([j, part(r, 0, size - 1, 1)], axis=0) for j, r in zip(joined, rows, strict=True)]
        rows, size = joined, half + size % 2
    found = [reshape(r, rest) for r in rows]
    return list(combine([_spread(s, rest) for s in starts], found))


def _every(x: Value, start: int, count: int) -> Value:
    """Every second row."""
    return part(x, 0, start, count, 2)


def _spread(x: Value, shape: tuple) -> Value:
    return ops.broadcast_to(x, shape=shape) if shape else x


def arg_extreme(x: Value, kind: str, axis: int, dtype: str) -> Value:
    """The index of the first maximum ("max") or minimum along an axis; NaN counts as the extreme."""
    if type_of(x).dtype == "bool":
        x = ops.cast(x, dtype="uint8")
    return convert_element_type(ops.arg_reduce(x, kind=kind, axis=axis), dtype)


def cumulative(x: Value, kind: str, axis: int, reverse: bool) -> Value:
    """The running sum, prod, max or min along an axis, or from its end."""
    if is_empty(type_of(x).shape):
        return x
    return ops.cumulative(x, kind=kind, axis=axis, reverse=reverse)
