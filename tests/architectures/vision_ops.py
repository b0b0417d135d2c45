"""torchvision's operators in Python, for a torchvision whose compiled part does not fit the torch that is there: `define`.

The schemas are torchvision's own, so graphs are those of the compiled operators. The definitions follow torchvision's
documentation, sample by sample, and derivatives are autograd's of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, floor
from typing import Any

import torch
from torch import Tensor

ROI_ALIGN = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
DEFORM = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups,"
    " SymInt offset_groups, bool use_mask"
)
POOL = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
TWO = "Tensor input, Tensor rois"
BACK = "Tensor grad, Tensor rois, Tensor argmax"
MAPPED = "Tensor grad, Tensor rois, Tensor channel_mapping"
FIVE = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, Tensor rois, {ROI_ALIGN}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {ROI_ALIGN}, SymInt batch_size, SymInt channels, SymInt height,"
    " SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    f"deform_conv2d({FIVE}, {DEFORM}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {FIVE}, {DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    f"roi_pool({TWO}, {POOL}) -> (Tensor, Tensor)",
    f"_roi_pool_backward({BACK}, {POOL}, {SIZES}) -> Tensor",
    f"ps_roi_align({TWO}, {POOL}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward({MAPPED}, {POOL}, int sampling_ratio, {SIZES}) -> Tensor",
    f"ps_roi_pool({TWO}, {POOL}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward({MAPPED}, {POOL}, {SIZES}) -> Tensor",
)
OTHERS = ("qnms", "qroi_align")
"""Operators that torchvision registers shapes for, of quantised tensors."""

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
        ("roi_pool", roi_pool, lambda x, rois, _, h, w: _pair(x, rois, x.shape[1], h, w)),
        ("_roi_pool_backward", roi_pool_backward, lambda g, *rest: g.new_empty(rest[-4:])),
        ("ps_roi_align", ps_roi_align, lambda x, rois, _, h, w, *rest: _pair(x, rois, x.shape[1] // (h * w), h, w)),
        ("_ps_roi_align_backward", ps_roi_align_backward, lambda g, *rest: g.new_empty(rest[-4:])),
        ("ps_roi_pool", ps_roi_pool, lambda x, rois, _, h, w: _pair(x, rois, x.shape[1] // (h * w), h, w)),
        ("_ps_roi_pool_backward", ps_roi_pool_backward, lambda g, *rest: g.new_empty(rest[-4:])),
    ):
        _library.impl(name, function, "CPU")
        if shape is not None:
            torch.library.register_fake(f"torchvision::{name}", shape, lib=_library)
    torch.library.register_autograd("torchvision::roi_align", _back_roi_align, setup_context=_keep, lib=_library)
    torch.library.register_autograd("torchvision::deform_conv2d", _back_deform, setup_context=_keep, lib=_library)
    torch.library.register_fake("torchvision::nms", _fake_nms, lib=_library)
    for name in ("roi_pool", "ps_roi_align", "ps_roi_pool"):
        torch.library.register_autograd(
            f"torchvision::{name}", partial(_back_pair, name), setup_context=_keep_pair, lib=_library
        )


def _compiled() -> bool:
    """True if torchvision is installed and its compiled part fits this torch."""
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
    near = (both / (area[:, None] + area - both)).double() > threshold
    dropped = torch.zeros(len(boxes), dtype=torch.bool)
    kept: list[int] = []
    for i in scores.sort(descending=True, stable=True).indices.tolist():
        if not dropped[i]:
            kept.append(i)
            dropped |= near[i]
    return torch.tensor(kept, dtype=torch.int64)


def _bilinear(image: Tensor, y: Tensor, x: Tensor, border: bool) -> Tensor:
    """Samples an image. Shapes: [c, h, w], [n], [n] -> [c, n]. With `border` a coordinate within a pixel of the edge is
    clamped to the edge, and others outside are 0. Without it the image is padded with zeros."""
    height, width = image.shape[1:]
    inside = torch.ones_like(y, dtype=torch.bool)
    if border:
        inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
        y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    total: Any = 0
    top, left = y.detach().floor(), x.detach().floor()
    for down in (0, 1):
        for right in (0, 1):
            row, column = (top + down).long(), (left + right).long()
            here = (row >= 0) & (row < height) & (column >= 0) & (column < width) & inside
            weight = (y - top if down else 1 - (y - top)) * (x - left if right else 1 - (x - left))
            total = total + image[:, row.clamp(0, height - 1), column.clamp(0, width - 1)] * (weight * here)
    return total


def roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Tensor:
    """Means over samples of each box's cells. Shapes: [b, c, h, w], [n, 5] -> [n, c, height, width]."""
    return _averaged(x, rois, scale, height, width, ratio, aligned, True)


def _averaged(
    x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool, guarded: bool
) -> Tensor:
    """guarded: a cell without samples is 0, not 0 / 0."""
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
            found.append(x.new_zeros((x.shape[1], height, width)) / (1 if guarded else x.new_tensor(rows * columns)))
            continue
        y = top + (torch.arange(height * rows, dtype=x.dtype) + 0.5) * (down / height / rows)
        z = left + (torch.arange(width * columns, dtype=x.dtype) + 0.5) * (across / width / columns)
        points = _bilinear(x[int(roi[0])], y.repeat_interleave(len(z)), z.repeat(len(y)), True)
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


