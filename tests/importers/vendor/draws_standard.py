"""Random cases of com.microsoft's operators that ONNX has too, or nearly."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.vendor.case import Case, Draw, draws

I32, I64, F64 = np.int32, np.int64, np.float64


@draws("Range")
def range_(d: Draw) -> Case:
    dtype = d.pick(np.int16, I32, I64, np.float32, F64)
    shape = d.pick((), (1,))
    start, limit, step = d.pick(-3, 0, 2), d.pick(-5, 0, 7, 20), d.pick(-2, -1, 1, 3)
    third = d.pick(None, step)
    operands: list[Any] = [np.full(shape, start, dtype), np.full(shape, limit, dtype)]
    operands.append(None if third is None else np.full(shape, third, dtype))
    return Case("Range", operands, constant=d.pick((), (0, 1, 2)), open={})


@draws("Pad")
def pad(d: Draw) -> Case:
    rank = d.size(1, 2, 3)
    x = d.f(*(d.size(3, 4, 5) for _ in range(rank)))
    mode = d.pick(None, "constant", "reflect", "edge")
    low = -1 if mode in (None, "constant") else 0
    pads = d.ints(low, 3, 2 * rank, dtype=I64)
    value = d.pick(None, np.array(2.5, np.float32), np.array([2.5], np.float32))
    constant = d.pick((1,), (1, 2), (1,), ())
    return Case("Pad", [x, pads, value], {"mode": mode}, constant=constant, open={0: range(rank)})


@draws("Trilu")
def trilu(d: Draw) -> Case:
    shape = [d.size() for _ in range(d.size(2, 3))]
    dtype = d.pick(np.float32, F64, I64)
    k = d.pick(None, np.array(d.pick(-3, -1, 0, 2), I64))
    return Case(
        "Trilu", [d.f(*shape, scale=9).astype(dtype), k], {"upper": d.pick(None, 0, 1)}, constant=d.pick((), (1,))
    )


@draws("GatherND")
def gather_nd(d: Draw) -> Case:
    x = d.f(3, 4, 5, scale=9).astype(d.pick(np.float32, F64, I64, I32, np.uint8))
    depth = d.size(1, 2, 3)
    index = np.stack([d.ints(-s, s, 2, 3) for s in x.shape[:depth]], axis=-1).astype(d.pick(I32, I64))
    return Case("GatherND", [x, index], open={0: (0, 1, 2), 1: (0, 1)})


@draws("GridSample")
def grid_sample(d: Draw) -> Case:
    x, grid = d.f(d.size(1, 2), d.size(1, 3), d.size(2, 5), d.size(3, 4)), None
    grid = d.rng.uniform(-1.3, 1.3, (x.shape[0], d.size(1, 3), d.size(1, 4), 2)).astype(np.float32)
    attributes = {
        "mode": d.pick(None, "bilinear", "nearest", "bicubic"),
        "padding_mode": d.pick(None, "zeros", "border", "reflection"),
        "align_corners": d.pick(None, 0, 1),
    }
    return Case("GridSample", [x, grid], attributes, tolerance=1e-4)


@draws("Inverse")
def inverse(d: Draw) -> Case:
    n = d.size(1, 2, 3, 5, 8)
    lead = d.pick((), (2,), (2, 3))
    x = (d.f(*lead, n, n) + 3 * np.eye(n)).astype(d.pick(np.float32, F64))
    return Case("Inverse", [x], tolerance=1e-3)


@draws("SampleOp")
def sample_op(d: Draw) -> Case:
    return Case("SampleOp", [d.f(d.size(), d.size())], open={0: (0, 1)})


@draws("ExpandDims")
def expand_dims(d: Draw) -> Case:
    x = d.f(d.size(), d.size(), scale=9).astype(d.pick(np.float32, F64, I64, I32, np.bool_))
    return Case("ExpandDims", [x, np.array(d.pick(-3, -1, 0, 1, 2), I32)], constant=(1,), open={0: (0, 1)})


@draws("Unique")
def unique(d: Draw) -> Case:
    return Case("Unique", [d.ints(0, 5, d.size(1, 3, 9)).astype(np.float32)], outputs=3, open={0: (0,)})


@draws("UnfoldTensor")
def unfold_tensor(d: Draw) -> Case:
    x = d.f(d.size(3, 4, 7), d.size(3, 5), d.size(3, 6), scale=9).astype(d.pick(np.float32, F64, I64))
    attributes = {"size": d.size(1, 2, 3), "step": d.pick(None, 1, 2, 3), "dim": d.pick(None, -1, 0, 1, 2)}
    return Case("UnfoldTensor", [x], attributes, open={0: (0, 1, 2)})


@draws("MatMulInteger16")
def matmul_integer16(d: Draw) -> Case:
    k = d.size()
    a, b = d.ints(-999, 999, d.size(), k, dtype=np.int16), d.ints(-999, 999, k, d.size(), dtype=np.int16)
    return Case("MatMulInteger16", [a, b], open={0: (0,)})


@draws("CDist")
def cdist(d: Draw) -> Case:
    n, dtype = d.size(), d.pick(np.float32, F64)
    operands = [d.f(d.size(), n).astype(dtype), d.f(d.size(), n).astype(dtype)]
    return Case(
        "CDist", operands, {"metric": d.pick(None, "euclidean", "sqeuclidean")}, open={0: (0,), 1: (0,)}, tolerance=1e-3
    )


@draws("CropAndResize")
def crop_and_resize(d: Draw) -> Case:
    x = d.f(d.size(1, 2), d.size(1, 3), d.size(1, 5, 6), d.size(2, 7))
    count = d.size(1, 2, 3)
    regions = d.rng.uniform(-0.2, 1.2, (count, 4)).astype(np.float32)
    crop = np.array([d.size(1, 2, 4), d.size(1, 3)], I32)
    attributes = {"mode": d.pick(None, "bilinear", "nearest"), "extrapolation_value": d.pick(None, 2.5)}
    operands: list[Any] = [x, regions, d.ints(0, x.shape[0], count), crop]
    return Case("CropAndResize", operands, attributes, constant=d.pick((3,), ()), open={0: (0, 2, 3), 1: (0,), 2: (0,)})


def window(d: Draw, spatial: int, ceil: bool = False, dilated: bool = True) -> dict[str, Any]:
    """Attributes of a sliding window."""
    kernel = [d.size(1, 2, 3) for _ in range(spatial)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": d.pick(None, [d.size(1, 2)] * spatial)}
    if dilated:
        attributes["dilations"] = d.pick(None, [1] * spatial, [2] * spatial)
    kind = d.pick("pads", "auto", "neither")
    if kind == "pads":
        attributes["pads"] = [min(k - 1, d.pick(0, 1)) for k in kernel] * 2
    if kind == "auto":
        attributes["auto_pad"] = d.pick("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
        if attributes["auto_pad"].startswith("SAME"):
            attributes["dilations"] = None
    if ceil:
        attributes["ceil_mode"] = d.pick(None, 0, 1)
    return attributes


@draws("NhwcMaxPool")
def nhwc_max_pool(d: Draw) -> Case:
    spatial = d.size(1, 2, 3)
    sizes = [d.size(5, 6, 7) for _ in range(spatial)]
    x = d.bytes(d.pick(np.uint8, np.int8), d.size(1, 2), *sizes, d.size(1, 3))
    return Case("NhwcMaxPool", [x], window(d, spatial, ceil=True), open={0: (0,)})


@draws("QLinearConv")
def qlinear_conv(d: Draw) -> Case:
    spatial, groups = d.size(1, 2), d.size(1, 2)
    sizes = [d.size(5, 6, 7) for _ in range(spatial)]
    last = d.pick(None, 0, 1)
    kind = d.pick("u8", "s8")
    a, w = (np.uint8, d.pick(np.uint8, np.int8)) if kind == "u8" else (np.int8, np.int8)
    inputs, outputs = groups * d.size(1, 2, 3), groups * d.size(1, 2)
    attributes = window(d, spatial)
    kernel = attributes["kernel_shape"]
    attributes["kernel_shape"] = d.pick(None, kernel)
    attributes.update(group=groups if groups > 1 else d.pick(None, 1), channels_last=last)
    batch = d.size(1, 2)
    x = d.bytes(a, batch, *sizes, inputs) if last else d.bytes(a, batch, inputs, *sizes)
    per_channel = d.flag()
    scale = d.positive(outputs) if per_channel else d.positive()
    zero = np.zeros(outputs if per_channel else (), w) if w == np.int8 else d.bytes(w)
    operands: list[Any] = [
        x,
        np.float32(0.02),
        d.bytes(a),
        # MLAS may add neighbouring terms of unsigned and signed bytes in 16 bits: no sum here reaches their bounds
        (d.bytes(w, outputs, inputs // groups, *kernel) // (2 if w == np.int8 else 1)).astype(w),
        scale,
        np.full(outputs, zero) if per_channel and zero.ndim == 0 else zero,
        np.float32(0.5),
        d.bytes(a),
        d.maybe(d.ints(-500, 500, outputs)),
    ]
    return Case(
        "QLinearConv", operands, attributes, constant=(1, 2, 3, 4, 5, 6, 7, 8), steps=1, share=0.1, open={0: (0,)}
    )


@draws("ConvTransposeWithDynamicPads")
def conv_transpose_with_dynamic_pads(d: Draw) -> Case:
    spatial, groups = 2, d.size(1, 2)
    inputs, outputs = groups * d.size(1, 2), d.size(1, 3)
    kernel = [d.size(1, 2, 3) for _ in range(spatial)]
    stride = d.size(1, 2)
    x = d.f(d.size(1, 2), inputs, d.size(2, 4), d.size(3, 5))
    pads = np.array([min(k - 1, d.pick(0, 1)) for k in kernel] * 2, I64)
    attributes = {
        "group": groups if groups > 1 else d.pick(None, 1),
        "strides": [stride] * 2 if stride > 1 else d.pick(None, [1, 1]),
        "dilations": d.pick(None, [1, 1], [2, 2]),
        "kernel_shape": d.pick(None, kernel),
        "output_padding": d.pick(None, [0, stride - 1]),
        "auto_pad": d.pick(None, "NOTSET"),
    }
    operands: list[Any] = [x, d.f(inputs, outputs, *kernel), pads, d.maybe(d.f(outputs * groups))]
    return Case("ConvTransposeWithDynamicPads", operands, attributes, constant=d.pick((), (2,)), open={0: (0,)})
