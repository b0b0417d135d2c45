"""Signal processing: Fourier transforms, windows, and the mel scale."""

from __future__ import annotations

import math
from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.compose import along, convert, dim_value, number, part, reshape, transpose
from burn.dialect.dims import Dim, dim_max, dim_min, floordiv
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.branches import choose
from burn.importers.onnx.conditions import scalar_of
from burn.importers.onnx.node import Node, onnx_op

Pair = tuple[ir.Value, "ir.Value | None"]
"""Real and imaginary part; None for zero."""


def size_of(node: Node, index: int, minimum: int = 0) -> Dim:
    """A scalar operand as a size."""
    sizes = node.read_dims(index, minimum)
    if len(sizes) != 1:
        node.fail(f"operand {index} must be one number, not {len(sizes)}")
    return sizes[0]


def split(node: Node, x: ir.Value) -> Pair:
    """A tensor whose last axis holds a number, or its real and imaginary part."""
    shape = type_of(x).shape
    if not shape or shape[-1] not in (1, 2):
        node.fail(f"the last axis must hold 1 or 2 parts of a number: {type_of(x)}")
    parts = [reshape(part(x, len(shape) - 1, i, 1), shape[:-1]) for i in range(int(str(shape[-1])))]
    return parts[0], parts[1] if len(parts) == 2 else None


def joined(re: ir.Value, im: ir.Value) -> ir.Value:
    shape = (*type_of(re).shape, 1)
    return ops.concat([reshape(re, shape), reshape(im, shape)], axis=len(shape) - 1)


def fitted(x: ir.Value, length: Dim) -> ir.Value:
    """The last axis cut, or filled with zeros, to `length`."""
    type_ = type_of(x)
    have, rank = type_.shape[-1], type_.rank
    if have == length:
        return x
    x = part(x, rank - 1, 0, dim_min(have, length))
    high = (*(0,) * (rank - 1), dim_max(length - have, 0))
    return reshape(ops.pad(x, number(0.0, type_.dtype), low=(0,) * rank, high=high), (*type_.shape[:-1], length))


@onnx_op("DFT")
def dft(node: Node) -> ir.Value:
    x = node.required(0)
    rank = node.type(0).rank
    length = size_of(node, 1, minimum=1) if node.has_input(1) else None
    if node.opset < 20:
        return _dft(node, x, node.axis(node.int("axis", 1), rank), length)
    if not node.has_input(2):
        return _dft(node, x, rank - 2, length)
    axis = node.scalar(2)
    if axis is not None:
        return _dft(node, x, node.axis(int(axis), rank), length)
    if rank < 2:
        node.fail(f"a tensor of numbers with their parts must have 2 axes or more: {node.type(0)}")
    axis_index = convert(scalar_of(node, node.required(2)), "int64")
    axis_index = ops.select(
        ops.lt(axis_index, number(0, "int64")), ops.add(axis_index, number(rank, "int64")), axis_index
    )

    def from_axis(axis: int) -> list[ir.Value]:
        if axis == rank - 2:
            return [_dft(node, x, axis, length)]
        here = ops.eq(axis_index, number(axis, "int64"))
        return choose(node, here, lambda: [_dft(node, x, axis, length)], lambda: from_axis(axis + 1))

    return from_axis(0)[0]


def _dft(node: Node, x: ir.Value, axis: int, length: Dim | None) -> ir.Value:
    """The transform along one axis of [.., parts]."""
    rank = type_of(x).rank
    if axis == rank - 1:
        node.fail("the last axis holds the parts of a number and is not transformed", "axis")
    inverse, onesided = node.int("inverse", 0) == 1, node.int("onesided", 0) == 1
    order = (*(i for i in range(rank - 1) if i != axis), axis)
    back = tuple(order.index(i) for i in range(rank - 1))
    re, im = (None if p is None else transpose(p, order) for p in split(node, x))
    assert re is not None
    have = type_of(re).shape[-1]
    if inverse and onesided:
        length = (have - 1) * 2 if length is None else length
        if length == 0:  # the spectrum of nothing, and nothing to transform
            shape = tuple(0 if i == axis else d for i, d in enumerate(type_of(x).shape[:-1]))
            return ops.full(shape=(*shape, 1), dtype=type_of(x).dtype)
        bins = floordiv(length, 2) + 1
        re, im = mirrored((fitted(re, bins), None if im is None else fitted(im, bins)), length)
        real, _ = ops.dft(re, im, inverse=True)
        real = transpose(real, back)
        return reshape(real, (*type_of(real).shape, 1))
    length = have if length is None else length
    real, imaginary = ops.dft(fitted(re, length), None if im is None else fitted(im, length), inverse=inverse)
    if onesided:
        real, imaginary = (part(p, rank - 2, 0, floordiv(length, 2) + 1) for p in (real, imaginary))
    return joined(transpose(real, back), transpose(imaginary, back))


