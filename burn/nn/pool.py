"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import ClassVar

from burn.dialect import ops as build
from burn.dialect.compose import along
from burn.nn.layers import Pads, _Convolution
from burn.tensor import Tensor


class _Pool(_Convolution):
    """A window that slides over the last axes. Shapes: x [N, C, d..] -> [N, C, e..]."""

    KIND: ClassVar[str]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Pads = 0,
        dilation: int | Sequence[int] = 1,
    ) -> None:
        self.kernel = self._each(kernel_size)
        self.stride = self.kernel if stride is None else self._each(stride)
        self.padding, self.dilation = self._pads(padding), self._each(dilation)

    def _slide(self, x: Tensor) -> Tensor:
        low, high = self.padding
        return Tensor(
            build.window_reduce(
                x.value,
                kind=self.KIND,
                window=(1, 1, *self.kernel),
                strides=(1, 1, *self.stride),
                dilations=(1, 1, *self.dilation),
                low=(0, 0, *low),
                high=(0, 0, *high),
            )
        )

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
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Pads = 0,
        dilation: int | Sequence[int] = 1,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, dilation)
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        total = self._slide(x)
        padded = any((*self.padding[0], *self.padding[1]))
        return total / (float(prod(self.kernel)) if self.count_include_pad or not padded else self._counts(x))

    def _counts(self, x: Tensor) -> Tensor:
        """How many elements of x each window holds: a product of one factor an axis."""
        factors = []
        sizes = zip(self.kernel, self.stride, self.dilation, *self.padding, strict=True)
        for axis, parts in enumerate(sizes, 2):
            ones = build.full(shape=(x.shape[axis],), dtype=x.dtype, value=1.0)
            names = ("window", "strides", "dilations", "low", "high")
            counted = build.window_reduce(ones, kind="sum", **{n: (p,) for n, p in zip(names, parts, strict=True)})
            factors.append(Tensor(along(counted, axis, x.ndim)))
        return reduce(lambda a, b: a * b, factors)


class MaxPool1d(_MaxPool):
    AXES = 1


class MaxPool2d(_MaxPool):
    AXES = 2


class MaxPool3d(_MaxPool):
    AXES = 3


class AvgPool1d(_AvgPool):
    AXES = 1


class AvgPool2d(_AvgPool):
    AXES = 2


class AvgPool3d(_AvgPool):
    AXES = 3
