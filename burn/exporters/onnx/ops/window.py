"""Reductions over sliding windows: pools where ONNX has the kind, else the windows gathered and reduced, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from burn.dialect.dims import Dim, product
from burn.exporters.onnx.emitters import Site, emits
from burn.exporters.onnx.kernels import computed_in
from burn.exporters.onnx.ops.reduction import identity, reduced

MAX_POOLED = 3  # axes that a pool slides along


def slides(attrs: dict) -> list[int]:
    """The axes along which something happens."""
    columns = zip(*(attrs[k] for k in ("window", "strides", "low", "high")), strict=True)
    return [
        i
        for i, (window, stride, low, high) in enumerate(columns)
        if window != 1 or stride != 1 or low != 0 or high != 0
    ]


@emits("window_reduce")
def window_reduce(site: Site) -> str:
    axes = slides(site.attrs)
    if not axes:
        return site.node("Identity", site.inputs[0])
    return pooled(site) if is_pool(site.attrs, site.types[0].dtype) else _gathered(site, axes)


def is_pool(attrs: dict, dtype: str) -> bool:
    """True if an ONNX pool computes it: the maximum, or the sum of floats as count times the average."""
    axes = slides(attrs)
    if not 0 < len(axes) <= MAX_POOLED:
        return False
    if attrs["kind"] == "max":  # of padding alone a pool makes the lowest number, not minus infinity
        held = all(_holds_an_element(attrs, a) for a in axes)
        return held and computed_in("MaxPool", dtype)
    dense = all(attrs["dilations"][a] == 1 for a in axes)  # AveragePool has dilations from opset 19 on
    return attrs["kind"] == "sum" and dense and computed_in("AveragePool", dtype) and dtype == "float32"


def _holds_an_element(attrs: dict, axis: int) -> bool:
    """True if every window has an element outside of the padding; symbolic pads are assumed to satisfy this."""
    reach = (attrs["window"][axis] - 1) * attrs["dilations"][axis] + 1
    return all(p < reach for p in (attrs["low"][axis], attrs["high"][axis]) if isinstance(p, int))


def pooled(site: Site, average: bool = False) -> str:
    """The pool over the axes that slide, which come last meanwhile. average: not the sum but the mean."""
    attrs, type_ = site.attrs, site.types[0]
    axes = slides(attrs)
    pick = {k: [attrs[k][a] for a in axes] for k in ("window", "strides", "dilations", "low", "high")}
    x = site.inputs[0]
    shape: list[Dim] = list(type_.shape)
    if not _pads_fit(pick):
        x = _padded(site, x, attrs["low"], attrs["high"])
        shape = [a + d + b for a, d, b in zip(attrs["low"], shape, attrs["high"], strict=True)]
        pick["low"] = pick["high"] = [0] * len(axes)
    others = [i for i in range(type_.rank) if i not in axes]
    order = [*others, *axes]
    out = site.results[0].shape
    spatial = [shape[a] for a in axes]
    direct = order == list(range(type_.rank)) and len(others) == 2
    if not direct:
        x = site.transpose(x, order)
        x = site.reshape(x, [shape[i] for i in order], [product(shape[i] for i in others), 1, *spatial])
    pads = [*pick["low"], *pick["high"]]
    common = {
        "kernel_shape": pick["window"],
        "strides": pick["strides"],
        "pads": pads if any(pads) else None,
        "dilations": pick["dilations"] if set(pick["dilations"]) != {1} else None,
    }
    if attrs["kind"] == "max":
        x = site.node("MaxPool", x, **common)
    else:
        common.pop("dilations")
        x = site.node("AveragePool", x, count_include_pad=1 if any(pads) else None, **common)
        if not average:
            x = site.node("Mul", x, site.like(float(math.prod(pick["window"])), x))
    if direct:
        return x
    offsets = [out[a] for a in axes]
    x = site.reshape(x, [product(shape[i] for i in others), 1, *offsets], [*(out[i] for i in others), *offsets])
    return site.transpose(x, [order.index(i) for i in range(type_.rank)])


def _pads_fit(pick: dict[str, list]) -> bool:
    """True if the pads are numbers that a pool takes: every window must hold an element, or runtimes refuse the model."""
    for window, dilation, low, high in zip(pick["window"], pick["dilations"], pick["low"], pick["high"], strict=True):
        if not isinstance(low, int) or not isinstance(high, int):
            return False
        if (low or high) and (dilation != 1 or max(low, high) >= window):
            return False
    return True


def _padded(site: Site, x: str, low: Sequence[Dim], high: Sequence[Dim]) -> str:
    value = site.graph.literal(identity(site.attrs["kind"], site.dtype(x)))
    return site.node("Pad", x, site.vector((*low, *high)), value) if any((*low, *high)) else x


def _gathered(site: Site, axes: list[int]) -> str:
    """For each axis in turn: gathers windows as a new axis, and reduces it."""
    attrs, dtype = site.attrs, site.types[0].dtype
    x = _padded(site, site.inputs[0], attrs["low"], attrs["high"])
    for axis in axes:
        count = site.results[0].shape[axis]
        x = windows(site, x, axis, count, attrs["strides"][axis], attrs["window"][axis], attrs["dilations"][axis])
        x = reduced(site, x, attrs["kind"], [axis + 1], False, dtype)
    return x


def windows(site: Site, x: str, axis: int, count: Dim, stride: int, window: int, dilation: int) -> str:
    """[.., d, ..] as [.., count, window, ..]: for each position the elements that the window covers."""
    starts = site.node("Range", *[site.sizes.scalar(d) for d in (0, count * stride, stride)], shared=True)
    starts = site.node("Unsqueeze", starts, site.ints([1]))
    offsets = np.arange(window, dtype=np.int64) * dilation
    return site.node("Gather", x, site.node("Add", starts, site.graph.literal(offsets)), axis=axis)
