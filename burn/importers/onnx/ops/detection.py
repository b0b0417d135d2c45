"""Object detection: suppressing overlapping boxes, and pooling regions of interest."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, part, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.regions import Form, ReadSize
from burn.dialect.regions import roi_align as aligned
from burn.dialect.regions import roi_pool as pooled
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op


@onnx_op("NonMaxSuppression")
def non_max_suppression(node: Node) -> ir.Value:
    maximum = reshape(convert(node.default(2, 0, "int64"), "int64"), ())
    overlap = reshape(node.default(3, 0.0, "float32"), ())
    threshold = reshape(node.default(4, float("-inf"), "float32"), ())
    return ops.non_max_suppression(
        node.required(0),
        node.required(1),
        maximum,
        convert(overlap, "float64"),
        convert(threshold, "float64"),
        count=node.fresh("boxes"),
        form="center" if node.int("center_point_box", 0) == 1 else "corners",
    )


@onnx_op("RoiAlign")
def roi_align(node: Node) -> ir.Value:
    """X [n, c, h, w], rois [r, 4] (x1, y1, x2, y2), image of each [r] -> [r, c, output height, output width]."""
    node.need_ranks(4, 2, 1)
    centred = node.string("coordinate_transformation_mode", "half_pixel") == "half_pixel" and node.opset >= 16
    mode = node.string("mode", "avg")
    if mode not in ("avg", "max"):
        node.fail(f"'{mode}' is neither avg nor max", "mode")
    form = Form(
        (node.int("output_height", 1), node.int("output_width", 1)),
        node.float("spatial_scale", 1.0),
        0.5 if centred else 0.0,
        None if centred else 1.0,
    )
    images = convert(node.required(2), "int64")
    ratio = node.int("sampling_ratio", 0)
    return aligned(node.required(0), node.required(1), images, form, ratio, mode, _read_size(node))


@onnx_op("MaxRoiPool", ranks=(4, 2))
def max_roi_pool(node: Node) -> ir.Value:
    """X [n, c, h, w], rois [r, 5] (image, x1, y1, x2, y2) -> [r, c, bins..]: each bin's maximum, 0 if it is empty."""
    x, rois = node.required(0), node.required(1)
    bins = node.ints("pooled_shape")
    if len(bins) != 2:
        node.fail(f"{bins} are not two sizes", "pooled_shape")
    images = ops.cast(reshape(part(rois, 1, 0, 1), (type_of(rois).shape[0],)), dtype="int64")
    form = Form((bins[0], bins[1]), node.float("spatial_scale", 1.0), 0.0, 1.0)
    return pooled(x, part(rois, 1, 1, 4), images, form, _read_size(node))[0]


def _read_size(node: Node) -> ReadSize:
    def read(value: ir.Value) -> Dim:
        return node.read_dim(value, hint="roi_samples")

    return read
