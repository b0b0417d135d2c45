"""Reductions over axes, cumulative reductions and reductions over windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.rules import NONE, NoRule, rule
from burn.dialect.compose import (
    along,
    broadcast_to,
    convert,
    dim_value,
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
"""Elements of a window whose numbers, plus one for "none", fit in a byte."""


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
    reached = ops.eq(x, y)  # extremes: the elements that equal it share the cotangent
    count = ops.reduce(convert(reached, type_of(g).dtype), kind="sum", axes=axes, keepdims=True)
    nan, zero = (number_like(n, g) for n in (math.nan, 0.0))
    rest = ops.select(ops.isnan(y), nan, zero)  # no element equals a NaN: all derivatives are NaN, as in PyTorch
    return ops.select(reached, ops.div(g, nonzero(count)), rest)


def _others(x: Value, axes: tuple[int, ...]) -> Value:
    """For every element the product of the others over `axes`, without a division, because elements may be 0."""
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
    if exclusive or reverse:  # like the plain one, on x shifted or reversed
        return _through(g, x, kind, axis, exclusive, reverse)
    if kind == "prod":
        return _cumulative_prod(g, x, axis)
    position = ops.iota(shape=shape, axis=axis)  # the last element that reached the extreme so far
    reached = ops.or_(ops.eq(x, y), ops.isnan(x))
    position = ops.cumulative(ops.select(reached, position, number(0, "int64")), kind="max", axis=axis)
    return ops.scatter_elements(zeros_like(x), position, g, axis=axis, reduction="add")


def _through(g: Value, x: Value, kind: str, axis: int, exclusive: bool, reverse: bool) -> Value:
    """Reversed, and without the last element, an exclusive cumulative reduction is a plain one."""
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


def _cumulative_prod(g: Value, x: Value, axis: int) -> Value:
    """The derivative of result j >= k by element k is the product of all x up to j except x[k]: an n x n table, valid
    for zeros."""
    shape = type_of(x).shape
    rank, size = len(shape), shape[axis]
    rows = (*shape[:axis], size, *shape[axis:])  # [.., k, j, ..]
    k, j = ops.iota(shape=rows, axis=axis), ops.iota(shape=rows, axis=axis + 1)
    spread = reshape(x, (*shape[:axis], 1, *shape[axis:]))
    others = ops.select(ops.eq(k, j), number_like(1.0, x), spread)
    cumulated = ops.cumulative(others, kind="prod", axis=axis + 1)
    weighted = ops.mul(cumulated, reshape(g, (*shape[:axis], 1, *shape[axis:])))
    assert rank == len(rows) - 1
    return ops.reduce(where(ops.ge(j, k), weighted), kind="sum", axes=(axis + 1,))


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
    windows = ReducedWindows(type_of(x).shape, type_of(y).shape, window, strides, dilations, low, high)
    if kind == "sum":
        return windows.spread_sum(g)
    if kind == "prod":
        raise NoRule(NONE["window_reduce"])
    return windows.spread_extreme(g, y, x, kind)


class ReducedWindows:
    """The windows of one reduction: their elements, and the scatter of their cotangents."""

    def __init__(
        self, shape: Any, positions: Any, window: Any, strides: Any, dilations: Any, low: Any, high: Any
    ) -> None:
        self.shape, self.positions, self.window, self.strides, self.dilations = (
            shape,
            positions,
            window,
            strides,
            dilations,
        )
        self.low = low
        self.padded = tuple(a + d + b for a, d, b in zip(low, shape, high, strict=True))
        self.rank = len(shape)

    def _rest(self, axis: int, offset: int) -> Dim:
        """Elements of the padded axis after the last one that any window reads at `offset`."""
        return self.padded[axis] - offset - (self.positions[axis] - 1) * self.strides[axis] - 1

    def _unpadded(self, x: Value) -> Value:
        return ops.slice(x, starts=self.low, sizes=self.shape, steps=(1,) * self.rank)

    def spread_sum(self, g: Value) -> Value:
        """An element's cotangent is the sum of those of all windows that contain it: another window reduction."""
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
        """A window's cotangent goes to the first element that equals its extreme. The forward pass only keeps that
        element's number. If an infinity that padding equals is the extreme, the number is that of the first element inside."""
        offsets = self._offsets
        dtype = "uint8" if len(offsets) <= MOST_BYTE else "int32"
        outside = reshape(limit(type_of(x).dtype, highest=kind == "min"), ())
        named = [i for i in range(self.rank) if not self._is_static(i)]
        x = self._padded_along(named, x, outside)
        none = number(len(offsets), dtype)
        taken = none
        for i, offset in reversed(list(enumerate(offsets))):
            reach = [self._reach(axis, o) for axis, o in enumerate(offset)]
            if any(r.count == 0 for r in reach):
                continue
            under = self._under(x, outside, reach)
            reached = ops.or_(ops.eq(under, y), ops.isnan(under))
            taken = ops.select(reached, number(i, dtype), taken)
        if any(low != 0 for low in self.low):
            taken = ops.select(ops.eq(y, outside), self._first_inside(dtype), taken)
        return self._spread(g, lambda i, reach: ops.eq(self._at(taken, none, reach), number(i, dtype)))

    def _first_inside(self, dtype: str) -> Value:
        """Of each window the number of its first element that is not padding at the low ends. Broadcasts to the result."""
        total = number(0, "int64")
        for axis, (low, window) in enumerate(zip(self.low, self.window, strict=True)):
            if low == 0:
                continue
            start = ops.mul(ops.iota(shape=(self.positions[axis],), axis=0), number(self.strides[axis], "int64"))
            before = ops.max(ops.sub(dim_value(low), start), number(0, "int64"))
            dilation = number(self.dilations[axis], "int64")
            skipped = ops.div(ops.add(before, ops.sub(dilation, number(1, "int64"))), dilation)
            # In a window of padding alone the last element is as good: it has no gradient.
            skipped = along(ops.min(skipped, number(window - 1, "int64")), axis, self.rank)
            total = ops.add(total, ops.mul(skipped, number(math.prod(self.window[axis + 1 :]), "int64")))
        return convert(total, dtype)

    def _padded_along(self, axes: Sequence[int], x: Value, outside: Value) -> Value:
        """An operand with the padding of some axes."""
        low = tuple(self.low[i] if i in axes else 0 for i in range(self.rank))
        high = tuple(self.padded[i] - self.shape[i] - self.low[i] if i in axes else 0 for i in range(self.rank))
        return x if all(p == 0 for p in (*low, *high)) else ops.pad(x, outside, low=low, high=high)

    def _under(self, x: Value, outside: Value, reach: Sequence[_Reach]) -> Value:
        """Of every window the element with this reach. Each element has padding of its own, so that no kernel stores a padded
        operand: all of them have the result's shape."""
        counts = tuple(r.count for r in reach)
        x = ops.slice(x, starts=tuple(r.low for r in reach), sizes=counts, steps=self.strides)
        low = tuple(r.first for r in reach)
        high = tuple(p - c - f for p, c, f in zip(self.positions, counts, low, strict=True))
        return x if all(p == 0 for p in (*low, *high)) else ops.pad(x, outside, low=low, high=high)

    def spread_by_index(self, g: Value, indices: Value, own: Value) -> Value:
        """A window's cotangent goes to the element whose number is the window's index. own: the elements' numbers, not negative,
        broadcast to the operand's shape."""
        none = number(-1, type_of(indices).dtype)
        return self._spread(g, lambda _, reach: ops.eq(self._at(indices, none, reach), own))

    @property
    def _offsets(self) -> list[tuple[int, ...]]:
        """Of the elements of a window, from its first one."""
        return [
            tuple(i * t for i, t in zip(position, self.dilations, strict=True))
            for position in itertools.product(*map(range, self.window))
        ]

    def _spread(self, g: Value, takes: Callable[[int, Sequence[_Reach]], Value]) -> Value:
        """The sum of the cotangents that an element takes. takes: an element's number in the window, and its reach -> True where
        it takes the cotangent of the window that it has this number in."""
        zero, total = number_like(0.0, g), None
        for i, offset in enumerate(self._offsets):
            reach = [self._reach(axis, o) for axis, o in enumerate(offset)]
            if all(r.count != 0 for r in reach):
                part = where(takes(i, reach), self._at(g, zero, reach))
                total = part if total is None else ops.add(total, part)
        return ops.full(shape=self.shape, dtype=type_of(g).dtype, value=0.0) if total is None else total

    def _is_static(self, axis: int) -> bool:
        return all(isinstance(d, int) for d in (self.low[axis], self.shape[axis], self.positions[axis]))

    def _reach(self, axis: int, offset: int) -> _Reach:
        """With static sizes, windows whose element is padding are excluded beforehand; otherwise their contributions
        are cropped."""
        low, size, positions, step = self.low[axis], self.shape[axis], self.positions[axis], self.strides[axis]
        if not self._is_static(axis):
            return _Reach(0, positions, offset, self._rest(axis, offset), low)
        first = max(0, -(-(low - offset) // step))
        last = min(positions - 1, (size - 1 + low - offset) // step)
        here, end = (e * step + offset - low for e in (first, last))
        return _Reach(first, max(0, last - first + 1), here, size - 1 - end, 0)

    def _at(self, x: Value, rest: Value, reach: Sequence[_Reach]) -> Value:
        """Window values, each at one of its elements; `rest` for elements without one."""
        ones = (1,) * self.rank
        counts = tuple(r.count for r in reach)
        if counts != type_of(x).shape:
            x = ops.slice(x, starts=tuple(r.first for r in reach), sizes=counts, steps=ones)
        gaps = tuple(s - 1 for s in self.strides)
        x = ops.pad(x, rest, low=tuple(r.low for r in reach), high=tuple(r.high for r in reach), interior=gaps)
        if all(r.cut == 0 for r in reach) and type_of(x).shape == self.shape:
            return x
        return ops.slice(x, starts=tuple(r.cut for r in reach), sizes=self.shape, steps=ones)


@dataclass(frozen=True)
class _Reach:
    """Along one axis, the windows whose element at some offset is inside the operand: `first`, their `count`, and the
    numbers of elements before the first one's (`low`) and after the last one's (`high`). `cut` of those before are padding."""

    first: int
    count: Dim
    low: int
    high: Dim
    cut: Dim
