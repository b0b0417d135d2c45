"""torchvision's operators in Python, for a torchvision whose compiled part does not fit the torch that is there: `define`.

The schemas are torchvision's own, so graphs are those of the compiled operators. The definitions follow torchvision's
documentation, sample by sample, and derivatives are autograd's of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

ROI_ALIGN = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
DEFORM = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups,"
    " SymInt offset_groups, bool use_mask"
)
FIVE = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, Tensor rois, {ROI_ALIGN}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {ROI_ALIGN}, SymInt batch_size, SymInt channels, SymInt height,"
    " SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    f"deform_conv2d({FIVE}, {DEFORM}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {FIVE}, {DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
OTHERS = ("qnms", "qroi_align", "roi_pool", "_roi_pool_backward", "ps_roi_align", "_ps_roi_align_backward", "ps_roi_pool",
          "_ps_roi_pool_backward")  # fmt: skip
"""Operators that torchvision registers shapes for and no architecture here calls."""

_library: Any = None


def define() -> None:
    """Defines the operators, once, unless a compiled torchvision has."""
    global _library
    if _library is not None or _compiled():
        return
    _library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        _library.define(schema)
    for name in OTHERS:
        _library.define(f"{name}(Tensor input) -> Tensor")
    for name, function, shape in (
        ("nms", nms, None),
        ("roi_align", roi_align, lambda x, rois, _, h, w, *rest: x.new_empty((rois.shape[0], x.shape[1], h, w))),
        ("_roi_align_backward", roi_align_backward, lambda g, r, s, h, w, *sizes: g.new_empty(sizes[:4])),
        ("deform_conv2d", deform_conv2d, lambda x, w, o, *rest: x.new_empty((x.shape[0], w.shape[0], *o.shape[2:]))),
        ("_deform_conv2d_backward", deform_conv2d_backward, lambda g, *rest: tuple(map(torch.empty_like, rest[:5]))),
    ):
        _library.impl(name, function, "CPU")
        if shape is not None:
            torch.library.register_fake(f"torchvision::{name}", shape, lib=_library)
    torch.library.register_autograd("torchvision::roi_align", _back_roi_align, setup_context=_keep, lib=_library)
    torch.library.register_autograd("torchvision::deform_conv2d", _back_deform, setup_context=_keep, lib=_library)


def _compiled() -> bool:
    """Whether torchvision is here and its compiled part fits this torch."""
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return False
    return hasattr(torch.ops.torchvision.nms, "default")


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Indices of the boxes that are kept, by falling score. Shapes: [n, 4], [n] -> [kept], int64."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both, area = (high - low).clamp(min=0).prod(-1), (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    near = both / (area[:, None] + area - both) > threshold
    dropped = torch.zeros(len(boxes), dtype=torch.bool)
    kept: list[int] = []
    for i in scores.sort(descending=True, stable=True).indices.tolist():
        if not dropped[i]:
            kept.append(i)
            dropped |= near[i]
    return torch.tensor(kept, dtype=torch.int64)


def _bilinear(image: Tensor, y: Tensor, x: Tensor, least: float, border: bool) -> Tensor:
    """image at points. Shapes: [c, h, w], [n], [n] -> [c, n]. Points below `least`, or beyond the far edge, are 0; with `border`
    a point within a pixel of the edge takes the edge's value, without it there are zeros around the image."""
    height, width = image.shape[1:]
    inside = (y > least) & (y < height) & (x > least) & (x < width) if not border else (
        (y >= least) & (y <= height) & (x >= least) & (x <= width)
    )  # fmt: skip
    if border:
        y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    total: Any = 0
    top, left = y.detach().floor(), x.detach().floor()
    for down in (0, 1):
        for right in (0, 1):
            row, column = (top + down).long(), (left + right).long()
            here = (row >= 0) & (row < height) & (column >= 0) & (column < width) & inside
            weight = (1 - (y - row).abs()) * (1 - (x - column).abs())
            total = total + image[:, row.clamp(0, height - 1), column.clamp(0, width - 1)] * (weight * here)
    return total


def roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Tensor:
    """Means over samples of each box's cells. Shapes: [b, c, h, w], [n, 5] -> [n, c, height, width]."""
    found = []
    for roi in rois:
        left, top, right, bottom = (roi[1:] * scale - (0.5 if aligned else 0.0)).unbind()
        across, down = right - left, bottom - top
        if not aligned:
            across, down = across.clamp(min=1), down.clamp(min=1)
        rows, columns = (
            (ratio, ratio) if ratio > 0 else (int((down / height).ceil()), int((across / width).ceil()))
        )  # fmt: skip
        if rows <= 0 or columns <= 0:
            found.append(x.new_zeros((x.shape[1], height, width)))
            continue
        y = top + (torch.arange(height * rows) + 0.5) * (down / height / rows)
        z = left + (torch.arange(width * columns) + 0.5) * (across / width / columns)
        points = _bilinear(x[int(roi[0])], y.repeat_interleave(len(z)), z.repeat(len(y)), -1.0, True)
        found.append(points.view(x.shape[1], height, rows, width, columns).mean((2, 4)))
    return torch.stack(found) if found else x.new_zeros((0, x.shape[1], height, width))


def roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    scale: float,
    height: int,
    width: int,
    b: int,
    c: int,
    h: int,
    w: int,
    ratio: int,
    aligned: bool,
) -> Tensor:
    return _pulled(
        lambda x: roi_align(x, rois, scale, height, width, ratio, aligned), [grad.new_zeros((b, c, h, w))], grad
    )[0]


def deform_conv2d(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *numbers: int) -> Tensor:
    """A convolution whose taps are moved by `offset`, (y, x) by tap and offset group, and scaled by `mask`."""
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask = numbers
    out, _, kh, kw = weight.shape
    rows, columns = offset.shape[2:]
    share = x.shape[1] // offset_groups
    moved = offset.view(len(x), offset_groups, kh * kw, 2, rows, columns)
    batches = []
    for image, number in zip(x, range(len(x)), strict=True):
        taps = []
        for group in range(offset_groups):
            part = image[group * share : (group + 1) * share]
            for tap in range(kh * kw):
                dy, dx = moved[number, group, tap].unbind()
                y = (torch.arange(rows) * stride_h - pad_h + tap // kw * dilation_h)[:, None] + dy
                z = (torch.arange(columns) * stride_w - pad_w + tap % kw * dilation_w)[None, :] + dx
                values = _bilinear(part, y.flatten(), z.flatten(), -1.0, False).view(share, rows, columns)
                if use_mask:
                    values = values * mask.view(len(x), offset_groups, kh * kw, rows, columns)[number, group, tap]
                taps.append(values)
        columns_of = torch.stack(taps).view(offset_groups, kh * kw, share, rows, columns).transpose(1, 2).flatten(0, 1)
        split = columns_of.reshape(groups, -1, rows * columns)
        batches.append((weight.reshape(groups, out // groups, -1) @ split).view(out, rows, columns))
    return torch.stack(batches) + bias[:, None, None]


def deform_conv2d_backward(grad: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return _pulled(lambda *tensors: deform_conv2d(*tensors, *rest[5:]), rest[:5], grad)


def _pulled(function: Callable[..., Tensor], tensors: Sequence[Tensor], grad: Tensor) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        given = [t.detach().requires_grad_() for t in tensors]
        found = torch.autograd.grad(function(*given), given, grad, allow_unused=True)
    return tuple(torch.zeros_like(t) if g is None else g for g, t in zip(found, given, strict=True))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*(v for v in inputs if isinstance(v, Tensor)))
    ctx.numbers = tuple(v for v in inputs if not isinstance(v, Tensor))


def _back_roi_align(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, rois = ctx.saved_tensors
    scale, height, width, ratio, aligned = ctx.numbers
    made = torch.ops.torchvision._roi_align_backward(grad, rois, scale, height, width, *x.shape, ratio, aligned)
    return made, None, None, None, None, None, None


def _back_deform(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return (
        *torch.ops.torchvision._deform_conv2d_backward(grad, *ctx.saved_tensors, *ctx.numbers),
        *(None,) * len(ctx.numbers),
    )
