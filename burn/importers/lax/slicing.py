"""Slices at positions that the data give: dynamic_slice, dynamic_update_slice. Starts are clamped so that the slice is inside."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, number, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, decide
from burn.dialect.types import type_of
from burn.importers.lax.scalars import is_empty


def clamped(start: Value, most: Dim) -> Value:
    """An int64 start between 0 and `most`."""
    if type_of(start).dtype == "uint64":
        start = ops.min(start, number(2**63 - 1, "uint64"))
    return ops.max(ops.min(convert(start, "int64"), dim_value(most)), number(0, "int64"))


def dynamic_slice(x: Value, starts: Sequence[Value], sizes: Sequence[Dim]) -> Value:
    """x[start : start + size] along every axis, with starts clamped to [0, d - size]."""
    shape = type_of(x).shape
    if is_empty(sizes):
        return ops.slice(x, starts=(0,) * len(shape), sizes=tuple(sizes), steps=(1,) * len(shape))
    for axis, (start, size, whole) in enumerate(zip(starts, sizes, shape, strict=True)):
        if decide(size, "==", whole) is True:
            continue
        first = clamped(start, whole - size)
        if size == 1:
            x = ops.gather(x, reshape(first, (1,)), axis=axis)
        else:
            x = ops.gather(x, ops.add(ops.iota(shape=(size,), axis=0), first), axis=axis)
    return x


def dynamic_update_slice(x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """x with `update` written at the starts, which are clamped so that it is inside."""
    shape, sizes = type_of(x).shape, type_of(update).shape
    moving = [a for a in range(len(shape)) if decide(sizes[a], "==", shape[a]) is not True]
    if not moving:
        return update
    if is_empty(sizes) or is_empty(shape):
        return x
    order = (*moving, *(a for a in range(len(shape)) if a not in moving))
    back = tuple(order.index(a) for a in range(len(shape)))
    grid = tuple(sizes[a] for a in moving)
    columns = []
    for position, axis in enumerate(moving):
        first = clamped(starts[axis], shape[axis] - sizes[axis])
        index = ops.add(ops.iota(shape=(sizes[axis],), axis=0), first)
        spread = tuple(sizes[axis] if i == position else 1 for i in range(len(moving)))
        columns.append(reshape(broadcast_to(reshape(index, spread), grid), (*grid, 1)))
    indices = columns[0] if len(columns) == 1 else ops.concat(columns, axis=len(grid))
    written = ops.scatter_nd(transpose(x, order), indices, transpose(update, order))
    return transpose(written, back)
