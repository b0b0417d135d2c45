"""Draws programs whose kernels compute addresses: convolutions, pooling, resampling, gathers, trees, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import burn
from burn import ops
from burn.tensors import Tensor

SIZES = (0, 1, 1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 19, 23, 31)
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 32, 33)


@dataclass(frozen=True)
class Drawn:
    """A function of tensors, its arguments, and names for those sizes that the program leaves open."""

    text: str
    function: Callable[..., Any]
    arrays: list[np.ndarray]
    dynamic: Mapping[int, Mapping[int, str]] = field(default_factory=dict)


class Draw:
    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def integer(self, low: int, high: int) -> int:
        """One of low to high - 1."""
        return int(self.random.integers(low, high))

    def one(self, values: Sequence[Any]) -> Any:
        return values[self.integer(0, len(values))]

    def chance(self, part: float) -> bool:
        return bool(self.random.random() < part)

    def array(self, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        if dtype in ("int8", "uint8"):
            return self.random.integers(0 if dtype == "uint8" else -100, 100, shape).astype(dtype)
        return self.random.standard_normal(shape).astype(getattr(ml_dtypes, dtype, dtype))


@dataclass(frozen=True)
class Window:
    """Extents, strides, dilations and padding along 1 to 3 axes of these sizes, which fit at least one window."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @staticmethod
    def of(draw: Draw, rank: int) -> Window:
        sizes, kernel, strides, dilations, low, high = [], [], [], [], [], []
        most = {1: 40, 2: 20, 3: 8}[rank]
        alike = draw.one((0, 1, 3, 3, 5, 7))
        for _ in range(rank):
            size = min(draw.one(SIZES), most)
            extent = alike or draw.one((1, 2, 3, 4, 5))
            stride, dilation = draw.one((1, 1, 1, 2, 3)), draw.one((1, 1, 1, 2, 3, 12))
            reach = (extent - 1) * dilation + 1
            before = draw.one((0, reach // 2, draw.integer(0, reach + 1)))
            after = draw.one((0, reach // 2, draw.integer(0, reach + 1)))
            after += max(0, reach - size - before - after)
            for row, value in zip(
                (sizes, kernel, strides, dilations, low, high),
                (size, extent, stride, dilation, before, after),
                strict=True,
            ):
                row.append(value)
        return Window(*map(tuple, (sizes, kernel, strides, dilations, low, high)))

    @property
    def options(self) -> dict[str, Any]:
        return {"strides": self.strides, "dilations": self.dilations, "low": self.low, "high": self.high}


def _channels(draw: Draw) -> tuple[int, int, int]:
    """Groups, and the input and output channels of each."""
    kind = draw.one(("whole", "grouped", "grouped", "depthwise"))
    if kind == "whole":
        return 1, draw.one((0, *CHANNELS)), draw.one(CHANNELS)
    if kind == "depthwise":
        return draw.one(CHANNELS), 1, draw.one((1, 1, 2))
    return draw.one((2, 3, 5, 8, 13)), draw.integer(1, 9), draw.integer(1, 9)


def convolution(draw: Draw, gradients: bool = False) -> Drawn:
    rank = draw.one((1, 2, 2, 2, 3))
    window, (groups, inputs, outputs) = Window.of(draw, rank), _channels(draw)
    batch = draw.one((0, 1, 1, 2, 3))
    layout = draw.one(("first", "last"))
    dtype = "float32" if gradients else draw.one(("float32", "float32", "float32", "float64", "float16", "bfloat16"))
    shape, filters = (
        (batch, groups * inputs, *window.sizes),
        (groups * outputs, inputs, *window.kernel),
    )
    if layout == "last":
        shape, filters = (batch, *window.sizes, groups * inputs), (*window.kernel, inputs, groups * outputs)
    x, weight = draw.array(shape, dtype), draw.array(filters, dtype)
    relu = draw.chance(0.5)
    constant = not gradients and draw.chance(0.6)

    def forward(x: Tensor, weight: Tensor) -> Tensor:
        y = ops.conv(x, weight, groups=groups, layout=layout, **window.options)
        return ops.max(y, ops.mul(y, 0.1)) if relu else y

    text = f"{dtype} {window} batch {batch}, {groups} groups of {inputs} to {outputs}, {layout}, constant {constant}"
    if gradients:
        if layout == "last":  # in memory alone: layouts are chosen after differentiation
            weight = weight.transpose(rank + 1, rank, *range(rank))
            inner, layout = (0, rank + 1, *range(1, rank + 1)), "first"
            return Drawn(
                text,
                _backward(lambda x, weight: forward(x.permute(*inner), weight)),
                [x, weight],
                _spatial(draw, x, "last"),
            )
        return Drawn(text, _backward(forward), [x, weight], _spatial(draw, x))
    if constant:
        return Drawn(text, lambda x: forward(x, burn.tensor(weight)), [x], _spatial(draw, x, layout))
    return Drawn(text, forward, [x, weight], _spatial(draw, x, layout))


def _spatial(draw: Draw, x: np.ndarray, layout: str = "first") -> dict[int, dict[int, str]]:
    """Names for the batch and the spatial sizes of the first argument, or none."""
    if not draw.chance(0.4):
        return {}
    channels = 1 if layout == "first" else x.ndim - 1
    return {0: {axis: f"d{axis}" for axis in range(x.ndim) if axis != channels}}


def _backward(forward: Callable[..., Tensor]) -> Callable[..., Any]:
    """The gradients of the sum of the result's squares."""

    def loss(*arguments: Tensor) -> Tensor:
        y = forward(*arguments)
        return (y * y).sum()

    def function(*arguments: Tensor) -> Any:
        return tuple(burn.grad(loss, tuple(range(len(arguments))))(*arguments))

    return function


def transposed(draw: Draw) -> Drawn:
    rank = draw.one((1, 2, 2, 3))
    groups, inputs, outputs = _channels(draw)
    sizes = tuple(min(draw.one(SIZES), 9 if rank > 1 else 31) or 1 for _ in range(rank))
    kernel, strides = (tuple(draw.integer(1, 5) for _ in range(rank)) for _ in range(2))
    dilations = tuple(draw.one((1, 1, 2, 3)) for _ in range(rank))
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    low, high = (tuple(draw.integer(0, r // 2 + 1) for r in reach) for _ in range(2))
    extra = tuple(draw.integer(0, max(s, d)) for s, d in zip(strides, dilations, strict=True))
    x = draw.array((draw.one((0, 1, 2)), groups * inputs, *sizes))
    weight = draw.array((groups * inputs, outputs, *kernel))
    options: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "low": low,
        "high": high,
        "extra": extra,
        "groups": groups,
    }

    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return ops.conv_transpose(x, weight, **options)

    text = f"x {x.shape} weight {weight.shape} {options}"
    if draw.chance(0.3):
        return Drawn(text, _backward(forward), [x, weight])
    if draw.chance(0.5):
        return Drawn(text, lambda x: forward(x, burn.tensor(weight)), [x], _spatial(draw, x))
    return Drawn(text, forward, [x, weight], _spatial(draw, x))


def pooling(draw: Draw) -> Drawn:
    rank = draw.one((1, 2, 2, 2, 3))
    window, layout, kind = Window.of(draw, rank), draw.one(("first", "last")), draw.one(("max", "sum", "min", "prod"))
    channels, batch = draw.one(CHANNELS), draw.one((0, 1, 2))
    x = draw.array((batch, channels, *window.sizes) if layout == "first" else (batch, *window.sizes, channels))

    def whole(row: tuple[int, ...], other: int) -> tuple[int, ...]:
        return (other, other, *row) if layout == "first" else (other, *row, other)

    options: dict[str, Any] = {"window": whole(window.kernel, 1)}
    options |= {name: whole(row, 0 if name in ("low", "high") else 1) for name, row in window.options.items()}

    def forward(x: Tensor) -> Tensor:
        return ops.window_reduce(x, kind=kind, **options)

    text = f"{kind} of {x.shape} {options}"
    if kind in ("max", "sum") and draw.chance(0.4):
        return Drawn(f"gradient of {text}", _backward(forward), [x])
    return Drawn(text, forward, [x], _spatial(draw, x, layout))


def resampling(draw: Draw) -> Drawn:
    rank = draw.one((1, 2, 2))
    x = draw.array((draw.one((0, 1, 2)), draw.one(CHANNELS), *(draw.integer(1, 20) for _ in range(rank))))
    options: dict[str, Any] = {
        "axes": tuple(range(2, rank + 2)),
        "sizes": tuple(draw.integer(1, 30) for _ in range(rank)),
        "mode": draw.one(("nearest", "linear", "cubic")),
        "transformation": draw.one(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")),
        "rounding": draw.one(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")),
        "antialias": draw.chance(0.2),
    }

    def forward(x: Tensor) -> Tensor:
        return ops.resize(x, None, None, **options)

    text = f"{x.shape} {options}"
    if draw.chance(0.3):
        return Drawn(text, _backward(forward), [x])
    return Drawn(text, forward, [x], _spatial(draw, x))


def gather_of_padding(draw: Draw) -> Drawn:
    """As many columns as a padded table has: one kernel computes both."""
    x = draw.array((draw.integer(1, 4), draw.integer(1, 30)))
    low, high = ((draw.integer(0, 3), draw.integer(0, 5)) for _ in range(2))
    width = x.shape[1] + low[1] + high[1]
    index = draw.random.integers(-width, width, width)

    def forward(x: Tensor, index: Tensor) -> Tensor:
        return ops.gather(ops.pad(x, 0.0, low=low, high=high, interior=(0, 0)), index, axis=1) + 1.0

    return Drawn(f"{width} columns of {x.shape} between {low} and {high}", forward, [x, index])


def gather(draw: Draw) -> Drawn:
    """Indices computed from data, in expressions whose bounds the compiler may know, and the outermost values among them."""
    if draw.chance(0.3):
        return gather_of_padding(draw)
    rows, width = draw.one((1, 2, 4, 7, 8, 16, 31, 64)), draw.one((1, 1, 3, 8, 16, 17, 40))
    table = draw.array((rows, width) if draw.chance(0.7) else (rows,))
    dtype = draw.one(("int64", "int32", "int8", "uint8"))
    limits = np.iinfo(dtype)
    drawn = draw.random.integers(
        limits.min, limits.max, draw.one(((), (1,), (5,), (3, 17), (0,), (70,))), endpoint=True
    )
    index = np.asarray(drawn, dtype)
    if index.size > 1:
        index.flat[0], index.flat[-1] = limits.min, limits.max
    kind = draw.one(("and", "mod", "clamp", "shift", "min", "in range"))

    def bounded(index: Tensor) -> Tensor:
        wide = ops.cast(index, dtype="int64")
        if kind == "and":
            return ops.and_(wide, (1 << (rows.bit_length() - 1)) - 1)
        if kind == "mod":
            return ops.mod(wide, rows)
        if kind == "clamp":
            return ops.min(ops.max(wide, 0), rows - 1)
        if kind == "shift":
            return ops.mod(ops.shift_right(ops.and_(wide, 255), 3), rows)
        if kind == "min":
            return ops.min(ops.and_(wide, 1023), rows - 1)
        return wide

    if kind == "in range":
        index = draw.random.integers(-rows, rows, index.shape).astype("int64")
    text = f"{table.shape} at {dtype}{index.shape} {kind}"
    if table.ndim == 1 and index.ndim == 1 and draw.chance(0.5):
        return Drawn(f"elements of {text}", lambda t, i: ops.gather_elements(t, bounded(i), axis=0), [table, index])
    if draw.chance(0.3):
        forward = lambda t, i: ops.gather(t, bounded(i), axis=0)  # noqa: E731
        return Drawn(
            f"gradient of {text}", lambda t, i: burn.grad(lambda t: (forward(t, i) ** 2).sum())(t), [table, index]
        )
    return Drawn(text, lambda t, i: ops.gather(t, bounded(i), axis=0), [table, index])


def trees(draw: Draw) -> Drawn:
    """Rows that walk a table of nodes, as forests are imported."""
    bits, features, count = draw.integer(1, 7), draw.one((1, 2, 5, 17)), draw.one((1, 3, 16, 17))
    size = 1 << bits
    children = draw.random.integers(0, size, size)
    table = (children | draw.random.integers(0, features, size) << bits).astype("int32")
    split, x = draw.array((size,)), draw.array((draw.one((0, 1, 2, 5, 16, 33)), features))

    def walk(x: Tensor) -> Tensor:
        at = ops.cast(burn.zeros((x.shape[0], count)), dtype="int32") + burn.tensor(
            np.arange(count, dtype="int32") % size
        )
        for _ in range(4):
            entry = ops.gather(burn.tensor(table), at)
            feature = ops.min(ops.shift_right(entry, bits), features - 1)
            value = ops.gather_elements(x, feature, axis=1)
            taken = ops.le(value, ops.gather(burn.tensor(split), at))
            at = ops.and_(ops.add(ops.and_(entry, size - 1), ops.cast(taken, dtype="int32")), size - 1)
        return ops.gather(burn.tensor(split), at)

    return Drawn(f"{x.shape}, {count} trees of {size} nodes", walk, [x], {0: {0: "n"}} if draw.chance(0.5) else {})


def attention(draw: Draw) -> Drawn:
    """Windows of a picture that attend within themselves, and plain attention with a mask."""
    batch, heads, depth = draw.one((0, 1, 2)), draw.one((1, 2, 3)), draw.one((1, 4, 8, 17, 32))
    if draw.chance(0.5):
        size, windows = draw.one((1, 2, 4, 7)), draw.one((1, 2, 3))
        side = size * windows
        qkv = [draw.array((batch, side, side, heads * depth)) for _ in range(3)]
        bias = draw.array((heads, size * size, size * size))

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            parts = [
                x.reshape(batch, windows, size, windows, size, heads, depth)
                .permute(0, 1, 3, 5, 2, 4, 6)
                .reshape(-1 if batch else 0, heads, size * size, depth)
                for x in (q, k, v)
            ]
            return ops.attention(parts[0], parts[1], parts[2], burn.tensor(bias), None, scale=depth**-0.5)

        return Drawn(f"{windows} windows of {size}, {batch}x{heads}x{depth}", attend, qkv)
    rows, keys, values = draw.one((1, 2, 5, 17, 33)), draw.one((1, 3, 16, 17, 50)), draw.one((1, 8, 33))
    shapes = (batch, heads, rows, depth), (batch, heads, keys, depth), (batch, heads, keys, values)
    arrays = [*map(draw.array, shapes), draw.array((rows, keys))]

    def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return ops.attention(q, k, v, mask, None, scale=depth**-0.5)

    backward = prod(shapes[0]) > 0 and draw.chance(0.4)
    return Drawn(f"{shapes}, backward {backward}", _backward(plain) if backward else plain, arrays)


KINDS: dict[str, Callable[[Draw], Drawn]] = {
    "convolution": convolution,
    "gradients": lambda draw: convolution(draw, gradients=True),
    "transposed": transposed,
    "pooling": pooling,
    "convolution again": convolution,
    "resampling": resampling,
    "gather": gather,
    "trees": trees,
    "attention": attention,
}
