"""Object detection: suppressing overlapping boxes, and pooling regions of interest."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, limit, number, number_like, reshape, transpose, wide
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.image import part
from burn.importers.onnx.ops.sampling import clamp, taps, total, weighted


@onnx_op("NonMaxSuppression")
def non_max_suppression(node: Node) -> ir.Value:
    maximum = reshape(convert(node.default(2, 0, "int64"), "int64"), ())
    overlap = reshape(node.default(3, 0.0, "float32"), ())
    threshold = reshape(node.default(4, float("-inf"), "float32"), ())
    return ops.non_max_suppression(
        node.required(0),
        node.required(1),
        maximum,
        overlap,
        threshold,
        count=node.fresh("boxes"),
        center_point=node.int("center_point_box", 0) == 1,
    )


BEYOND = 6
"""Samples outside of an image, on either side, that are kept of a region that reaches beyond: they count as 0, all alike."""


def _first_sample(begin: ir.Value, size: ir.Value, own: ir.Value, reach: ir.Value) -> ir.Value:
    """The number of the first of a bin's samples that is looked at, where it has more than `reach`: those that are in the image
    are among the next ones, and at least one that is not, if there is any."""
    distance = ops.div(size, ops.max(own, number_like(1.0, own)))  # from one to the next
    first = ops.floor(ops.div(ops.neg(begin), ops.max(distance, number_like(0.5, distance))))
    first = ops.max(ops.sub(first, number_like(float(BEYOND), first)), number_like(0.0, first))
    return ops.max(ops.min(first, ops.sub(own, reach)), number_like(0.0, first))


@onnx_op("RoiAlign")
def roi_align(node: Node) -> ir.Value:
    """X [n, c, h, w], rois [r, 4] (x1, y1, x2, y2), image of each [r] -> [r, c, output height, output width]."""
    node.need_ranks(4, 2, 1)
    x, rois, images = (node.required(i) for i in range(3))
    centred = node.string("coordinate_transformation_mode", "half_pixel") == "half_pixel" and node.opset >= 16
    mode = node.string("mode", "avg")
    if mode not in ("avg", "max"):
        node.fail(f"'{mode}' is neither avg nor max", "mode")
    bins = (node.int("output_height", 1), node.int("output_width", 1))
    ratio = node.int("sampling_ratio", 0)
    dtype = wide(type_of(x).dtype)
    _, channels, *sizes = type_of(x).shape
    regions = type_of(rois).shape[0]
    scale, shift = number(node.float("spatial_scale", 1.0), dtype), number(0.5 if centred else 0.0, dtype)

    def corner(index: int) -> ir.Value:
        column = reshape(part(convert(rois, dtype), 1, index, 1), (regions, 1, 1))
        return ops.sub(ops.mul(column, scale), shift)

    positions, counted = [], []
    for axis, count in enumerate(bins):
        start, end = corner(1 - axis), corner(3 - axis)
        extent = ops.sub(end, start)
        if not centred:
            extent = ops.max(extent, number(1.0, dtype))
        size = ops.div(extent, number(float(count), dtype))
        if ratio > 0:
            samples: Dim = ratio
            own = number(float(ratio), dtype)
        else:  # as many as a region has pixels in a bin: room for the most, and the others leave theirs unused
            own = ops.max(ops.ceil(size), number(0.0, dtype))
            reach = dim_value(sizes[axis] * 2 + 2 * BEYOND, dtype)  # samples are at least half a pixel apart
            most = ops.reduce(ops.cast(ops.min(own, reach), dtype="int64"), kind="max", axes=(0, 1, 2))
            samples = node.read_dim(ops.max(most, number(0, "int64")), hint="roi_samples")
        place = ops.iota(shape=(1, count, 1), axis=1, dtype=dtype)
        sub = ops.iota(shape=(1, 1, samples), axis=2, dtype=dtype)
        if ratio <= 0:
            sub = ops.add(sub, _first_sample(ops.add(start, ops.mul(place, size)), size, own, reach))
        counted.append((ops.lt(sub, own), own))
        inner = ops.div(ops.mul(ops.add(sub, number(0.5, dtype)), size), own)
        position = ops.add(ops.add(start, ops.mul(place, size)), inner)
        shape = (regions, count, samples)
        positions.append(ops.broadcast_to(position, shape=shape))

    (height, rows), (width, columns) = ((bins[a], type_of(positions[a]).shape[2]) for a in (0, 1))
    grid = (regions, height, rows, width, columns)
    count = height * rows * width * columns

    def spread(v: ir.Value, axis: int) -> ir.Value:
        """[r, bins, samples] of one axis over the whole grid, as [r, count]."""
        r, b, s = type_of(v).shape
        v = reshape(v, (r, b, s, 1, 1) if axis == 0 else (r, 1, 1, b, s))
        return reshape(ops.broadcast_to(v, shape=grid), (regions, count))

    taken, axes = None, []
    for axis, size in enumerate(sizes):
        position = spread(positions[axis], axis)
        inside = ops.and_(ops.ge(position, number(-1.0, dtype)), ops.le(position, dim_value(size, dtype)))
        taken = inside if taken is None else ops.and_(taken, inside)
        axes.append(taps(clamp(position, size), size, "linear", "border", True))
    flat = reshape(transpose(x, (1, 0, 2, 3)), (channels, _pixels(x)))
    image_size = dim_value(sizes[0] * sizes[1])
    first = ops.mul(convert(images, "int64"), image_size)

    def fetch(index: ir.Value) -> ir.Value:
        pixel = ops.add(index, reshape(first, (regions, 1)))
        return transpose(ops.gather(flat, pixel, axis=1), (1, 0, 2))

    terms = weighted(fetch, axes, sizes, dtype)
    assert taken is not None
    taken = reshape(taken, (regions, 1, count))
    zero = number(0.0, dtype)
    if mode == "avg":
        values = ops.select(taken, total(terms), zero)
        neutral = zero
    else:
        values = terms[0]
        for term in terms[1:]:
            values = ops.max(values, term)
        values = ops.select(taken, values, zero)
        neutral = limit(dtype, highest=False)
    if ratio <= 0:
        used = ops.and_(
            *(spread(ops.broadcast_to(c, shape=type_of(positions[a]).shape), a) for a, (c, _) in enumerate(counted))
        )
        values = ops.select(reshape(used, (regions, 1, count)), values, neutral)
    values = reshape(values, (regions, channels, height, rows, width, columns))
    out = ops.reduce(values, kind="sum" if mode == "avg" else "max", axes=(3, 5))
    if mode == "avg":
        number_of = ops.max(ops.mul(counted[0][1], counted[1][1]), number(1.0, dtype))
        out = ops.div(out, reshape(number_of, (regions, 1, 1, 1) if ratio <= 0 else ()))
    else:
        out = ops.select(ops.eq(out, limit(dtype, highest=False)), zero, out)
    return convert(out, type_of(x).dtype)


def _pixels(x: ir.Value) -> Dim:
    batch, _, height, width = type_of(x).shape
    return batch * height * width


@onnx_op("MaxRoiPool", ranks=(4, 2))
def max_roi_pool(node: Node) -> ir.Value:
    """X [n, c, h, w], rois [r, 5] (image, x1, y1, x2, y2) -> [r, c, bins..]: each bin's maximum, 0 if it is empty.

    First over the rows of every bin, then over its columns."""
    x, rois = node.required(0), node.required(1)
    pooled = node.ints("pooled_shape")
    dtype = type_of(x).dtype
    sizes, regions = type_of(x).shape[2:], type_of(rois).shape[0]
    scale = number_like(node.float("spatial_scale", 1.0), rois)
    image = ops.cast(reshape(part(rois, 1, 0, 1), (regions,)), dtype="int64")
    values = ops.gather(x, image, axis=0)  # [r, c, h, w]
    low = limit(dtype, highest=False)
    for axis, (size, bins) in enumerate(zip(sizes, pooled, strict=True)):
        half = number_like(0.5, rois)
        start, end = (
            ops.floor(ops.add(ops.mul(reshape(part(rois, 1, i, 1), (regions, 1, 1)), scale), half))
            for i in (2 - axis, 4 - axis)
        )
        one = number_like(1.0, rois)
        length = ops.max(ops.add(ops.sub(end, start), one), one)
        width = ops.div(length, number_like(float(bins), rois))
        place = ops.iota(shape=(1, bins, 1), axis=1, dtype=type_of(rois).dtype)
        first = ops.add(ops.floor(ops.mul(place, width)), start)
        stop = ops.add(ops.ceil(ops.mul(ops.add(place, one), width)), start)
        at = ops.iota(shape=(1, 1, size), axis=2, dtype=type_of(rois).dtype)
        inside = ops.and_(ops.ge(at, first), ops.lt(at, stop))  # [r, bins, size]
        mask = reshape(inside, (regions, 1, bins, size, 1) if axis == 0 else (regions, 1, 1, bins, size))
        r, c, h, w = type_of(values).shape
        values = reshape(values, (r, c, 1, h, w) if axis == 0 else (r, c, h, 1, w))
        values = ops.reduce(ops.select(mask, values, low), kind="max", axes=(3 if axis == 0 else 4,))
    return ops.select(ops.eq(values, low), number(0, dtype), values)
