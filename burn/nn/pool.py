"""Pooling with sliding windows, and adaptive pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, ClassVar

from burn import ops
from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.compose import along
from burn.dialect.dims import Dim, ceildiv, dim_max, dim_min
from burn.nn.checks import Pads, PerAxis, Positive
from burn.nn.spatial import Spatial
from burn.tensors import Tensor


class _Pool(Spatial):
    """A sliding window over the last axes. Shapes: x [N, C, d..] -> [N, C, e..].

    e = (d + padding - (k - 1) * dilation - 1) // stride + 1. `ceil_mode` rounds up, if the last window begins inside of x or the
    padding before it."""

    KIND: ClassVar[str]
    count_include_pad: bool = True

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Pads = 0,
        dilation: PerAxis = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel = self._each(kernel_size)
        self.stride = self.kernel if stride is None else self._each(stride)
        self.padding, self.dilation = self._pads(padding), self._each(dilation)
        self.ceil_mode = ceil_mode

    def _sizes(self, x: Tensor) -> list[tuple[Dim, ...]]:
        """For each axis: window, stride, dilation, padding before and after, and the part of the latter that is for ceil_mode."""
        self._check(x)
        rows: list[tuple[Dim, ...]] = []
        for d, k, s, t, a, b in zip(x.shape[2:], self.kernel, self.stride, self.dilation, *self.padding, strict=True):
            extra: Dim = 0
            if self.ceil_mode:
                reach = (k - 1) * t + 1
                count = dim_min(ceildiv(d + a + b - reach, s) + 1, ceildiv(d + a, s))
                extra = dim_max((count - 1) * s + reach - d - a - b, 0)
            rows.append((k, s, t, a, b + extra, extra))
        return rows

    def _slide(self, x: Tensor, kind: str = "") -> Tensor:
        names = ("window", "strides", "dilations", "low", "high")
        columns = list(zip(*self._sizes(x), strict=True))
        outer = {"window": 1, "strides": 1, "dilations": 1, "low": 0, "high": 0}
        sizes: dict[str, Any] = {n: (outer[n], outer[n], *c) for n, c in zip(names, columns[:5], strict=True)}
        return Tensor(build.window_reduce(x.value, kind=kind or self.KIND, **sizes))

    def extra_repr(self) -> str:
        return f"{self.kernel}, stride={self.stride}"


class _MaxPool(_Pool):
    """The largest element of each window; padding counts as minus infinity."""

    KIND = "max"

    def forward(self, x: Tensor) -> Tensor:
        return self._slide(x)


class _AvgPool(_Pool):
    """The mean of each window; padding counts as zeros, or not at all."""

    KIND = "sum"

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Pads = 0,
        dilation: PerAxis = 1,
        count_include_pad: bool = True,
        ceil_mode: bool = False,
        divisor_override: Positive | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, dilation, ceil_mode)
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, x: Tensor) -> Tensor:
        total = self._slide(x)
        if self.divisor_override is not None:
            return total / float(self.divisor_override)
        return total / (self._counts(x) if self._varies(x) else float(prod(self.kernel)))

    def _varies(self, x: Tensor) -> bool:
        """True if windows differ in the number of elements that count."""
        padded = any((*self.padding[0], *self.padding[1]))
        return any(row[5] != 0 for row in self._sizes(x)) or (padded and not self.count_include_pad)

    def _counts(self, x: Tensor) -> Tensor:
        """The number of elements of x (optionally with the padding) in each window: the product of the axes' counts."""
        factors = []
        names = ("window", "strides", "dilations", "low", "high")
        for axis, (k, s, t, a, b, extra) in enumerate(self._sizes(x), 2):
            size = x.shape[axis]
            if self.count_include_pad:
                size, a, b = size + a + b - extra, 0, extra
            ones = build.full(shape=(size,), dtype=x.dtype, value=1.0)
            sizes: dict[str, Any] = {n: (p,) for n, p in zip(names, (k, s, t, a, b), strict=True)}
            factors.append(Tensor(along(build.window_reduce(ones, kind="sum", **sizes), axis, x.ndim)))
        return reduce(lambda a, b: a * b, factors)


