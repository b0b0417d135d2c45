"""Convolutions without the taps that lie wholly in padding.

A dilated kernel often reaches beyond a small image: of a 3x3 kernel dilated by 24 on 16x16 pixels, eight taps read padding alone.
Such taps are cropped. If the target prefers it (`Preferences.split_taps`), an axis is also divided where the set of taps that
read the image changes. That saves a large part of the multiplications: the kernel dilated by 12 has a quarter of its work on
16x16 pixels. Segments have no padding.

A tap in padding contributes 0 times its weight. Cropping takes that as 0 even where the weight is infinite or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.contraction import Conv
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.kernels.preferences import SplitTaps
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops

MOST_SEGMENTS = 7
"""The most segments of an axis."""


@dataclass(frozen=True)
class _Segment:
    """Consecutive windows along an axis, `count` from `start` on, that read the image with taps `first` to `first + taps - 1`."""

    start: int
    count: int
    first: int
    taps: int


@register
@dataclass(frozen=True)
class CropTaps:
    """For convolutions of known sizes."""

    name: ClassVar[str] = "crop_taps"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        preferred = env.preferences.split_taps
        return {"cropped": replace_ops(program, Conv, lambda op: _rewritten(op, preferred))}


def _rewritten(op: Conv, preferred: SplitTaps | None) -> ir.Value | None:
    if op.fill or not all(isinstance(d, int) for d in (*op.low, *op.high)):
        return None
    rows = [_segments(op, axis) for axis in range(len(op.strides))]
    with op.operation.location, ir.InsertionPoint(op.operation):
        axes = [_chosen(op, axis, row, preferred) for axis, row in enumerate(rows)]
        return _Parts(op, axes).value() if any(axes) else None


def _chosen(op: Conv, axis: int, segments: list[_Segment], preferred: SplitTaps | None) -> list[_Segment]:
    """The axis whole with the taps that any window needs, or its segments; none if nothing is to be gained."""
    kernel = _kernel(op)[axis]
    if not segments or not isinstance(kernel, int) or not any(each.taps for each in segments):
        return []
    first = min(each.first for each in segments if each.taps)
    last = max(each.first + each.taps for each in segments)
    windows = sum(each.count for each in segments)
    whole = [_Segment(0, windows, first, last - first)]
    left = sum(each.count * each.taps for each in segments) / (windows * (last - first))
    flops = op.flops()
    work = flops / 2 if isinstance(flops, int) else 0
    few = op.groups == 1 and len(segments) <= MOST_SEGMENTS
    if few and preferred is not None and preferred.pays(1 - left, work):
        return segments
    return whole if whole[0].taps < kernel else []


class _Parts:
    """A convolution as convolutions of the segments of every axis, and their concatenation. An axis without segments stays."""

    def __init__(self, op: Conv, axes: list[list[_Segment]]) -> None:
        self.op, self.axes = op, axes
        self.at = 1 if op.layout == "last" else 2

    def value(self) -> ir.Value:
        return self._along(0, [])

    def _along(self, axis: int, chosen: list[_Segment | None]) -> ir.Value:
        if axis == len(self.axes):
            return self._convolution(chosen)
        row: list[_Segment | None] = [*self.axes[axis]] or [None]
        parts = [self._along(axis + 1, [*chosen, each]) for each in row]
        return parts[0] if len(parts) == 1 else ops.concat(parts, axis=self.at + axis)

    def _convolution(self, chosen: list[_Segment | None]) -> ir.Value:
        op = self.op
        x, weight = type_of(op.x), type_of(op.weight)
        result = type_of(op.operation.results[0])
        if any(each is not None and not each.taps for each in chosen):
            shape = list(result.shape)
            for axis, each in enumerate(chosen):
                shape[self.at + axis] = each.count if each is not None else shape[self.at + axis]
            return ops.full(shape=tuple(shape), dtype=result.dtype, value=0)
        starts, sizes = [0] * x.rank, list(x.shape)
        first, taps = [0] * x.rank, list(weight.shape)
        low, high = list(op.low), list(op.high)
        tap_at = 0 if op.layout == "last" else 2
        for axis, each in enumerate(chosen):
            if each is None:
                continue
            stride, dilation = op.strides[axis], op.dilations[axis]
            size, padding = x.shape[self.at + axis], op.low[axis]
            assert isinstance(size, int) and isinstance(padding, int)
            begin = each.start * stride + each.first * dilation - padding
            end = begin + (each.count - 1) * stride + (each.taps - 1) * dilation + 1
            inside = max(begin, 0), min(end, size)
            low[axis], high[axis] = inside[0] - begin, end - inside[1]
            starts[self.at + axis], sizes[self.at + axis] = inside[0], inside[1] - inside[0]
            first[tap_at + axis], taps[tap_at + axis] = each.first, each.taps
        attrs: dict[str, Any] = op.attrs | {"low": tuple(low), "high": tuple(high)}
        return ops.conv(_sliced(op.x, x, starts, sizes), _sliced(op.weight, weight, first, taps), **attrs)


def _sliced(value: ir.Value, type_: TensorType, starts: list[int], sizes: list[Any]) -> ir.Value:
    if list(type_.shape) == sizes:
        return value
    return ops.slice(value, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * type_.rank)


def _kernel(op: Conv) -> tuple[Any, ...]:
    shape = type_of(op.weight).shape
    return tuple(shape[:-2] if op.layout == "last" else shape[2:])


def _segments(op: Conv, axis: int) -> list[_Segment]:
    """The runs of windows that read the image with the same taps; none if a size is symbolic or 0."""
    at = axis + (1 if op.layout == "last" else 2)
    size: Dim = type_of(op.x).shape[at]
    count: Dim = type_of(op.operation.results[0]).shape[at]
    kernel: Dim = _kernel(op)[axis]
    low, stride, dilation = op.low[axis], op.strides[axis], op.dilations[axis]
    if not (isinstance(size, int) and isinstance(count, int) and isinstance(kernel, int) and isinstance(low, int)):
        return []
    if 0 in (size, count, kernel):
        return []

    def taps(window: int) -> tuple[int, int]:
        """The first tap that reads the image, and how many do."""
        assert isinstance(size, int) and isinstance(kernel, int) and isinstance(low, int)
        origin = window * stride - low
        first = max(0, -(origin // dilation)) if origin < 0 else 0
        last = min(kernel, -((origin - size) // dilation))
        return (first, last - first) if last > first else (0, 0)

    segments, start = [], 0
    for (first, number), run in groupby(map(taps, range(count))):
        length = len(list(run))
        segments.append(_Segment(start, length, first, number))
        start += length
    return segments
