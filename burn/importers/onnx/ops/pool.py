"""Pooling: sliding windows and whole images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce as fold
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import along, convert, dim_value, limit, mean, number, number_like, reshape, transpose, wide
from burn.dialect.dims import Dim, ceildiv, dim_max, dim_min, product
from burn.dialect.mlir import ir
from burn.dialect.reduction import window_size
from burn.dialect.types import FLOATS, type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.windows import padding

WIDEST = 2**24
"""A window of more elements is refused: a run would take for ever, over padding for the most part."""


@dataclass(frozen=True)
class Windows:
    """A node's windows over the spatial axes. `high` reaches as far as the last window; `pad_high` is what was
    given."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    pad_high: tuple[Dim, ...]
    high: tuple[Dim, ...]
    dims: tuple[Dim, ...]

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """How many windows there are along each axis."""
        rows = zip(self.dims, self.kernel, self.strides, self.dilations, self.low, self.high, strict=True)
        return tuple(window_size(*row) for row in rows)


def windows(node: Node, dims: tuple[Dim, ...] | None = None) -> Windows:
    """dims: the spatial sizes, where the operand does not have its channels first."""
    dims = node.type(0).shape[2:] if dims is None else dims
    n, kernel = len(dims), node.ints("kernel_shape")
    strides = node.ints("strides", None) or (1,) * n
    dilations = node.ints("dilations", None) or (1,) * n
    if n < 1 or not len(kernel) == len(strides) == len(dilations) == n:
        text = f"a window of {list(kernel)} with strides {list(strides)} and dilations {list(dilations)}"
        node.fail(f"{text} does not fit {node.type(0)}")
    if min(*kernel, *strides, *dilations) < 1:
        node.fail("sizes, strides and dilations of a window must be at least 1", "kernel_shape")
    if math.prod(kernel) > WIDEST:
        node.fail(f"a window of {math.prod(kernel)} elements is larger than the {WIDEST} supported", "kernel_shape")
    low, pad_high = padding(node, dims, kernel, strides, dilations)
    high = list(pad_high)
    if node.int("ceil_mode", 0):
        for i, (d, k, s, t) in enumerate(zip(dims, kernel, strides, dilations, strict=True)):
            reach = (k - 1) * t + 1
            count = ceildiv(low[i] + d + high[i] - reach, s) + 1
            count = dim_min(count, ceildiv(low[i] + d, s))  # a window that would begin in the padding is left out
            high[i] = dim_max(0, (count - 1) * s + reach - low[i] - d)
    return Windows(kernel, strides, dilations, tuple(low), tuple(pad_high), tuple(high), dims)


def slide(x: ir.Value, kind: str, w: Windows) -> ir.Value:
    return ops.window_reduce(
        x,
        kind=kind,
        window=(1, 1, *w.kernel),
        strides=(1, 1, *w.strides),
        dilations=(1, 1, *w.dilations),
        low=(0, 0, *w.low),
        high=(0, 0, *w.high),
    )


@onnx_op("MaxPool")
def max_pool(node: Node) -> Any:
    x, w = node.required(0), windows(node)
    if not node.needs_output(1):
        node.no_effect("storage_order", because="it numbers the elements for the second output")
        return slide(x, "max", w)
    return _max_and_index(node, x, w)


