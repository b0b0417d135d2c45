"""Operators of com.microsoft that ONNX has too, or nearly: the builders are the standard's own where the meaning is."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, number_like, reshape, transpose
from burn.dialect.dims import Dim, floordiv
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops import constant, image, indexing, linalg, pad, shape
from burn.importers.onnx.ops.contract import matmul, transposed_convolution
from burn.importers.onnx.ops.pool import slide, windows
from burn.importers.onnx.ops.quantize import centred, integers, quantised_convolution
from burn.importers.onnx.ops.vendor import DOMAIN

OPSET = 13
"""The standard opset whose operators those of the same name here are."""


@onnx_op("Range", domain=DOMAIN)
def range_(node: Node) -> ir.Value:
    return constant.range_(node.standard(OPSET))


@onnx_op("Pad", domain=DOMAIN, ranks=(None, 1, (0, 1)))
def pad_(node: Node) -> ir.Value:
    return pad.pad(node.standard(OPSET))


@onnx_op("Trilu", domain=DOMAIN, ranks=(None, (0, 1)))
def trilu(node: Node) -> ir.Value:
    return shape.trilu(node.standard(14))


@onnx_op("GatherND", domain=DOMAIN)
def gather_nd(node: Node) -> ir.Value:
    return indexing.gather_nd(node.standard(11))


@onnx_op("GridSample", domain=DOMAIN, ranks=(4, 4))
def grid_sample(node: Node) -> ir.Value:
    return image.grid_sample(node.standard(16))


@onnx_op("Inverse", domain=DOMAIN)
def inverse(node: Node) -> ir.Value:
    return linalg.inverse(node, node.required(0))


@onnx_op("SampleOp", domain=DOMAIN)
def sample_op(node: Node) -> ir.Value:
    """The identity: an example of how the runtime is extended."""
    return node.required(0)


@onnx_op("ExpandDims", domain=DOMAIN)
def expand_dims(node: Node) -> ir.Value:
    x = node.required(0)
    given = node.need_constant(1, "the axis")
    if given.size != 1:
        node.fail(f"the axis (operand 1) must be one number, not {node.type(1)}")
    rank = type_of(x).rank + 1
    at = node.axis(int(given.reshape(-1)[0]), rank)
    sizes = list(type_of(x).shape)
    sizes.insert(at, 1)
    return reshape(x, tuple(sizes))


@onnx_op("Unique", domain=DOMAIN, ranks=(1,))
def unique(node: Node) -> list[ir.Value]:
    """Values in order of first occurrence, the index of each element among them, and the counts."""
    values, _, inverse, counts = ops.unique(node.required(0), count=node.fresh("unique"), axis=None, sorted=False)
    return [values, inverse, counts]


@onnx_op("UnfoldTensor", domain=DOMAIN)
def unfold_tensor(node: Node) -> ir.Value:
    """Windows of `size` elements along an axis, `step` apart; the offset within a window is a new last axis."""
    x, size, step = node.required(0), node.int("size"), node.int("step", 1)
    rank, sizes = type_of(x).rank, type_of(x).shape
    at = node.axis(node.int("dim", -1), rank, "dim")
    if size < 1 or step < 1:
        node.fail(f"windows of {size} elements {step} apart are not possible", "size")
    length = sizes[at]
    if isinstance(length, int) and size > length:
        node.fail(f"is more than the {length} elements of axis {at}", "size")
    count = floordiv(length - size, step) + 1
    starts = ops.mul(ops.iota(shape=(count, size), axis=0), number(step, "int64"))
    indices = ops.add(starts, ops.iota(shape=(count, size), axis=1))
    taken = ops.gather(x, indices, axis=at)  # [.., count, size, ..]
    return transpose(taken, (*range(at + 1), *range(at + 2, rank + 1), at + 1))


@onnx_op("MatMulInteger16", domain=DOMAIN)
def matmul_integer16(node: Node) -> ir.Value:
    a, b = (convert(node.required(i), "int32") for i in (0, 1))
    result = matmul(node, a, b)
    return convert(result, "uint32") if "uint16" in (node.type(0).dtype, node.type(1).dtype) else result


@onnx_op("CDist", domain=DOMAIN, ranks=(2, 2))
def cdist(node: Node) -> ir.Value:
    """Distances of the rows of A [m, n] from those of B [k, n]: [m, k]."""
    metric = node.string("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        node.fail(f"'{metric}' is not supported; euclidean and sqeuclidean are", "metric")
    (m, n), (k, _) = node.type(0).shape, node.type(1).shape
    difference = ops.sub(reshape(node.required(0), (m, 1, n)), reshape(node.required(1), (1, k, n)))
    squares = ops.reduce(ops.mul(difference, difference), kind="sum", axes=(2,))
    return ops.sqrt(squares) if metric == "euclidean" else squares


@onnx_op("CropAndResize", domain=DOMAIN, ranks=(4, 2, 1, 1))
def crop_and_resize(node: Node) -> ir.Value:
    """Regions of images [n, c, h, w], each sampled at crop_size points: [regions, c, rows, columns].

    Regions are [y1, x1, y2, x2], fractions of the image; points outside of it give the extrapolation value."""
    x, regions = node.required(0), node.required(1)
    mode = node.string("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        node.fail(f"'{mode}' is none of bilinear, nearest", "mode")
    if node.type(3).elements != 2:
        node.fail(f"crop_size must be two numbers, not {node.type(3)}")
    crop = node.read_dims(3, minimum=1)
    sizes = type_of(x).shape[2:]
    count, dtype = type_of(regions).shape[0], type_of(x).dtype
    images = ops.gather(x, node.required(2), axis=0)
    outside = node.float("extrapolation_value", 0.0)
    inside: ir.Value | None = None
    for axis, (size, wanted) in enumerate(zip(sizes, crop, strict=True)):
        first, last = (ops.slice(regions, starts=(0, axis + end), sizes=(count, 1), steps=(1, 1)) for end in (0, 2))
        position = _crop_positions(first, last, size, wanted, dtype)
        here = ops.and_(ops.ge(position, number(0, dtype)), ops.le(position, dim_value(size - 1, dtype)))
        index = reshape(here, (count, 1, *(wanted if i == axis else 1 for i in range(2))))
        inside = index if inside is None else ops.and_(inside, index)
        images = _read_at(images, ops.select(here, position, number(0, dtype)), 2 + axis, mode)
    assert inside is not None
    return ops.select(inside, images, number_like(outside, images))


def _crop_positions(first: ir.Value, last: ir.Value, size: Dim, count: Dim, dtype: str) -> ir.Value:
    """[regions, count]: from a region's first to its last coordinate; its middle for a count of one."""
    span = dim_value(size - 1, dtype)
    steps = ops.max(dim_value(count - 1, dtype), number(1, dtype))
    scale = ops.div(ops.mul(ops.sub(last, first), span), steps)
    ramp = ops.cast(ops.iota(shape=(1, count), axis=1), dtype=dtype)
    several = ops.add(ops.mul(first, span), ops.mul(ramp, scale))
    middle = ops.mul(ops.mul(ops.add(first, last), number(0.5, dtype)), span)
    return ops.select(ops.gt(dim_value(count), number(1, "int64")), several, middle)


