"""Images: sampling at coordinates, sampling grids, cropping, and folding patches and unpooling maxima."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, dim_value, number, reshape
from burn.dialect.deformable import deformed
from burn.dialect.dims import Dim, dim_max, dim_min, floordiv, product
from burn.dialect.image import PIXEL_FORMATS
from burn.dialect.mlir import ir
from burn.dialect.patches import folded
from burn.dialect.sampling import PADDINGS, affine_points, sample_grid
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.windows import window_options

MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic"}


@onnx_op("GridSample")
def grid_sample(node: Node) -> ir.Value:
    """x [n, c, d..], grid [n, e.., k] with coordinates in [-1, 1], the last axis first -> [n, c, e..]."""
    rank = max(node.type(0).rank, 3)
    node.need_ranks(rank, rank)
    x, grid = node.required(0), node.required(1)
    mode, padding = node.string("mode", "linear"), node.string("padding_mode", "zeros")
    if mode not in MODES:
        node.fail(f"'{mode}' is none of {', '.join(MODES)}", "mode")
    if padding not in PADDINGS:
        node.fail(f"'{padding}' is none of {', '.join(PADDINGS)}", "padding_mode")
    mode, aligned = MODES[mode], node.int("align_corners", 0) == 1
    sizes, named = type_of(x).shape[2:], type_of(grid).shape[-1]
    if isinstance(named, int) and named != len(sizes):
        node.fail(f"a grid {type_of(grid)} does not have coordinates for {len(sizes)} spatial axes")
    return sample_grid(x, grid, mode, padding, aligned)


@onnx_op("AffineGrid", ranks=(3, 1))
def affine_grid(node: Node) -> ir.Value:
    """theta [n, k, k + 1] applied to the homogeneous coordinates of every pixel -> [n, d.., k]."""
    theta = node.required(0)
    sizes = node.read_dims(1, minimum=1)[2:]
    rank = len(sizes)
    if type_of(theta).shape[1:] != (rank, rank + 1):
        node.fail(f"theta {type_of(theta)} does not transform {rank} coordinates")
    return affine_points(theta, tuple(sizes), node.int("align_corners", 0) == 1)


@onnx_op("CenterCropPad")
def center_crop_pad(node: Node) -> ir.Value:
    """Crops axes that are too long and pads those that are too short, evenly at both ends."""
    x, type_ = node.required(0), node.type(0)
    axes = node.axes(node.ints("axes", range(type_.rank)), type_.rank)
    wanted = node.read_dims(1)
    if len(wanted) != len(axes):
        node.fail(f"gives {len(wanted)} sizes for {len(axes)} axes")
    starts: list[Dim] = [0] * type_.rank
    low, high, sizes = list(starts), list(starts), list(type_.shape)
    for axis, size in zip(axes, wanted, strict=True):
        have = type_.shape[axis]
        missing = dim_max(size - have, 0)
        starts[axis] = floordiv(dim_max(have - size, 0), 2)
        sizes[axis] = dim_min(have, size)
        low[axis] = floordiv(missing, 2)
        high[axis] = missing - low[axis]
    cut = ops.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * type_.rank)
    padded = ops.pad(cut, number(0, type_.dtype), low=tuple(low), high=tuple(high))
    shape = list(type_.shape)
    for axis, size in zip(axes, wanted, strict=True):
        shape[axis] = size
    return reshape(padded, tuple(shape))


@onnx_op("Col2Im")
def col2im(node: Node) -> ir.Value:
    """[n, c * k.., l] -> the image [n, c, d..], in which overlapping patches add up."""
    x = node.required(0)
    image, block = node.read_dims(1, minimum=1), node.read_dims(2, minimum=1)
    rank = len(image)
    if len(block) != rank or node.type(0).rank != 3:
        node.fail(f"blocks of {len(block)} axes do not fill an image of {rank} from {node.type(0)}")
    strides, dilations, pads = window_options(node, rank)
    known = [k for k in block if isinstance(k, int)]
    if len(known) == rank:
        return folded(x, image, known, strides, dilations, pads[:rank], pads[rank:])
    return _scattered(x, image, block, strides, dilations, pads)


def _scattered(
    x: ir.Value,
    image: Sequence[Dim],
    block: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> ir.Value:
    """Col2Im for blocks whose sizes are read at run time: each element of a patch is added to its pixel."""
    rank = len(image)
    batch, rows, _ = type_of(x).shape
    channels = floordiv(rows, product(block))
    counts = [
        floordiv(d + low + high - dilation * (k - 1) - 1, stride) + 1
        for d, k, low, high, stride, dilation in zip(
            image, block, pads[:rank], pads[rank:], strides, dilations, strict=True
        )
    ]
    grid = (*block, *counts)
    index = inside = None
    for axis in range(rank):
        at_block = ops.mul(ops.iota(shape=grid, axis=axis), number(dilations[axis], "int64"))
        at_window = ops.mul(ops.iota(shape=grid, axis=rank + axis), number(strides[axis], "int64"))
        along = ops.sub(ops.add(at_block, at_window), number(pads[axis], "int64"))
        exists = ops.and_(ops.ge(along, number(0, "int64")), ops.lt(along, dim_value(image[axis])))
        index = along if index is None else ops.add(ops.mul(index, dim_value(image[axis])), along)
        inside = exists if inside is None else ops.and_(inside, exists)
    assert index is not None and inside is not None
    lines, width, size = batch * channels, product(grid), product(image)
    flat_inside = reshape(inside, (1, width))
    index = ops.select(flat_inside, reshape(index, (1, width)), number(0, "int64"))
    dtype = type_of(x).dtype
    updates = ops.select(flat_inside, reshape(x, (lines, width)), number(0, dtype))
    empty = ops.full(shape=(lines, size), dtype=dtype)
    index = broadcast_to(index, (lines, width))
    return reshape(ops.scatter_elements(empty, index, updates, axis=1, reduction="add"), (batch, channels, *image))


@onnx_op("MaxUnpool")
def max_unpool(node: Node) -> ir.Value:
    """Maxima at the flat row-major indices that MaxPool reported; zeros elsewhere."""
    x, indices = node.required(0), node.required(1)
    rank = node.type(0).rank - 2
    kernel = node.ints("kernel_shape")
    strides, _, pads = window_options(node, rank)
    if len(kernel) != rank:
        node.fail(f"{list(kernel)} does not fit {rank} spatial axes", "kernel_shape")
    sizes = [
        (d - 1) * stride - low - high + k
        for d, k, low, high, stride in zip(
            node.type(0).shape[2:], kernel, pads[:rank], pads[rank:], strides, strict=True
        )
    ]
    shape = (*node.type(0).shape[:2], *sizes)
    count = node.type(0).elements
    empty = ops.full(shape=(product(shape),), dtype=node.type(0).dtype)
    flat = ops.scatter_elements(empty, reshape(indices, (count,)), reshape(x, (count,)), axis=0)
    result = reshape(flat, shape)
    if not node.has_input(2):
        return result
    wanted = node.read_dims(2)
    if len(wanted) != len(shape):
        node.fail(f"gives {len(wanted)} sizes for {len(shape)} axes")
    kept = tuple(dim_min(a, b) for a, b in zip(shape, wanted, strict=True))
    result = ops.slice(result, starts=(0,) * len(shape), sizes=kept, steps=(1,) * len(shape))
    high = tuple(dim_max(w - k, 0) for w, k in zip(wanted, kept, strict=True))
    padded = ops.pad(result, number(0, node.type(0).dtype), low=(0,) * len(shape), high=high)
    return reshape(padded, tuple(wanted))


@onnx_op("DeformConv")
def deform_conv(node: Node) -> ir.Value:
    """A convolution whose taps are read at positions of their own (arXiv:1703.06211)."""
    rank = max(node.type(0).rank, 3)
    node.need_ranks(rank, rank, rank, 1, rank)
    x, weight, offset = (node.required(i) for i in range(3))
    channels, (outputs, _, *kernel) = type_of(x).shape[1], type_of(weight).shape
    strides, dilations, pads = window_options(node, len(kernel))
    groups, shares = node.int("group", 1), node.int("offset_group", 1)
    given = node.ints("kernel_shape", tuple(kernel))
    if any(isinstance(k, int) and k != g for k, g in zip(kernel, given, strict=False)):
        node.fail(f"differs from the weight's {type_of(weight)}", "kernel_shape")
    if not all(isinstance(d, int) for d in (*kernel, channels, outputs)):
        node.fail(f"the weight {type_of(weight)} and the number of channels must be known")
    if channels % shares or channels % groups or outputs % groups:
        node.fail(f"{channels} channels do not split into {groups} groups and {shares} offset groups", "group")
    mask = node.required(4) if node.has_input(4) else None
    bias = node.required(3) if node.has_input(3) else None
    return deformed(x, weight, offset, mask, bias, strides, pads, dilations, groups, shares)


@onnx_op("ImageDecoder")
def image_decoder(node: Node) -> ir.Value:
    """The bytes of an image file as pixels [height, width, channels]; the program's host decodes it when the program runs."""
    form = node.string("pixel_format", "RGB")
    if form not in PIXEL_FORMATS:
        node.fail(f"'{form}' is none of {', '.join(PIXEL_FORMATS)}", "pixel_format")
    return ops.image_decode(node.required(0), symbols=(node.fresh("height"), node.fresh("width")), form=form)
