"""Views and arrangements: broadcast_in_dim, reshape, rev, concatenate, pad, iota."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, reshape
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, dim_max, dim_min
from burn.dialect.types import type_of
from burn.importers.lax.conversion import convert_element_type
from burn.importers.lax.scalars import full, is_empty


def broadcast_in_dim(x: Value, shape: Sequence[Dim], axes: Sequence[int]) -> Value:
    """x with its axis i at `axes[i]` of the result, repeated to `shape`."""
    own = type_of(x).shape
    between: list[Dim] = [1] * len(shape)
    for axis, size in zip(axes, own, strict=True):
        between[axis] = size
    if list(axes) != sorted(axes):
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        x = ops.transpose(x, permutation=tuple(order))
    return broadcast_to(reshape(x, tuple(between)), tuple(shape))


def rev(x: Value, axes: Sequence[int]) -> Value:
    """The order of elements reversed along axes."""
    type_ = type_of(x)
    if not axes or is_empty(type_.shape):
        return x
    starts = tuple(d - 1 if i in axes else 0 for i, d in enumerate(type_.shape))
    steps = tuple(-1 if i in axes else 1 for i in range(type_.rank))
    return ops.slice(x, starts=starts, sizes=type_.shape, steps=steps)


def concatenate(xs: Sequence[Value], axis: int) -> Value:
    return xs[0] if len(xs) == 1 else ops.concat(list(xs), axis=axis)


def slice_(x: Value, starts: Sequence[Dim], limits: Sequence[Dim], strides: Sequence[int] | None = None) -> Value:
    """Elements start, start + stride, .. below the limit, of every axis."""
    steps = tuple(strides or (1,) * len(starts))
    sizes = tuple(
        dim_max(0, limit - start if step == 1 else (limit - start + step - 1) // step)
        for start, limit, step in zip(starts, limits, steps, strict=True)
    )
    shape = type_of(x).shape
    if sizes == shape and all(s == 0 for s in starts) and all(s == 1 for s in steps):
        return x
    return ops.slice(x, starts=tuple(starts), sizes=sizes, steps=steps)


def pad(x: Value, value: Value, low: Sequence[Dim], high: Sequence[Dim], interior: Sequence[int]) -> Value:
    """`value` (a scalar) before, after and between the elements of each axis. A negative number of elements before or after
    removes that many instead."""
    type_ = type_of(x)
    inner = tuple(n if d != 1 else 0 for n, d in zip(interior, type_.shape, strict=True))
    before, after = tuple(dim_max(0, n) for n in low), tuple(dim_max(0, n) for n in high)
    if any(n != 0 for n in (*before, *after, *inner)):
        if is_empty(type_.shape):  # nothing is between no elements
            sizes = tuple(
                b + a + dim_max(0, d + (d - 1) * n)
                for b, a, d, n in zip(before, after, type_.shape, inner, strict=True)
            )
            x = broadcast_to(value, sizes)
        else:
            x = ops.pad(x, value, low=before, high=after, interior=inner)
    padded = type_of(x).shape
    starts = tuple(dim_max(0, 0 - n) for n in low)
    sizes = tuple(dim_max(0, d + dim_min(0, a) + dim_min(0, b)) for d, a, b in zip(padded, low, high, strict=True))
    if sizes == padded:
        return x
    return ops.slice(x, starts=starts, sizes=sizes, steps=(1,) * len(sizes))


def iota(shape: Sequence[Dim], axis: int, dtype: str) -> Value:
    """0, 1, 2 .. along an axis."""
    known = dtype in ("int64", "int32", "float32", "float64")
    counted = ops.iota(shape=tuple(shape), axis=axis, dtype=dtype if known else "int64")
    return convert_element_type(counted, dtype)


def expand_dims(x: Value, axes: Sequence[int]) -> Value:
    """Axes of size 1 inserted at positions of the result."""
    rest = iter(type_of(x).shape)
    rank = type_of(x).rank + len(axes)
    return reshape(x, tuple(1 if i in axes else next(rest) for i in range(rank)))


def squeeze(x: Value, axes: Sequence[int]) -> Value:
    return reshape(x, tuple(d for i, d in enumerate(type_of(x).shape) if i not in axes))


def tile(x: Value, reps: Sequence[int]) -> Value:
    """Each axis repeated as a whole."""
    shape = type_of(x).shape
    if is_empty(shape) or 0 in reps:
        return full(type_of(x).with_shape(tuple(d * r for d, r in zip(shape, reps, strict=True))), 0)
    apart: list[Dim] = [n for d in shape for n in (1, d)]
    repeated: list[Dim] = [n for d, r in zip(shape, reps, strict=True) for n in (r, d)]
    whole = tuple(d * r for d, r in zip(shape, reps, strict=True))
    return reshape(broadcast_to(reshape(x, tuple(apart)), tuple(repeated)), whole)
