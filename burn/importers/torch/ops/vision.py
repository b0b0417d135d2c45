"""torchvision's own operators: pooling of regions of interest, non-maximum suppression, deformable convolutions.

Backward operators differentiate what the forward operator is made of, so that both agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.reverse import gradients
from burn.dialect.compose import convert, number, part, reshape
from burn.dialect.deformable import deformed
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.regions import Form, channel_mapping, ps_roi_pool, roi_align, roi_pool
from burn.dialect.types import TensorType, type_of
from burn.importers.torch.node import Node, aten

SPACE = "torchvision"


@aten("nms.default", namespace=SPACE)
def nms(node: Node, boxes: ir.Value, scores: ir.Value, threshold: float) -> ir.Value:
    """Boxes by falling score without those that overlap a better one: [n, 4], [n] -> [kept] int64."""
    dtype, (n, _) = type_of(boxes).dtype, type_of(boxes).shape
    if dtype not in ("float32", "float64"):
        node.fail(f"boxes must be float32 or float64, not {dtype}")
    count = node.new_size("kept")
    node.importer.sizes.bind_general(node.meta.shape[0], count)  # torchvision: ctx.create_unbacked_symint()
    boxes, scores = reshape(boxes, (1, n, 4)), reshape(convert(scores, dtype), (1, 1, n))
    overlap = number(float(threshold), "float64")
    most = number(2**62, "int64")
    chosen = ops.non_max_suppression(boxes, scores, most, overlap, None, count=str(count), form="ordered")
    return reshape(part(chosen, 1, 2, 1), (count,))


# ---- regions ------------------------------------------------------------------------------------------------------------
def _split(rois: ir.Value) -> tuple[ir.Value, ir.Value]:
    """rois [r, 5]: the boxes [r, 4], and the image of each, [r] int64."""
    image = reshape(part(rois, 1, 0, 1), (type_of(rois).shape[0],))
    return part(rois, 1, 1, 4), ops.cast(image, dtype="int64")


def _read_size(node: Node) -> Callable[[ir.Value], Dim]:
    def read(value: ir.Value) -> Dim:
        size = node.new_size("roi_samples")
        ops.read_dim(value, symbol=str(size), position=0, minimum=0)
        return size

    return read


def _pulled(node: Node, grad: ir.Value, sizes: tuple[Dim, ...], pool: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """The gradient of an image of these sizes that `pool` is linear in."""
    x = ops.broadcast_to(number(0.0, type_of(grad).dtype), shape=sizes)
    (found,) = gradients([pool(x)], [grad], [x])
    return ops.full(shape=sizes, dtype=type_of(grad).dtype, value=0.0) if found is None else found


@aten("roi_align.default", namespace=SPACE)
def align(
    node: Node, x: ir.Value, rois: ir.Value, scale: float | ir.Value, height: Dim, width: Dim, ratio: int, aligned: bool
) -> ir.Value:
    """x [n, c, h, w], rois [r, 5] (image, x1, y1, x2, y2) -> [r, c, height, width] (arXiv:1703.06870)."""
    form = Form((height, width), scale, 0.5 if aligned else 0.0, None if aligned else 1.0)
    boxes, images = _split(rois)
    return roi_align(x, boxes, images, form, ratio, "avg", _read_size(node))


@aten("_roi_align_backward.default", namespace=SPACE)
def align_backward(
    node: Node,
    grad: ir.Value,
    rois: ir.Value,
    scale: float | ir.Value,
    height: Dim,
    width: Dim,
    batch: Dim,
    channels: Dim,
    image_height: Dim,
    image_width: Dim,
    ratio: int,
    aligned: bool,
) -> ir.Value:
    sizes = (batch, channels, image_height, image_width)
    return _pulled(node, grad, sizes, lambda x: align(node, x, rois, scale, height, width, ratio, aligned))


@aten("ps_roi_align.default", namespace=SPACE)
def ps_align(
    node: Node, x: ir.Value, rois: ir.Value, scale: float | ir.Value, height: Dim, width: Dim, ratio: int
) -> list[ir.Value]:
    """Position-sensitive: x [n, c, h, w] -> [r, c / bins, height, width], and the channel each element is read from, int32."""
    form = Form((height, width), scale, 0.5, None, True)
    boxes, images = _split(rois)
    values = roi_align(x, boxes, images, form, ratio, "avg", _read_size(node))
    return [values, convert(channel_mapping(x, type_of(rois).shape[0], form), "int32")]


@aten("_ps_roi_align_backward.default", namespace=SPACE)
def ps_align_backward(
    node: Node,
    grad: ir.Value,
    rois: ir.Value,
    mapping: ir.Value,
    scale: float | ir.Value,
    height: Dim,
    width: Dim,
    ratio: int,
    *sizes: Dim,
) -> ir.Value:
    return _pulled(node, grad, sizes, lambda x: ps_align(node, x, rois, scale, height, width, ratio)[0])


@aten("roi_pool.default", namespace=SPACE)
def pool(node: Node, x: ir.Value, rois: ir.Value, scale: float | ir.Value, height: Dim, width: Dim) -> list[ir.Value]:
    """x [n, c, h, w], rois [r, 5] -> maxima [r, c, height, width], and the pixels that they are, int32, -1 for none."""
    boxes, images = _split(rois)
    values, pixel = roi_pool(x, boxes, images, Form((height, width), scale, 0.0, 1.0), _read_size(node))
    return [values, convert(pixel, "int32")]


@aten("_roi_pool_backward.default", namespace=SPACE)
def pool_backward(
    node: Node,
    grad: ir.Value,
    rois: ir.Value,
    chosen: ir.Value,
    scale: float | ir.Value,
    height: Dim,
    width: Dim,
    *sizes: Dim,
) -> ir.Value:
    """Every bin's gradient goes to the pixel that it took."""
    _, channels, rows, columns = sizes
    regions, dtype = type_of(rois).shape[0], type_of(grad).dtype
    chosen = convert(chosen, "int64")
    plane = ops.add(
        ops.mul(reshape(_split(rois)[1], (regions, 1, 1, 1)), node.scalar(channels, "int64")),
        ops.iota(shape=(1, channels, 1, 1), axis=1),
    )
    none = ops.lt(chosen, number(0, "int64"))
    index = ops.add(ops.mul(plane, node.scalar(rows * columns, "int64")), ops.max(chosen, number(0, "int64")))
    updates = ops.select(none, number(0.0, dtype), grad)
    count = type_of(grad).elements
    zeros = ops.full(shape=(product(sizes),), dtype=dtype, value=0.0)
    written = ops.scatter_nd(zeros, reshape(index, (count, 1)), reshape(updates, (count,)), reduction="add")
    return reshape(written, sizes)


