"""Pools, means, resizing and picking: what takes elements together or apart, without parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burn.dialect.types import FLOATS, HALF_DTYPES
from burn.exporters.python.graph import Node, Value
from burn.exporters.python.layers.rule import Context, Layer, numbers, pads, rule, same_or_each
from burn.exporters.python.spell import is_size

MODES = {("nearest", "asymmetric", "floor"): "nearest", ("nearest", "half_pixel", "round_prefer_ceil"): "nearest-exact"}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@rule("resize")
def _upsample(node: Node, context: Context) -> Layer | None:
    """By whole factors, as they are mostly."""
    x, attrs = node.operands[0], node.attrs
    count = x.type.rank - 2
    factors = tuple(attrs["factors"])
    if any(o is not None for o in node.operands[1:]) or attrs["axes"] != tuple(range(2, x.type.rank)) or not factors:
        return None
    key = (attrs["mode"], attrs["transformation"], attrs["rounding"])
    mode = MODES.get(key) or (LINEAR.get(count) if key == ("linear", "half_pixel", "floor") else None)
    whole = all(
        f == int(f) and s == d * int(f) for f, s, d in zip(factors, attrs["sizes"], x.type.shape[2:], strict=True)
    )
    if mode is None or not whole or attrs["antialias"] or attrs["exclude_outside"]:
        return None
    factor = same_or_each(tuple(map(int, factors)))
    return Layer("nn.Upsample", [x], {}, {"scale_factor": factor, "mode": mode}, {"mode": "nearest"})


@rule("window_reduce")
def _pool(node: Node, context: Context) -> Layer | None:
    (x,), attrs = node.operands, node.attrs
    rank = x.type.rank
    sizes = [attrs[k] for k in ("window", "strides", "dilations", "low", "high")]
    outer = [s[:2] for s in sizes]
    if not 3 <= rank <= 5 or outer != [(1, 1), (1, 1), (1, 1), (0, 0), (0, 0)] or not numbers(*sizes):
        return None
    window, strides, dilations, low, high = (tuple(s[2:]) for s in sizes)
    arguments = {
        "kernel_size": same_or_each(window),
        "stride": None if strides == window else same_or_each(strides),
        "padding": pads(low, high),
        "dilation": same_or_each(dilations),
    }
    defaults = {"stride": None, "padding": 0, "dilation": 1}
    if attrs["kind"] == "max":
        return Layer(f"nn.MaxPool{rank - 2}d", [x], {}, arguments, defaults)
    divide = context.only_user(node.result)
    if attrs["kind"] != "sum" or divide is None or divide.op not in ("div", "mul") or divide.operands[0] != node.result:
        return None
    if x.type.dtype not in FLOATS:
        return None
    count = divide.operands[1].array
    if count is not None and divide.op == "mul":
        count = 1 / count
    if count is None and any((*low, *high)):
        if not _counts(divide.operands[1], x, sizes):
            return None
        arguments["count_include_pad"], defaults["count_include_pad"] = False, True
    elif count is None or np.shape(count) != () or float(count) != math.prod(window):
        return None
    return Layer(f"nn.AvgPool{rank - 2}d", [x], {}, arguments, defaults, last=divide)


def _counts(value: Value, x: Value, sizes: list[tuple[int, ...]]) -> bool:
    """True if a value counts the elements of x itself in each window: one factor an axis, multiplied."""
    factors: list[Node] = []
    while value.node.op == "mul":
        factors.append(value.node.operands[1].node)
        value = value.node.operands[0]
    factors.append(value.node)
    if len(factors) != x.type.rank - 2:
        return False
    for axis, view in enumerate(reversed(factors), 2):
        shape = tuple(-1 if i == axis else 1 for i in range(x.type.rank))
        if view.op != "reshape" or tuple(-1 if i == axis else d for i, d in enumerate(view.types[0].shape)) != shape:
            return False
        slide = view.operands[0].node
        ones = slide.operands[0].node if slide.op == "window_reduce" else slide
        given = tuple(slide.attrs.get(k) for k in ("window", "strides", "dilations", "low", "high"))
        if ones.op != "full" or ones.attrs["value"] != 1.0 or ones.attrs["shape"] != (x.type.shape[axis],):
            return False
        if slide.attrs["kind"] != "sum" or given != tuple((s[axis],) for s in sizes):
            return False
    return True


@rule("reduce")
def _mean(node: Node, context: Context) -> Layer | None:
    """A sum, divided by how many elements it takes in, or multiplied by the inverse."""
    last = context.only_user(node.result)
    if node.attrs["kind"] != "sum" or last is None or last.op not in ("div", "mul") or last.operands[0] != node.result:
        return None
    x, count = node.operands[0], last.operands[1]
    if x.type.dtype not in FLOATS or x.type.dtype in HALF_DTYPES or count.type.shape != ():
        return None  # the method adds up 16-bit floats in float32
    total: Any = 1
    for axis in node.attrs["axes"]:
        total = total * x.type.shape[axis]
    if count.array is not None:
        number = float(count.array)
        same = isinstance(total, int) and number == (total if last.op == "div" else 1 / max(total, 1))
    else:
        size = count.node.operands[0] if count.node.op == "cast" else count
        same = last.op == "div" and is_size(size) and size.node.attrs["dims"] == (total,)
    arguments = {"axes": node.attrs["axes"], "keepdims": node.attrs["keepdims"]}
    return Layer("mean", [x], {}, arguments, last=last) if same else None


@rule("reshape")
def _pick(node: Node, context: Context) -> Layer | None:
    """x[:, 0]: a slice of one, without its axis."""
    cut = node.operands[0].node
    if cut.op != "slice" or context.only_user(cut.result) is not node or set(cut.attrs["steps"]) != {1}:
        return None
    x, shape, sizes, starts = cut.operands[0], cut.operands[0].type.shape, cut.attrs["sizes"], cut.attrs["starts"]
    axes = [i for i, (have, size) in enumerate(zip(shape, sizes, strict=True)) if have != size]
    if len(axes) != 1 or sizes[axes[0]] != 1 or (*shape[: axes[0]], *shape[axes[0] + 1 :]) != node.types[0].shape:
        return None
    axis, start = axes[0], starts[axes[0]]
    index = start if isinstance(start, int) else start - shape[axis]
    if not isinstance(index, int):
        return None
    return Layer("pick", [x], {}, {"axis": axis, "index": index}, absorbed=[cut])