def _pair(x: Tensor, rois: Tensor, *shape: Any) -> tuple[Tensor, Tensor]:
    full = (rois.shape[0], *shape)
    return x.new_empty(full), x.new_empty(full, dtype=torch.int32)


def _fake_nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    return boxes.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int64)


def _away(x: float) -> int:
    """To the nearest integer, ties away from zero."""
    return floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def _spans(first: float, last: float, bins: int, limit: int) -> list[tuple[int, int]]:
    """The pixels of each bin along an axis: from first, `last - first` long but 1 at least, cut to [0, limit)."""
    start = int(first)
    each = max(int(last) - start, 1) / bins

    def cut(v: int) -> int:
        return min(max(v + start, 0), limit)

    return [(cut(floor(b * each)), cut(ceil((b + 1) * each))) for b in range(bins)]


def roi_pool(x: Tensor, rois: Tensor, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Maxima of each box's cells, and the pixels that they are. Shapes: [b, c, h, w], [n, 5] -> 2 x [n, c, height, width]."""
    out = x.new_zeros((rois.shape[0], x.shape[1], height, width))
    chosen = torch.full(out.shape, -1, dtype=torch.int32)
    for number, roi in enumerate(rois):
        left, top, right, bottom = (_away(float(v)) for v in roi[1:] * scale)
        rows, columns = _spans(top, bottom + 1, height, x.shape[2]), _spans(left, right + 1, width, x.shape[3])
        for i, (above, below) in enumerate(rows):
            for j, (first, last) in enumerate(columns):
                cell = x[int(roi[0]), :, above:below, first:last]
                if not cell.numel():
                    continue
                best, index = cell.flatten(1).max(1)
                out[number, :, i, j] = best
                across = last - first
                chosen[number, :, i, j] = ((above + index // across) * x.shape[3] + first + index % across).int()
    return out, chosen


def roi_pool_backward(
    grad: Tensor, rois: Tensor, chosen: Tensor, scale: float, height: int, width: int, *sizes: int
) -> Tensor:
    made = grad.new_zeros(sizes).flatten(2)
    for number, roi in enumerate(rois):
        there = chosen[number].flatten(1).long()
        made[int(roi[0])].scatter_add_(1, there.clamp(min=0), grad[number].flatten(1) * (there >= 0))
    return made.view(sizes)


def _mapping(rois: Tensor, channels: int, height: int, width: int) -> Tensor:
    """The channel that each element of a position-sensitive result is read from."""
    of = torch.arange(channels * height * width, dtype=torch.int32).view(channels, height, width)
    return of.expand(rois.shape[0], -1, -1, -1).contiguous()


def ps_roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int) -> tuple[Tensor, Tensor]:
    """Means over samples, each cell from channels of its own. Shapes: [b, c, h, w], [n, 5] -> 2 x [n, c / bins, ..]."""
    channels = x.shape[1] // (height * width)
    mapping = _mapping(rois, channels, height, width)
    every = _averaged(x, rois, scale, height, width, ratio, True, False)
    return every.gather(1, mapping.long()), mapping


def ps_roi_align_backward(grad: Tensor, rois: Tensor, mapping: Tensor, *rest: Any) -> Tensor:
    return _pulled(lambda x: ps_roi_align(x, rois, *rest[:-4])[0], [grad.new_zeros(rest[-4:])], grad)[0]


def ps_roi_pool(x: Tensor, rois: Tensor, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Means of each cell's pixels, from channels of its own."""
    channels = x.shape[1] // (height * width)
    mapping = _mapping(rois, channels, height, width)
    made = []
    for roi in rois:
        left, top, right, bottom = (_away(float(v)) for v in roi[1:] * scale)
        rows, columns = _spans(top, bottom, height, x.shape[2] - 1), _spans(left, right, width, x.shape[3] - 1)
        for c in mapping[0].flatten().tolist() if len(mapping) else []:
            (above, below), (first, last) = rows[c // width % height], columns[c % width]
            cell = x[int(roi[0]), c, above:below, first:last]
            made.append(cell.mean() if cell.numel() else x.new_zeros(()))
    return torch.stack(made).view(mapping.shape) if made else x.new_zeros(mapping.shape), mapping


def ps_roi_pool_backward(grad: Tensor, rois: Tensor, mapping: Tensor, *rest: Any) -> Tensor:
    return _pulled(lambda x: ps_roi_pool(x, rois, *rest[:-4])[0], [grad.new_zeros(rest[-4:])], grad)[0]


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
                values = _bilinear(part, y.flatten(), z.flatten(), False).view(share, rows, columns)
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
        made = function(*given)
        nothing: tuple[Any, ...] = (None,) * len(given)  # no boxes, or none with a sample
        found = torch.autograd.grad(made, given, grad, allow_unused=True) if made.requires_grad else nothing
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


def _keep_pair(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, rois, *numbers = inputs
    ctx.save_for_backward(rois, output[1])
    ctx.numbers, ctx.sizes = tuple(numbers), x.shape
    ctx.mark_non_differentiable(output[1])


def _back_pair(name: str, ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    backward = getattr(torch.ops.torchvision, f"_{name}_backward")
    return (backward(grad, *ctx.saved_tensors, *ctx.numbers, *ctx.sizes), None, *(None,) * len(ctx.numbers))