@aten("ps_roi_pool.default", namespace=SPACE)
def ps_pool(
    node: Node, x: ir.Value, rois: ir.Value, scale: float | ir.Value, height: Dim, width: Dim
) -> list[ir.Value]:
    """Position-sensitive means: x [n, c, h, w] -> [r, c / bins, height, width], and the channel of each element, int32."""
    form = Form((height, width), scale, 0.0, 1.0, True)
    boxes, images = _split(rois)
    values = ps_roi_pool(x, boxes, images, form, _read_size(node))
    return [values, convert(channel_mapping(x, type_of(rois).shape[0], form), "int32")]


@aten("_ps_roi_pool_backward.default", namespace=SPACE)
def ps_pool_backward(
    node: Node,
    grad: ir.Value,
    rois: ir.Value,
    mapping: ir.Value,
    scale: float | ir.Value,
    height: Dim,
    width: Dim,
    *sizes: Dim,
) -> ir.Value:
    """The derivative of `ps_pool`. torchvision's own cuts windows at another row and column than its forward operator does."""
    return _pulled(node, grad, sizes, lambda x: ps_pool(node, x, rois, scale, height, width)[0])


# ---- deformable convolutions ----------------------------------------------------------------------------------------------
def _deformed(
    x: ir.Value,
    weight: ir.Value,
    offset: ir.Value,
    mask: ir.Value,
    bias: ir.Value,
    numbers: tuple[Any, ...],
) -> ir.Value:
    *windows, groups, shares, masked = numbers
    strides, pads, dilations = windows[:2], windows[2:4], windows[4:6]
    return deformed(x, weight, offset, mask if masked else None, bias, strides, pads, dilations, groups, shares)


@aten("deform_conv2d.default", namespace=SPACE)
def deform_conv2d(
    node: Node, x: ir.Value, weight: ir.Value, offset: ir.Value, mask: ir.Value, bias: ir.Value, *numbers: Any
) -> ir.Value:
    """x [n, c, h, w], offset [n, shares * kh * kw * 2, eh, ew] (down, right) -> [n, out, eh, ew]; see `deformed`."""
    return _deformed(x, weight, offset, mask, bias, numbers)


@aten("_deform_conv2d_backward.default", namespace=SPACE)
def deform_conv2d_backward(node: Node, grad: ir.Value, *rest: Any) -> list[ir.Value]:
    """The gradients of x, weight, offset, mask and bias. Where a position is a pixel, the derivative by the offset is that of the
    cell above, as in torchvision."""
    x, weight, offset, mask, bias, *numbers = rest
    tensors = [x, weight, offset, mask, bias]
    out = _deformed(x, weight, offset, mask, bias, tuple(numbers))
    found = gradients([out], [grad], tensors)
    return [_zeros(type_of(x)) if g is None else g for g, x in zip(found, tensors, strict=True)]


def _zeros(type_: TensorType) -> ir.Value:
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0)