def mirrored(x: Pair, length: Dim) -> Pair:
    """The whole spectrum of a real signal from its first length // 2 + 1 bins: the others are conjugates."""
    k = ops.iota(shape=(length,), axis=0)
    own = ops.le(k, dim_value(floordiv(length, 2)))
    axis_index = ops.select(own, k, ops.sub(dim_value(length), k))
    re, im = x
    axis = type_of(re).rank - 1
    if im is None:
        return ops.gather(re, axis_index, axis=axis), None
    dtype = type_of(im).dtype
    sign = ops.select(own, number(1.0, dtype), number(-1.0, dtype))
    return ops.gather(re, axis_index, axis=axis), ops.mul(ops.gather(im, axis_index, axis=axis), sign)


@onnx_op("STFT", ranks=((2, 3), None, 1))
def stft(node: Node) -> ir.Value:
    """signal [b, n, parts] -> [b, frames, bins, 2]: the transforms of overlapping frames. A signal [b, n], as torch's older
    exporter writes it and ONNX Runtime takes it, is real."""
    x = node.required(0)
    if type_of(x).rank == 2:
        x = reshape(x, (*type_of(x).shape, 1))
    window = node.input(2)
    samples = node.type(0).shape[1]
    step = size_of(node, 1, minimum=1)
    if node.has_input(3):
        length = size_of(node, 3, minimum=1)
    else:
        length = samples if window is None else type_of(window).shape[0]
    frames = floordiv(samples - length, step) + 1
    start = ops.mul(ops.iota(shape=(frames, 1), axis=0), dim_value(step))
    indices = ops.add(start, ops.iota(shape=(1, length), axis=1))
    parts = []
    for signal in split(node, x):
        if signal is None:
            parts.append(None)
            continue
        cut = ops.gather(signal, indices, axis=1)
        parts.append(cut if window is None else ops.mul(cut, along(reshape(window, (length,)), 2, 3)))
    real, imaginary = ops.dft(*parts)
    if node.int("onesided", 1) == 1:
        real, imaginary = (part(p, 2, 0, floordiv(length, 2) + 1) for p in (real, imaginary))
    return joined(real, imaginary)


HAMMING = 25.0 / 46.0
WINDOWS: dict[str, tuple[float, ...]] = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (HAMMING, HAMMING - 1.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}
"""A window is the sum over i of coefficient i times cos(2 pi i n / N)."""


def _window(coefficients: tuple[float, ...]) -> Callable[[Node], ir.Value]:
    def build(node: Node) -> ir.Value:
        size = size_of(node, 0)
        period = size if node.int("periodic", 1) == 1 else size - 1
        n = ops.iota(shape=(size,), axis=0, dtype="float64")
        total = number(coefficients[0], "float64")
        for index, coefficient in enumerate(coefficients[1:], start=1):
            turn = ops.div(ops.mul(n, number(2 * math.pi * index, "float64")), dim_value(period, "float64"))
            total = ops.add(total, ops.mul(ops.cos(turn), number(coefficient, "float64")))
        return convert(total, node.dtype("output_datatype", "float32"))

    return build


for _name, _coefficients in WINDOWS.items():
    onnx_op(_name)(_window(_coefficients))

MEL_SCALE, MEL_BREAK = 2595.0 / math.log(10.0), 700.0


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(node: Node) -> ir.Value:
    """[dft length // 2 + 1, bands]: triangles between neighbouring points, which are evenly spaced in mel."""
    bands, length = size_of(node, 0, minimum=1), size_of(node, 1, minimum=1)
    rate, low, high = (convert(scalar_of(node, node.required(i)), "float64") for i in (2, 3, 4))
    scale, unit = number(MEL_SCALE, "float64"), number(MEL_BREAK, "float64")
    first, last = (ops.mul(ops.log1p(ops.div(hertz, unit)), scale) for hertz in (low, high))
    step = ops.div(ops.sub(last, first), dim_value(bands + 2, "float64"))
    mel = ops.add(ops.mul(ops.iota(shape=(bands + 2,), axis=0, dtype="float64"), step), first)
    hertz = ops.mul(ops.expm1(ops.div(mel, scale)), unit)
    points = ops.floor(ops.div(ops.mul(hertz, dim_value(length + 1, "float64")), rate))
    left, centre, right = (reshape(part(points, 0, i, bands), (1, bands)) for i in range(3))
    bin_ = ops.iota(shape=(floordiv(length, 2) + 1, 1), axis=0, dtype="float64")
    zero, one = number(0.0, "float64"), number(1.0, "float64")
    rise, fall = ops.sub(centre, left), ops.sub(right, centre)
    rising = ops.div(ops.sub(bin_, left), ops.max(rise, one))
    rising = ops.select(ops.and_(ops.ge(bin_, left), ops.le(bin_, centre)), rising, zero)
    peak = ops.select(ops.eq(bin_, centre), one, zero)  # a triangle without a rising edge
    weights = ops.select(ops.eq(rise, zero), peak, rising)
    beyond = ops.and_(ops.ge(bin_, centre), ops.lt(bin_, right))
    falling = ops.div(ops.sub(right, bin_), ops.max(fall, one))
    return convert(ops.select(beyond, falling, weights), node.dtype("output_datatype", "float32"))
