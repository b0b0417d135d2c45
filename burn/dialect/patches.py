"""Patches of images as columns, and the sum of overlapping patches (im2col and col2im), built from other ops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product as places_of
from math import prod

from burn.dialect import ops
from burn.dialect.compose import number_like, part, reshape, transpose
from burn.dialect.dims import Dim, dim_max, floordiv, product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of

FEW_TAPS = 16
"""Up to this many elements of a patch, one kernel adds up all that overlap."""

Sizes = Sequence[int]


def positions(image: Sequence[Dim], block: Sizes, strides: Sizes, dilations: Sizes, pads: Sequence[Dim]) -> list[Dim]:
    """The number of patches along each axis. pads: before and after each axis, together."""
    rows = zip(image, block, strides, dilations, pads, strict=True)
    return [floordiv(d + pad - t * (k - 1) - 1, s) + 1 for d, k, s, t, pad in rows]


def unfolded(x: ir.Value, block: Sizes, strides: Sizes, dilations: Sizes, pads: Sequence[Dim]) -> ir.Value:
    """x [n, c, d..] with `pads` zeros before and after each axis d -> [n, c * k.., e..] as [n, c * k.., e..], merged."""
    n = len(block)
    padded = ops.pad(x, number_like(0, x), low=(0, 0, *pads), high=(0, 0, *pads)) if any(pads) else x
    windows = ops.windows(padded, axis=2, window=tuple(block), strides=tuple(strides), dilations=tuple(dilations))
    batch, channels, *sizes = type_of(windows).shape
    columns = transpose(windows, (0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n)))
    return reshape(columns, (batch, channels * product(block), product(sizes[:n])))


def folded(
    x: ir.Value,
    image: Sequence[Dim],
    block: Sizes,
    strides: Sizes,
    dilations: Sizes,
    low: Sequence[Dim],
    high: Sequence[Dim],
) -> ir.Value:
    """x [n, c * k.., e..], merged -> the images [n, c, d..], in which overlapping patches add up. low, high: the zeros
    before and after each axis, to which patches extend."""
    n = len(block)
    pads = [a + b for a, b in zip(low, high, strict=True)]
    counts = positions(image, block, strides, dilations, pads)
    batch, rows, _ = type_of(x).shape
    channels = floordiv(rows, product(block))
    if 0 in counts:
        return ops.full(shape=(batch, channels, *image), dtype=type_of(x).dtype)
    x = reshape(x, (batch, channels, *block, *counts))
    if all(s == 1 for s in strides) and prod(block) <= FEW_TAPS:
        x = _by_taps(x, block, dilations)
    else:
        for axis in range(n):  # the taps of the axis are the first that are left
            x = _along(x, n - axis, axis, block[axis], strides[axis], dilations[axis])
    for axis, (size, before) in enumerate(zip(image, low, strict=True), 2):
        x = _cut(x, axis, before, size)
    return x


def _by_taps(x: ir.Value, block: Sizes, dilations: Sizes) -> ir.Value:
    """x [n, c, k.., e..] -> [n, c, e + (k - 1) * dilation, ..]."""
    batch, channels, *sizes = type_of(x).shape
    counts = sizes[len(block) :]
    terms: list[ir.Value] = []
    for taps in places_of(*map(range, block)):
        starts = (0, 0, *taps, *(0,) * len(block))
        tap = ops.slice(
            x, starts=starts, sizes=(batch, channels, *(1,) * len(block), *counts), steps=(1,) * len(starts)
        )
        low = [t * d for t, d in zip(taps, dilations, strict=True)]
        high = [(k - 1) * d - a for k, d, a in zip(block, dilations, low, strict=True)]
        tap = reshape(tap, (batch, channels, *counts))
        terms.append(ops.pad(tap, number_like(0, x), low=(0, 0, *low), high=(0, 0, *high)))
    return reduce(ops.add, terms)


def _along(x: ir.Value, taps: int, done: int, k: int, stride: int, dilation: int) -> ir.Value:
    """x [n, c, k.., d.., e..] with `taps` axes k and `done` axes d -> the same without the first k, whose first e is a d now."""
    shape = type_of(x).shape
    at = 2 + taps + done  # the axis of patches
    e = shape[at]
    if dilation == 1:  # neighbouring patches lie a stride apart: elements of a stride are one axis
        times, tap = -(-k // stride), stride
        x = _cut(x, 2, 0, times * stride)
    else:
        times, tap = k, 1
    terms: list[ir.Value] = []
    for number in range(times):
        term = part(x, 2, number * tap, tap)
        if tap == 1:
            term = reshape(term, (*shape[:2], *shape[3:]))
            gaps, before, length = stride - 1, number * dilation, (e - 1) * stride + 1
            total = (e - 1) * stride + (k - 1) * dilation + 1
        else:
            axes = [axis for axis in range(len(shape)) if axis != 2]
            axes.insert(axes.index(at) + 1, 2)
            term = reshape(transpose(term, tuple(axes)), (*shape[:2], *shape[3:at], e * tap, *shape[at + 1 :]))
            gaps, before, length, total = 0, number * stride, e * stride, (e + times - 1) * stride
        if times > 1 or gaps:
            rank = type_of(term).rank
            low: list[Dim] = [0] * rank
            high: list[Dim] = [0] * rank
            interior = [0] * rank
            low[at - 1], high[at - 1], interior[at - 1] = before, total - before - length, gaps
            term = ops.pad(term, number_like(0, x), low=tuple(low), high=tuple(high), interior=tuple(interior))
        terms.append(term)
    return reduce(ops.add, terms)


def _cut(x: ir.Value, axis: int, start: Dim, size: Dim) -> ir.Value:
    """`size` elements of an axis from `start` on; zeros where there are none."""
    have = type_of(x).shape[axis]
    missing = dim_max(start + size - have, 0)
    if missing != 0:
        high: list[Dim] = [0] * type_of(x).rank
        high[axis] = missing
        x = ops.pad(x, number_like(0, x), low=(0,) * len(high), high=tuple(high))
    return part(x, axis, start, size)
