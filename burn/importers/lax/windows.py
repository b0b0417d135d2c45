"""Reductions over sliding windows."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import broadcast_to
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, dim_max
from burn.dialect.types import type_of
from burn.importers.lax.reduction import Combine, identity, reduce_with
from burn.importers.lax.scalars import is_empty, like
from burn.importers.lax.shaping import pad


def window_shape(
    shape: Sequence[Dim], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Dim, ...]:
    """The number of windows along each axis."""
    return tuple(
        dim_max(0, (d - (k - 1) * n - 1) // s + 1) if k else d
        for d, k, s, n in zip(shape, window, strides, dilations, strict=True)
    )


def reduce_window(
    x: Value,
    kind: str,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Value:
    """sum, prod, max or min over windows of every axis. Padding and the elements that base dilation inserts are the identity."""
    dtype = type_of(x).dtype
    if dtype == "bool":
        small = ops.cast(x, dtype="uint8")
        kind = {"sum": "max", "or": "max", "prod": "min", "and": "min"}.get(kind, kind)
        return ops.ne(
            reduce_window(small, kind, window, strides, padding, base_dilation, window_dilation), like(0, small)
        )
    x = _dilated(x, identity(kind, x), padding, base_dilation)
    shape = window_shape(type_of(x).shape, window, strides, window_dilation)
    if is_empty(shape):
        return broadcast_to(identity(kind, x), shape)
    zeros = (0,) * len(shape)
    return ops.window_reduce(
        x,
        kind=kind,
        window=tuple(window),
        strides=tuple(strides),
        dilations=tuple(window_dilation),
        low=zeros,
        high=zeros,
    )


def _dilated(x: Value, value: Value, padding: Sequence[tuple[Dim, Dim]], base_dilation: Sequence[int]) -> Value:
    low, high = [p[0] for p in padding], [p[1] for p in padding]
    return pad(x, value, low, high, [n - 1 for n in base_dilation])


def reduce_window_with(
    xs: Sequence[Value],
    starts: Sequence[Value],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
    combine: Combine,
) -> list[Value]:
    """As `reduce_window`, by an associative function of lists of tensors; starts: its identities, which also pad."""
    rank = type_of(xs[0]).rank
    found = [
        windows_of(x, s, window, strides, padding, base_dilation, window_dilation)
        for x, s in zip(xs, starts, strict=True)
    ]
    return reduce_with(found, starts, tuple(range(rank, 2 * rank)), combine)


def windows_of(
    x: Value,
    value: Value,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Value:
    """The elements of every window. Shapes: x [d..] -> [windows.., window..]; padding has `value`."""
    padded = _dilated(x, value, padding, base_dilation)
    shape = window_shape(type_of(padded).shape, window, strides, window_dilation)
    if is_empty(shape):
        return broadcast_to(value, (*shape, *window))
    return ops.windows(padded, axis=0, window=tuple(window), strides=tuple(strides), dilations=tuple(window_dilation))
