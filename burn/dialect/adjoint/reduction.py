"""Reductions over axes, running ones and those over windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.rules import NONE, NoRule, rule
from burn.dialect.compose import (
    broadcast_to,
    convert,
    limit,
    nonzero,
    number,
    number_like,
    reshape,
    transpose,
    where,
    zeros_like,
)
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, dim_max, product
from burn.dialect.types import type_of

MOST_BYTE = 255
"""Elements of a window whose numbers, and one for none of them, fit in a byte."""


@rule("reduce")
def reduce(g: Value, y: Value, x: Value, kind: str, axes: tuple[int, ...], keepdims: bool) -> Value:
    shape = type_of(x).shape
    axes = tuple(a % len(shape) for a in axes) if shape else ()
    kept = tuple(1 if i in axes else d for i, d in enumerate(shape))
    g, y = reshape(g, kept), reshape(y, kept)
    if kind == "sum":
        return broadcast_to(g, shape)
    if kind == "prod":
        return ops.mul(g, _others(x, axes))
    reached = ops.eq(x, y)  # extremes: those that reach it share the cotangent
    count = ops.reduce(convert(reached, type_of(g).dtype), kind="sum", axes=axes, keepdims=True)
    nan, zero = (number_like(n, g) for n in (math.nan, 0.0))
    rest = ops.select(ops.isnan(y), nan, zero)  # nothing reaches a NaN: all derivatives are NaN, as in PyTorch
    return ops.select(reached, ops.div(g, nonzero(count)), rest)


def _others(x: Value, axes: tuple[int, ...]) -> Value:
    """For every element the product of the others over `axes`, without a division: elements may be 0."""
    shape = type_of(x).shape
    rest = tuple(i for i in range(len(shape)) if i not in axes)
    order = (*rest, *axes)
    moved = transpose(x, order)
    flat = reshape(moved, (*(shape[i] for i in rest), product(shape[i] for i in axes)))
    before = ops.cumulative(flat, kind="prod", axis=len(rest), exclusive=True)
    behind = ops.cumulative(flat, kind="prod", axis=len(rest), exclusive=True, reverse=True)
    others = ops.mul(before, behind)
    zero = number_like(0.0, others)  # one part may overflow although the other has a factor of 0
    wild = ops.reduce(ops.or_(ops.isinf(flat), ops.isnan(flat)), kind="any", axes=(len(rest),), keepdims=True)
    others = ops.select(ops.and_(ops.isnan(others), ops.not_(wild)), zero, others)
    result = reshape(others, type_of(moved).shape)
    return transpose(result, tuple(order.index(i) for i in range(len(shape))))


@rule("cumulative")
def cumulative(g: Value, y: Value, x: Value, kind: str, axis: int, exclusive: bool, reverse: bool) -> Value:
    if kind == "sum":
        return ops.cumulative(g, kind="sum", axis=axis, exclusive=exclusive, reverse=not reverse)
    shape = type_of(x).shape
    axis %= len(shape)
    if exclusive or reverse:  # as the plain one, of x shifted or turned round
        return _through(g, x, kind, axis, exclusive, reverse)
    if kind == "prod":
        return _running_product(g, x, axis)
    place = ops.iota(shape=shape, axis=axis)  # the last element that reached the extreme so far
    reached = ops.or_(ops.eq(x, y), ops.isnan(x))
    place = ops.cumulative(ops.select(reached, place, number(0, "int64")), kind="max", axis=axis)
    return ops.scatter_elements(zeros_like(x), place, g, axis=axis, reduction="add")


def _through(g: Value, x: Value, kind: str, axis: int, exclusive: bool, reverse: bool) -> Value:
    """Turned round, and without the last element, an exclusive running reduction is a plain one."""
    shape = type_of(x).shape
    rank, size = len(shape), shape[axis]

    def turned(v: Value) -> Value:
        starts = tuple(size - 1 if i == axis else 0 for i in range(rank))
        steps = tuple(-1 if i == axis else 1 for i in range(rank))
        return ops.slice(v, starts=starts, sizes=shape, steps=steps) if reverse else v

    x, g = turned(x), turned(g)
    if not exclusive:
        plain = ops.cumulative(x, kind=kind, axis=axis)
        return turned(cumulative(g, plain, x, kind, axis, False, False))
    count = dim_max(size - 1, 0)  # an axis may be empty
    kept = tuple(count if i == axis else d for i, d in enumerate(shape))
    second = tuple(size - count if i == axis else 0 for i in range(rank))
    inner = ops.slice(x, starts=(0,) * rank, sizes=kept, steps=(1,) * rank)
    plain = ops.cumulative(inner, kind=kind, axis=axis)
    shifted = ops.slice(g, starts=second, sizes=kept, steps=(1,) * rank)
    result = cumulative(shifted, plain, inner, kind, axis, False, False)
    return turned(ops.pad(result, number_like(0.0, result), low=(0,) * rank, high=second))


def _running_product(g: Value, x: Value, axis: int) -> Value:
    """Element k owes to result j >= k the product of all x up to j but x[k]: a table of n x n, so that zeros are no exception."""
    shape = type_of(x).shape
    rank, size = len(shape), shape[axis]
    rows = (*shape[:axis], size, *shape[axis:])  # [.., k, j, ..]
    k, j = ops.iota(shape=rows, axis=axis), ops.iota(shape=rows, axis=axis + 1)
    spread = reshape(x, (*shape[:axis], 1, *shape[axis:]))
    others = ops.select(ops.eq(k, j), number_like(1.0, x), spread)
    products = ops.cumulative(others, kind="prod", axis=axis + 1)
    owed = ops.mul(products, reshape(g, (*shape[:axis], 1, *shape[axis:])))
    assert rank == len(rows) - 1
    return ops.reduce(where(ops.ge(j, k), owed), kind="sum", axes=(axis + 1,))


@rule("window_reduce")
def window_reduce(
    g: Value,
    y: Value,
    x: Value,
    kind: str,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    low: tuple[Dim, ...],
    high: tuple[Dim, ...],
) -> Value:
    windows = _Windows(type_of(x).shape, type_of(y).shape, window, strides, dilations, low, high)
    if kind == "sum":
        return windows.spread_sum(g)
    if kind == "prod":
        raise NoRule(NONE["window_reduce"])
    return windows.spread_extreme(g, y, x, kind)


class _Windows:
    """The windows of one reduction: what lies under them, and how their cotangents get back there."""

    def __init__(self, shape: Any, places: Any, window: Any, strides: Any, dilations: Any, low: Any, high: Any) -> None:
        self.shape, self.places, self.window, self.strides, self.dilations = shape, places, window, strides, dilations
        self.low = low
        self.padded = tuple(a + d + b for a, d, b in zip(low, shape, high, strict=True))
        self.rank = len(shape)

    def _rest(self, axis: int, offset: int) -> Dim:
        """Elements of the padded axis behind the last one that the windows' elements at `offset` lie on."""
        return self.padded[axis] - offset - (self.places[axis] - 1) * self.strides[axis] - 1

    def _unpadded(self, x: Value) -> Value:
        return ops.slice(x, starts=self.low, sizes=self.shape, steps=(1,) * self.rank)

    def spread_sum(self, g: Value) -> Value:
        """An element's cotangent is the sum of those of all windows that it lies in: a sum over windows again."""
        reach = tuple((w - 1) * t for w, t in zip(self.window, self.dilations, strict=True))
        high = tuple(self._rest(i, 0) for i in range(self.rank))
        gaps = tuple(s - 1 for s in self.strides)
        spread = ops.pad(g, number_like(0.0, g), low=reach, high=high, interior=gaps)
        none = (0,) * self.rank
        total = ops.window_reduce(
            spread,
            kind="sum",
            window=self.window,
            strides=(1,) * self.rank,
            dilations=self.dilations,
            low=none,
            high=none,
        )
        return self._unpadded(total)

    def spread_extreme(self, g: Value, y: Value, x: Value, kind: str) -> Value:
        """The first element of a window that is its extreme takes its cotangent. Which one that is, by its number, is all that is
        kept for the way back."""
        offsets = [
            tuple(i * t for i, t in zip(place, self.dilations, strict=True))
            for place in itertools.product(*map(range, self.window))
        ]
        dtype = "uint8" if len(offsets) <= MOST_BYTE else "int32"
        outside = reshape(limit(type_of(x).dtype, highest=kind == "min"), ())
        high = tuple(p - d - a for p, d, a in zip(self.padded, self.shape, self.low, strict=True))
        padded = ops.pad(x, outside, low=self.low, high=high)
        none = number(len(offsets), dtype)
        taken = none
        for i, offset in reversed(list(enumerate(offsets))):
            under = ops.slice(padded, starts=offset, sizes=self.places, steps=self.strides)
            reached = ops.or_(ops.eq(under, y), ops.isnan(under))
            taken = ops.select(reached, number(i, dtype), taken)
        total = None
        for i, offset in enumerate(offsets):
            reach = [self._reach(axis, o) for axis, o in enumerate(offset)]
            if all(r.count != 0 for r in reach):
                mine = ops.eq(self._at(taken, none, reach), number(i, dtype))
                part = where(mine, self._at(g, number_like(0.0, g), reach))
                total = part if total is None else ops.add(total, part)
        return zeros_like(x) if total is None else total

    def _reach(self, axis: int, offset: int) -> _Reach:
        """Where numbers tell it, windows whose element lies in the padding are left out beforehand; else what they give is cut
        off."""
        low, size, places, step = self.low[axis], self.shape[axis], self.places[axis], self.strides[axis]
        if not isinstance(low, int) or not isinstance(size, int) or not isinstance(places, int):
            return _Reach(0, places, offset, self._rest(axis, offset), low)
        first = max(0, -(-(low - offset) // step))
        last = min(places - 1, (size - 1 + low - offset) // step)
        here, end = (e * step + offset - low for e in (first, last))
        return _Reach(first, max(0, last - first + 1), here, size - 1 - end, 0)

    def _at(self, x: Value, rest: Value, reach: Sequence[_Reach]) -> Value:
        """What windows hold, each at one of its elements; `rest` where none has it."""
        ones = (1,) * self.rank
        counts = tuple(r.count for r in reach)
        if counts != type_of(x).shape:
            x = ops.slice(x, starts=tuple(r.first for r in reach), sizes=counts, steps=ones)
        gaps = tuple(s - 1 for s in self.strides)
        x = ops.pad(x, rest, low=tuple(r.low for r in reach), high=tuple(r.high for r in reach), interior=gaps)
        if all(r.cut == 0 for r in reach):
            return x
        return ops.slice(x, starts=tuple(r.cut for r in reach), sizes=self.shape, steps=ones)


@dataclass(frozen=True)
class _Reach:
    """Along one axis, the windows whose elements at some offset lie in the operand: the first, how many, and how many elements
    lie before the first one's and behind the last one's; `cut` of those before are padding."""

    first: int
    count: Dim
    low: int
    high: Dim
    cut: Dim
