"""Weight gradients of convolutions whose taps often read padding: each tap gets those outputs alone for which it is inside.

A tap multiplies the outputs' cotangent with the elements that it reads, and padding contributes nothing. Of a kernel dilated by
12 on 16x16 pixels, the outer taps read a quarter of the elements along an axis. Taps computed apart need no padded copy of the
image either. Padding contributes 0 even where a cotangent is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.compose import number_like, transpose
from burn.dialect.contraction import DotGeneral
from burn.dialect.convolution import Windows
from burn.dialect.dims import Dim, estimate, product
from burn.dialect.mlir import ir
from burn.dialect.pointwise import Cast
from burn.dialect.program import Program
from burn.dialect.query import op_of, splat
from burn.dialect.shape import Pad, Slice, Transpose
from burn.dialect.types import type_of
from burn.kernels.preferences import SplitTaps
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops

Range = tuple[int, int]
"""The first of some consecutive indices, and their number."""

Run = tuple[Range, Range]
"""Neighbouring taps, and the outputs for which they are inside: the same for each of them."""


@register
@dataclass(frozen=True)
class GradientTaps:
    """For targets that prefer it (`Preferences.split_taps`), and axes of known sizes. Expects decomposed convolutions."""

    name: ClassVar[str] = "gradient_taps"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        preferred = env.preferences.split_taps
        if preferred is None:
            return {"split": 0}
        return {"split": replace_ops(program, DotGeneral, lambda op: _split(op, preferred))}


@dataclass(frozen=True)
class _Image:
    """A value as a transposed part of `source` with zeros around it. order: the source's axis for each axis. low: zeros before
    the source's first element along each axis; negative if elements are left out. sizes: of the value."""

    source: ir.Value
    order: tuple[int, ...]
    low: tuple[int, ...]
    sizes: tuple[Any, ...]

    @staticmethod
    def of(value: ir.Value) -> _Image:
        """Looks through transposes and slices of an op that pads with zeros. Any other value is its own source."""
        sizes = type_of(value).shape
        none = (0,) * len(sizes)
        itself = _Image(value, tuple(range(len(sizes))), none, sizes)
        order, low = itself.order, none
        while True:
            match op_of(value):
                case Transpose() as op:
                    order = tuple(op.permutation[axis] for axis in order)
                case Slice() as op if set(op.steps) <= {1} and _known(op.starts):
                    low = tuple(p - op.starts[axis] for p, axis in zip(low, order, strict=True))
                case Pad() as op if splat(op.value) == 0 and not any(op.interior) and _known((*op.low, *op.high)):
                    low = tuple(p + op.low[axis] for p, axis in zip(low, order, strict=True))
                    found = _Image(op.x, order, low, sizes)
                    return found if found.is_known else itself
                case _:
                    return itself
            value = op.x

    @property
    def is_known(self) -> bool:
        """True if sizes are known along every axis that is padded or cropped."""
        rows = zip(self.low, self.sizes, map(self.extent, range(len(self.order))), strict=True)
        return all((low == 0 and size == extent) or _known((size, extent)) for low, size, extent in rows)

    def extent(self, axis: int) -> Any:
        """The elements of the source along an axis of the value."""
        return type_of(self.source).shape[self.order[axis]]

    def cropped(self, axis: int, kept: Range) -> _Image:
        """Some elements along one axis."""
        low, sizes = list(self.low), list(self.sizes)
        low[axis], sizes[axis] = low[axis] - kept[0], kept[1]
        return replace(self, low=tuple(low), sizes=tuple(sizes))

    def value(self) -> ir.Value:
        rank = len(self.order)
        starts, sizes, before, after = ([0] * rank for _ in range(4))
        for axis, (at, low, size) in enumerate(zip(self.order, self.low, self.sizes, strict=True)):
            extent = self.extent(axis)
            if low == 0 and size == extent:
                sizes[at] = size
                continue
            first, end = min(max(0, -low), extent), min(max(0, size - low), extent)
            starts[at], sizes[at] = first, end - first
            before[at] = min(max(0, low), size)
            after[at] = size - before[at] - sizes[at]
        found = self.source
        if tuple(sizes) != type_of(found).shape:
            found = ops.slice(found, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * rank)
        if any((*before, *after)):
            found = ops.pad(found, number_like(0, found), low=tuple(before), high=tuple(after))
        return transpose(found, self.order)


def _known(sizes: Sequence[Dim]) -> bool:
    return all(isinstance(size, int) for size in sizes)


