"""sort along an axis, by keys or by any comparator; top_k. Every sort here is stable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, part, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import type_of
from burn.importers.lax.scalars import bits_of, is_empty, kind_of, like

Before = Callable[[Sequence[Value], Sequence[Value]], Value]
"""True where the first of two rows (one element of each operand) comes first."""


@dataclass(frozen=True)
class Key:
    """One key of a sort: the operand's number, its direction, and the order of its floats.

    total: IEEE's total order, -NaN < -inf < .. < -0 < 0 < .. < inf < NaN. Otherwise -0 equals 0, and all NaN are equal and
    larger than any number."""

    operand: int
    descending: bool = False
    total: bool = False


def sort(xs: Sequence[Value], axis: int, keys: Sequence[Key]) -> list[Value]:
    """The operands rearranged along an axis such that the keys ascend, the first key first. Shapes: all alike."""
    axis %= max(type_of(xs[0]).rank, 1)
    if not type_of(xs[0]).rank or is_empty(type_of(xs[0]).shape):
        return list(xs)
    order: Value | None = None
    for key in reversed(keys):
        column = _sortable(xs[key.operand], key)
        if order is not None:
            column = ops.gather_elements(column, order, axis=axis)
        _, indices = ops.sort(column, axis=axis)
        order = indices if order is None else ops.gather_elements(order, indices, axis=axis)
    return list(xs) if order is None else [ops.gather_elements(x, order, axis=axis) for x in xs]


def _sortable(x: Value, key: Key) -> Value:
    """Numbers whose ascending order is the key's."""
    kind = kind_of(x)
    if kind == "bool":
        x = convert(x, "uint8")
    if kind == "small":
        x, kind = convert(x, "float32"), "float"
    if kind != "float":
        return ops.not_(x) if key.descending else x
    if not key.total:
        if not key.descending:
            return x  # burn's own order
        x = ops.select(ops.eq(x, like(0.0, x)), like(0.0, x), x)
        x = ops.select(ops.isnan(x), like(math.nan, x), x)
    bits = ops.bitcast(x, dtype=f"int{bits_of(x)}")
    magnitude = like(2 ** (bits_of(bits) - 1) - 1, bits)
    ascending = ops.select(ops.lt(bits, like(0, bits)), ops.xor(bits, magnitude), bits)
    return ops.not_(ascending) if key.descending else ascending


def sort_by(xs: Sequence[Value], axis: int, before: Before) -> list[Value]:
    """The operands rearranged along an axis by a comparator, which is a strict weak order. Each element is compared with every
    other: the cost is the square of the axis."""
    rank = type_of(xs[0]).rank
    if not rank or is_empty(type_of(xs[0]).shape):
        return list(xs)
    axis %= rank
    order = (*(i for i in range(rank) if i != axis), axis)
    rows = [transpose(x, order) for x in xs]
    *rest, n = type_of(rows[0]).shape
    square = (*rest, n, n)
    own = [broadcast_to(reshape(r, (*rest, n, 1)), square) for r in rows]
    other = [broadcast_to(reshape(r, (*rest, 1, n)), square) for r in rows]
    indices = ops.iota(shape=(n,), axis=0)
    earlier = ops.lt(reshape(indices, (1, n)), reshape(indices, (n, 1)))
    ahead = ops.or_(before(other, own), ops.and_(ops.not_(before(own, other)), earlier))
    position = ops.reduce(convert(broadcast_to(ahead, square), "int64"), kind="sum", axes=(rank,))
    back = tuple(order.index(i) for i in range(rank))
    return [transpose(ops.scatter_elements(r, position, r, axis=rank - 1), back) for r in rows]


def top_k(x: Value, k: Dim, total: bool = True) -> tuple[Value, Value]:
    """The k largest elements along the last axis, the largest first, and their indices (int64). Of equal elements the earlier
    comes first. total: in IEEE's total order."""
    axis = type_of(x).rank - 1
    shape = (*type_of(x).shape[:-1], k)
    if is_empty(shape):
        return broadcast_to(like(0, x), shape), broadcast_to(number(0, "int64"), shape)
    _, indices = ops.sort(_sortable(x, Key(0, True, total)), axis=axis)
    first = part(indices, axis, 0, k)
    return ops.gather_elements(x, first, axis=axis), first