class _LPPool(_AvgPool):
    """The p-norm of each window: (sum of x^p)^(1/p), or the largest |x| for infinite p.

    Shapes: x [N, C, d..] -> [N, C, e..]."""

    def __init__(
        self, norm_type: float, kernel_size: PerAxis, stride: PerAxis | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride, ceil_mode=ceil_mode)
        self.p = float(norm_type)

    def forward(self, x: Tensor) -> Tensor:
        if self.p == float("inf"):
            return self._slide(abs(x), "max")
        # as in torch: a window cut off by ceil_mode is scaled to a whole one
        return ops.root(super().forward(x**self.p) * float(prod(self.kernel)), degree=self.p)


class _Adaptive(Spatial):
    """Divides each of the last axes into a given number of regions. Region i of o on an axis of d elements is
    `floor(i d / o)` to `ceil((i + 1) d / o)`. None keeps an axis. Shapes: x [N, C, d..] -> [N, C, o..]."""

    KIND: ClassVar[str]

    def __init__(self, output_size: Positive | Sequence[Positive | None] | None) -> None:
        self.output_size = self._each(output_size)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        for axis, size in enumerate(self.output_size, 2):
            if size is not None and size != x.type.shape[axis]:
                x = adaptive(x, axis, size, self.KIND)
        return x

    def extra_repr(self) -> str:
        return str(self.output_size)


def adaptive_mean(x: Tensor, axis: int, count: int) -> Tensor:
    return adaptive(x, axis, count, "mean")


def adaptive(x: Tensor, axis: int, count: int, kind: str) -> Tensor:
    """The mean or maximum of each of `count` regions of an axis: see `AdaptiveAvgPool1d`."""
    size = x.shape[axis]
    if count == 1:
        return ops.reduce(x, kind="max", axes=(axis,), keepdims=True) if kind == "max" else x.mean(axis, keepdims=True)
    longest = ceildiv(size, count) + 1
    region = Tensor(build.iota(shape=(count, 1), axis=0))
    length = Tensor(compose.dim_value(size))
    start, end = region * length // count, (region * length + length + (count - 1)) // count
    index = start + Tensor(build.iota(shape=(1, longest), axis=1))
    inside = (index < end).reshape(*(1,) * axis, count, longest, *(1,) * (x.ndim - axis - 1))
    taken = Tensor(build.gather(x.value, ops.min(index, length - 1).value, axis=axis))
    if kind == "max":
        lowest = Tensor(compose.limit(x.dtype, highest=False))
        return ops.select(inside, taken, lowest).max(axis + 1)
    lengths = (end - start).astype(x.dtype).reshape(*(1,) * axis, count, *(1,) * (x.ndim - axis - 1))
    return ops.select(inside, taken, 0.0).sum(axis + 1) / lengths


def _family(name: str, base: type[Spatial], kind: str = "") -> list[Any]:
    doc = f"{base.__doc__}\n\n{_Pool.__doc__}" if base in (_MaxPool, _AvgPool) else base.__doc__
    own: dict[str, Any] = {"__doc__": doc, "__module__": __name__} | ({"KIND": kind} if kind else {})
    return [type(f"{name}{n}d", (base,), own | {"AXES": n}) for n in (1, 2, 3)]


MaxPool1d, MaxPool2d, MaxPool3d = _family("MaxPool", _MaxPool)
AvgPool1d, AvgPool2d, AvgPool3d = _family("AvgPool", _AvgPool)
LPPool1d, LPPool2d, LPPool3d = _family("LPPool", _LPPool)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = _family("AdaptiveAvgPool", _Adaptive, "mean")
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _family("AdaptiveMaxPool", _Adaptive, "max")
