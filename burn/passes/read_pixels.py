"""The pixels that a convolution of one tap with strides reads, as a slice of its image.

A copy of the image in another layout then has only these: a quarter of the pixels with stride 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.contraction import Conv
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.query import result_type
from burn.dialect.types import type_of


def sliced_axes(op: Conv) -> tuple[int, ...]:
    """The spatial axes, counted from 0, with one tap, a stride and no padding."""
    shape = type_of(op.weight).shape
    kernel = shape[:-2] if op.layout == "last" else shape[2:]
    rows = zip(kernel, op.strides, op.low, op.high, strict=True)
    return tuple(axis for axis, (taps, stride, *pads) in enumerate(rows) if taps == 1 < stride and pads == [0, 0])


def slice_read(op: Conv, image: ir.Value, spatial: Sequence[int]) -> ir.Value:
    """The elements of `image` that `op` reads along its `sliced_axes`. spatial: the image's axes, in the order of op's."""
    result, own = result_type(op).shape, 1 if op.layout == "last" else 2
    sizes: list[Dim] = list(type_of(image).shape)
    steps = [1] * len(sizes)
    axes = sliced_axes(op)
    for axis in axes:
        sizes[spatial[axis]], steps[spatial[axis]] = result[own + axis], op.strides[axis]
    return ops.slice(image, starts=(0,) * len(sizes), sizes=tuple(sizes), steps=tuple(steps)) if axes else image


def dense_strides(op: Conv) -> tuple[int, ...]:
    """The strides of `op` on that slice."""
    axes = sliced_axes(op)
    return tuple(1 if axis in axes else stride for axis, stride in enumerate(op.strides))