@dataclass(frozen=True)
class _Gradient:
    """Sums, over images and outputs, of the elements under each tap times the outputs' cotangent `few`. axes: those of `few` for
    each spatial axis. window: taps along each. cast: of the elements, if they are not of the image's type."""

    op: DotGeneral
    cast: Cast | None
    image: _Image
    few: ir.Value
    axes: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @staticmethod
    def of(op: DotGeneral) -> _Gradient | None:
        under, cast = op_of(op.lhs), None
        if isinstance(under, Cast):
            under, cast = op_of(under.x), under
        if not isinstance(under, Windows) or under.axis != 1 or op.lhs_batch:
            return None
        n = len(under.window)
        if sorted(op.lhs_contract) != list(range(n + 1)):
            return None
        axis_of = dict(zip(op.lhs_contract, op.rhs_contract, strict=True))
        axes = tuple(axis_of[1 + i] for i in range(n))
        return _Gradient(op, cast, _Image.of(under.x), op.rhs, axes, under.window, under.strides, under.dilations)

    def runs(self, axis: int) -> list[Run]:
        count, size, low = (
            type_of(self.few).shape[self.axes[axis]],
            self.image.extent(axis + 1),
            self.image.low[axis + 1],
        )
        if not (isinstance(count, int) and isinstance(size, int) and isinstance(self.image.sizes[axis + 1], int)):
            return []
        return runs(size, count, self.window[axis], self.strides[axis], self.dilations[axis], low)

    def divided(self, preferred: SplitTaps) -> ir.Value | None:
        """With taps apart along the first axis on which that pays, and perhaps along others; None if it pays on none."""
        outputs = type_of(self.few).shape
        work = estimate(product((*outputs, *self.window, *self.image.sizes[len(self.window) + 1 :])))
        for axis, at in enumerate(self.axes):
            found = self.runs(axis)
            if pays(found, outputs[at], work, preferred):
                parts = [self.part(axis, run, preferred) for run in found]
                return parts[0] if len(parts) == 1 else ops.concat(parts, axis=axis)
        return None

    def part(self, axis: int, run: Run, preferred: SplitTaps) -> ir.Value:
        (tap, taps), (first, count) = run
        window = (*self.window[:axis], taps, *self.window[axis + 1 :])
        if not count:
            result = type_of(self.op.operation.results[0])
            return ops.full(shape=(*window, *result.shape[len(window) :]), dtype=result.dtype, value=0.0)
        stride, dilation = self.strides[axis], self.dilations[axis]
        read = first * stride + tap * dilation, (count - 1) * stride + (taps - 1) * dilation + 1
        shape = list(type_of(self.few).shape)
        starts, shape[self.axes[axis]] = [0] * len(shape), count
        starts[self.axes[axis]] = first
        few = self.few
        if tuple(shape) != type_of(few).shape:
            few = ops.slice(few, starts=tuple(starts), sizes=tuple(shape), steps=(1,) * len(shape))
        part = replace(self, image=self.image.cropped(axis + 1, read), few=few, window=window)
        divided = part.divided(preferred)
        return part.whole() if divided is None else divided

    def whole(self) -> ir.Value:
        image = self.image.value()
        if self.cast is not None:
            image = ops.cast(image, **self.cast.attrs)
        under = ops.windows(image, axis=1, window=self.window, strides=self.strides, dilations=self.dilations)
        return ops.dot_general(under, self.few, **self.op.attrs)


def _split(op: DotGeneral, preferred: SplitTaps) -> ir.Value | None:
    with op.operation.location, ir.InsertionPoint(op.operation):
        found = _Gradient.of(op)
        return None if found is None else found.divided(preferred)


def runs(size: int, count: int, kernel: int, stride: int, dilation: int, low: int) -> list[Run]:
    """All taps along an axis of `size` elements and `count` outputs, with `low` zeros before the first element."""

    def outputs(tap: int) -> Range:
        position = tap * dilation - low
        first = max(0, -(position // stride))
        last = min(count, -((position - size) // stride))
        return (first, last - first) if last > first else (0, 0)

    found: list[Run] = []
    start = 0
    for inside, taps in groupby(range(kernel), outputs):
        number = len(list(taps))
        found.append(((start, number), inside))
        start += number
    return found


def pays(found: Sequence[Run], count: Dim, work: int, preferred: SplitTaps) -> bool:
    """True if the taps of an axis are computed apart. count: its outputs; work: multiplications."""
    taps = sum(number for (_, number), _ in found)
    if not found or not isinstance(count, int) or not taps * count:
        return False
    saved = 1 - sum(number * outputs for (_, number), (_, outputs) in found) / (taps * count)
    return preferred.pays(saved, work)
