"""Gather and scatter: the cotangent of one is the other."""

from __future__ import annotations

import math
from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.adjoint.rules import rule
from burn.dialect.compose import convert, dim_value, nonzero, number, number_like, reshape, transpose, where, zeros_like
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import type_of


@rule("gather")
def gather(g: Value, y: Value, x: Value, indices: Value, axis: int) -> list[Value | None]:
    """g is [a.., i.., b..]: transposes the indexed axes to the front and accumulates a row at each index."""
    shape, index_type = type_of(x).shape, type_of(indices)
    axis %= len(shape)
    inner = tuple(range(axis, axis + index_type.rank))
    order = (*inner, *range(axis), *range(axis + index_type.rank, type_of(g).rank))
    rows = transpose(g, order)
    rest = (*shape[:axis], *shape[axis + 1 :])
    zeros = ops.full(shape=(shape[axis], *rest), dtype=type_of(x).dtype, value=0.0)
    summed = ops.scatter_nd(zeros, reshape(indices, (*index_type.shape, 1)), rows, reduction="add")
    return [transpose(summed, (*range(1, axis + 1), 0, *range(axis + 1, len(shape)))), None]


@rule("gather_elements")
def gather_elements(g: Value, y: Value, x: Value, indices: Value, axis: int) -> list[Value | None]:
    type_, index_type = type_of(x), type_of(indices)
    axis %= type_.rank
    if index_type.shape == (*type_.shape[:axis], 1, *type_.shape[axis + 1 :]):
        return [_at(indices, axis, type_.shape, g), None]
    return [ops.scatter_elements(zeros_like(x), indices, g, axis=axis, reduction="add"), None]


def _at(indices: Value, axis: int, shape: tuple[Dim, ...], g: Value) -> Value:
    """g at the position that its line's index selects, 0 elsewhere: a single index cannot collide."""
    indices = convert(indices, "int64")
    wrapped = ops.add(indices, dim_value(shape[axis], "int64"))
    index = ops.select(ops.lt(indices, number(0, "int64")), wrapped, indices)
    line = tuple(shape[axis] if i == axis else 1 for i in range(len(shape)))
    return where(ops.eq(ops.iota(shape=line, axis=axis), index), g)


@rule("gather_nd")
def gather_nd(g: Value, y: Value, x: Value, indices: Value, batch_dims: int) -> list[Value | None]:
    if batch_dims:
        indices = _with_batch(indices, batch_dims)
    return [ops.scatter_nd(zeros_like(x), indices, g, reduction="add"), None]


def _with_batch(indices: Value, batch_dims: int) -> Value:
    """Indices that also address the batch axes."""
    type_ = type_of(indices)
    lead = (*type_.shape[:-1], 1)
    own = [convert(ops.iota(shape=lead, axis=i), type_.dtype) for i in range(batch_dims)]
    return ops.concat([*own, indices], axis=type_.rank - 1)


@rule("scatter_elements")
def scatter_elements(
    g: Value, y: Value, x: Value, indices: Value, updates: Value, axis: int, reduction: str
) -> list[Value | None]:
    there = ops.gather_elements(g, indices, axis=axis)
    if reduction == "add":
        return [g, None, there]
    if reduction == "none":  # of several updates of an element the last one stays
        kept = ops.scatter_elements(g, indices, zeros_like(updates), axis=axis)
        number_of = _numbered(updates)
        owner = ops.full(shape=type_of(x).shape, dtype="int64")
        owner = ops.scatter_elements(owner, indices, number_of, axis=axis)
        stays = ops.eq(ops.gather_elements(owner, indices, axis=axis), number_of)
        return [kept, None, where(stays, there)]
    if reduction == "mul":

        def write(x: Value, updates: Value, kind: str) -> Value:
            return ops.scatter_elements(x, indices, updates, axis=axis, reduction=kind)

        return _of_mul(g, x, updates, write, lambda v: ops.gather_elements(v, indices, axis=axis))
    of_x, mine = ops.eq(x, y), ops.eq(updates, ops.gather_elements(y, indices, axis=axis))
    dtype = type_of(g).dtype
    count = ops.scatter_elements(convert(of_x, dtype), indices, convert(mine, dtype), axis=axis, reduction="add")
    share, rest = _shares(g, y, count)
    there = ops.select(mine, *(ops.gather_elements(v, indices, axis=axis) for v in (share, rest)))
    return [ops.select(of_x, share, rest), None, there]


@rule("scatter_nd")
def scatter_nd(g: Value, y: Value, x: Value, indices: Value, updates: Value, reduction: str) -> list[Value | None]:
    there = ops.gather_nd(g, indices)
    if reduction == "add":
        return [g, None, there]
    if reduction == "none":
        kept = ops.scatter_nd(g, indices, zeros_like(updates))
        number_of = _numbered(updates)
        owner = ops.scatter_nd(ops.full(shape=type_of(x).shape, dtype="int64"), indices, number_of)
        return [kept, None, where(ops.eq(ops.gather_nd(owner, indices), number_of), there)]
    if reduction == "mul":

        def write(x: Value, updates: Value, kind: str) -> Value:
            return ops.scatter_nd(x, indices, updates, reduction=kind)

        return _of_mul(g, x, updates, write, lambda v: ops.gather_nd(v, indices))
    of_x, mine = ops.eq(x, y), ops.eq(updates, ops.gather_nd(y, indices))
    dtype = type_of(g).dtype
    count = ops.scatter_nd(convert(of_x, dtype), indices, convert(mine, dtype), reduction="add")
    share, rest = _shares(g, y, count)
    return [ops.select(of_x, share, rest), None, ops.select(mine, *(ops.gather_nd(v, indices) for v in (share, rest)))]


def _shares(g: Value, y: Value, count: Value) -> tuple[Value, Value]:
    """The cotangents of elements that equal an extreme y (`count` of them), and of the others: NaN if y is."""
    nan, zero = (number_like(n, g) for n in (math.nan, 0.0))
    return ops.div(g, nonzero(count)), ops.select(ops.isnan(y), nan, zero)


def _of_mul(
    g: Value, x: Value, updates: Value, write: Callable[[Value, Value, str], Value], read: Callable[[Value], Value]
) -> list[Value | None]:
    """x times all updates of each element. The derivative for one factor is the product of all others. That is the
    product of the nonzero ones divided by the factor, unless another one is 0. `write` scatters, `read` gathers."""
    one, none = number_like(1.0, x), ops.eq(updates, number_like(0.0, updates))
    ones = ops.full(shape=type_of(x).shape, dtype=type_of(x).dtype, value=1.0)
    factors = ops.select(none, one, updates)
    rest = ops.div(read(ops.mul(x, write(ones, factors, "mul"))), factors)
    zeros = read(write(zeros_like(x), convert(none, type_of(x).dtype), "add"))
    alone = ops.eq(ops.sub(zeros, convert(none, type_of(x).dtype)), number_like(0.0, x))
    of_updates = ops.mul(read(g), where(alone, rest))
    return [ops.mul(g, write(ones, updates, "mul")), None, of_updates]


def _numbered(x: Value) -> Value:
    """1, 2, 3 ... in x's shape; 0 stands for no element."""
    type_ = type_of(x)
    flat = ops.add(ops.iota(shape=(type_.elements,), axis=0), number(1, "int64"))
    return reshape(flat, type_.shape)


@rule("sort")
def sort(g: list[Value | None], y: list[Value], x: Value, axis: int, descending: bool) -> Value | None:
    if g[0] is None:
        return None
    return ops.scatter_elements(zeros_like(x), y[1], g[0], axis=axis, reduction="add")