def _max_and_index(node: Node, x: ir.Value, w: Windows) -> list[ir.Value]:
    """Every window written out along a last axis; its first maximum, and where in the whole of x that lies."""
    batch, channels, *_ = type_of(x).shape
    n, sizes = len(w.dims), w.sizes
    lowest = limit(type_of(x).dtype, highest=False)
    cells = ops.pad(x, lowest, low=(0, 0, *w.low), high=(0, 0, *w.high)) if any((*w.low, *w.high)) else x
    for i in range(n):
        starts = ops.mul(ops.iota(shape=(sizes[i], 1), axis=0), number(w.strides[i], "int64"))
        steps = ops.mul(ops.iota(shape=(1, w.kernel[i]), axis=1), number(w.dilations[i], "int64"))
        cells = ops.gather(cells, ops.add(starts, steps), axis=2 + 2 * i)
    cells = transpose(cells, (0, 1, *(2 + 2 * i for i in range(n)), *(3 + 2 * i for i in range(n))))
    cells = reshape(cells, (batch, channels, *sizes, product(w.kernel)))
    best = ops.reduce(cells, kind="max", axes=(n + 2,))
    inside = ops.arg_reduce(cells, kind="max", axis=n + 2)
    flat: Any = number(0, "int64")
    order = range(n) if not node.int("storage_order", 0) else reversed(range(n))
    for i in order:
        after = product(w.kernel[i + 1 :])
        step = ops.mod(ops.div(inside, dim_value(after)), number(w.kernel[i], "int64"))
        window = ops.iota(shape=tuple(s if j == i else 1 for j, s in enumerate((*(1, 1), *sizes), -2)), axis=2 + i)
        begin = ops.sub(ops.mul(window, number(w.strides[i], "int64")), dim_value(w.low[i]))
        # Padding comes first among equals where the image itself has nothing but the lowest number: not before its first cell.
        spacing = number(w.dilations[i], "int64")
        before = ops.div(ops.sub(ops.sub(spacing, number(1, "int64")), ops.min(begin, number(0, "int64"))), spacing)
        coordinate = ops.add(begin, ops.mul(ops.max(step, before), spacing))
        flat = ops.add(ops.mul(flat, dim_value(w.dims[i])), coordinate)
    image = product(w.dims)
    base = ops.mul(ops.iota(shape=(batch * channels,), axis=0), dim_value(image))
    base = reshape(base, (batch, channels, *[1] * n))
    return [best, ops.add(base, flat)]


@onnx_op("AveragePool")
def average_pool(node: Node) -> ir.Value:
    return averaged(node, node.required(0))


def averaged(node: Node, x: ir.Value) -> ir.Value:
    """Padding counts when `count_include_pad` says so; what a last window reaches beyond the padding never does."""
    w, dtype = windows(node, type_of(x).shape[2:]), type_of(x).dtype
    total = slide(convert(x, wide(dtype)), "sum", w)
    include = bool(node.int("count_include_pad", 0))
    low, high = (w.low, w.pad_high) if include else ((0,) * len(w.dims),) * 2
    whole = low == w.low and high == w.high
    kind = type_of(total).dtype
    count = number(math.prod(w.kernel), kind) if whole else _counts(w, low, high, kind)
    return convert(ops.div(total, count), dtype)


def _counts(w: Windows, low: tuple[Dim, ...], high: tuple[Dim, ...], dtype: str) -> ir.Value:
    """How many elements each window holds, of the image with `low` and `high` more around it: a product over axes."""
    n = len(w.dims)
    factors = []
    for i in range(n):
        ones = ops.full(shape=(low[i] + w.dims[i] + high[i],), dtype=dtype, value=1.0)
        counted = ops.window_reduce(
            ones,
            kind="sum",
            window=(w.kernel[i],),
            strides=(w.strides[i],),
            dilations=(w.dilations[i],),
            low=(w.low[i] - low[i],),
            high=(dim_max(0, w.high[i] - high[i]),),
        )
        factors.append(along(counted, 2 + i, n + 2))
    return fold(ops.mul, factors)


@onnx_op("LpPool")
def lp_pool(node: Node) -> ir.Value:
    dtype, p = node.type(0).dtype, _order(node)
    powers = _power(convert(node.required(0), wide(dtype)), p)
    return convert(_root(slide(powers, "sum", windows(node)), p), dtype)


def _order(node: Node) -> float:
    p = node.float("p", 2.0) if node.opset < 2 else node.int("p", 2)
    if p < 1:
        node.fail(f"must be at least 1, not {p}", "p")
    return p


def _power(x: ir.Value, p: float) -> ir.Value:
    if p == 2:
        return ops.mul(x, x)
    return ops.abs(x) if p == 1 else ops.pow(ops.abs(x), number_like(p, x))


def _root(x: ir.Value, p: float) -> ir.Value:
    if p == 2:
        return ops.root(x)
    return x if p == 1 else ops.root(x, degree=float(p))


@onnx_op("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(node: Node) -> ir.Value:
    x, type_ = node.required(0), node.type(0)
    axes = tuple(range(2, type_.rank))
    if type_.dtype not in FLOATS or not axes:
        node.fail(f"takes images of floats, not {type_}")
    if node.op == "GlobalMaxPool":
        return ops.reduce(x, kind="max", axes=axes, keepdims=True)
    value = convert(x, wide(type_.dtype))
    if node.op == "GlobalAveragePool":
        return convert(mean(value, axes, keepdims=True), type_.dtype)
    p = _order(node)
    total = ops.reduce(_power(value, p), kind="sum", axes=axes, keepdims=True)
    return convert(_root(total, p), type_.dtype)