def _read_at(x: ir.Value, position: ir.Value, axis: int, mode: str) -> ir.Value:
    """x [regions, c, ..] read along an axis at the positions [regions, count], which lie in it."""
    count, sizes = type_of(position).shape[1], type_of(x).shape
    shape = tuple(count if i == axis else d for i, d in enumerate(sizes))

    def along(v: ir.Value) -> ir.Value:
        return reshape(v, tuple(d if i in (0, axis) else 1 for i, d in enumerate(shape)))

    def taken(index: ir.Value) -> ir.Value:
        indices = along(ops.cast(index, dtype="int64"))
        return ops.gather_elements(x, ops.broadcast_to(indices, shape=shape), axis=axis)

    if mode == "nearest":
        return taken(ops.floor(ops.add(position, number_like(0.5, position))))
    low = ops.floor(position)
    share = along(ops.sub(position, low))
    a, b = taken(low), taken(ops.ceil(position))
    return ops.add(a, ops.mul(ops.sub(b, a), share))


# ---- channels last, and windows ---------------------------------------------------------------------------------------
def channels_first(x: ir.Value) -> ir.Value:
    rank = type_of(x).rank
    return transpose(x, (0, rank - 1, *range(1, rank - 1)))


def channels_last(x: ir.Value) -> ir.Value:
    rank = type_of(x).rank
    return transpose(x, (0, *range(2, rank), 1))


@onnx_op("NhwcMaxPool", domain=DOMAIN)
def nhwc_max_pool(node: Node) -> ir.Value:
    if node.type(0).rank < 3:
        node.fail(f"takes a batch of images, not {node.type(0)}")
    x = channels_first(node.required(0))
    return channels_last(slide(x, "max", windows(node, type_of(x).shape[2:])))


@onnx_op("QLinearConv", domain=DOMAIN)
def qlinear_conv(node: Node) -> ir.Value:
    """The weight is [outputs, inputs, d..] whatever the layout of the images."""
    x = integers(centred(node, 0, 2, None))
    if node.int("channels_last", 0) != 1:
        return quantised_convolution(node, x)
    return channels_last(quantised_convolution(node, channels_first(x)))


@onnx_op("ConvTransposeWithDynamicPads", domain=DOMAIN)
def conv_transpose_with_dynamic_pads(node: Node) -> ir.Value:
    pads = node.read_dims(2) if node.has_input(2) else None
    return transposed_convolution(node, pads, bias=3)
