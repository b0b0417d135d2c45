"""Layers with weights that are products: linear, embedding, convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from burn.dialect import ops as build
from burn.nn.module import Module
from burn.nn.parameter import Parameter, fan_in, uniform
from burn.tensor import Tensor

Pads = int | Sequence[int | tuple[int, int]]


class Linear(Module):
    """x W' + bias. Shapes: x [.., in] -> [.., out]; weight [out, in], or [in, out] when `transposed`; bias [out]."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, transposed: bool = False, dtype: str = "float32"
    ) -> None:
        self.in_features, self.out_features, self.transposed = in_features, out_features, transposed
        shape = (in_features, out_features) if transposed else (out_features, in_features)
        self.weight = Parameter(shape, dtype, fan_in(shape, (0 if transposed else 1,)))
        self.bias = Parameter((out_features,), dtype, uniform(max(in_features, 1) ** -0.5)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        axis = 0 if self.transposed else 1
        y = build.dot_general(x.value, self.weight.value, lhs_contract=(x.ndim - 1,), rhs_contract=(axis,))
        return Tensor(y) if self.bias is None else Tensor(y) + self.bias

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}{', bias=False' if self.bias is None else ''}"


class Embedding(Module):
    """Rows of a table. Shapes: indices [..] -> [.., dim]; weight [count, dim]."""

    def __init__(self, count: int, dim: int, dtype: str = "float32") -> None:
        self.weight = Parameter((count, dim), dtype, uniform(1.0))

    def forward(self, indices: Tensor) -> Tensor:
        return Tensor(build.gather(self.weight.value, indices.value, axis=0))

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.weight.shape))


class _Convolution(Module):
    """What convolutions have in common: sizes given once for all axes or for each."""

    AXES: ClassVar[int]

    def _each(self, value: int | Sequence[int]) -> tuple[int, ...]:
        return (value,) * self.AXES if isinstance(value, int) else tuple(value)

    def _pads(self, padding: Pads) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before and after each axis: a number, or one for each axis, or a pair for each."""
        each = (padding,) * self.AXES if isinstance(padding, int) else padding
        pairs = [(p, p) if isinstance(p, int) else p for p in each]
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)

    def _add_bias(self, y: Any, bias: Parameter | None) -> Tensor:
        if bias is None:
            return Tensor(y)
        return Tensor(y) + bias.reshape(1, -1, *[1] * self.AXES)


class _Conv(_Convolution):
    """Cross-correlation. Shapes: x [N, in, d..] -> [N, out, e..], e = (d + padding - (k - 1) * dilation - 1) // stride + 1;
    weight [out, in / groups, k..], bias [out]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: Pads = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str = "float32",
    ) -> None:
        self.stride, self.dilation, self.groups = self._each(stride), self._each(dilation), groups
        self.padding = self._pads(padding)
        shape = (out_channels, in_channels // groups, *self._each(kernel_size))
        axes = tuple(range(1, len(shape)))
        self.weight = Parameter(shape, dtype, fan_in(shape, axes))
        self.bias = Parameter((out_channels,), dtype, fan_in(shape, axes)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        low, high = self.padding
        sizes = {"strides": self.stride, "dilations": self.dilation, "low": low, "high": high}
        return self._add_bias(build.conv(x.value, self.weight.value, groups=self.groups, **sizes), self.bias)

    def extra_repr(self) -> str:
        out, inside, *kernel = self.weight.shape
        return f"{inside * self.groups}, {out}, {tuple(kernel)}"


class Conv1d(_Conv):
    AXES = 1


class Conv2d(_Conv):
    AXES = 2


class Conv3d(_Conv):
    AXES = 3


class _ConvTranspose(_Convolution):
    """The gradient of a convolution. Shapes: x [N, in, d..] -> [N, out, e..], e = (d - 1) * stride + output_padding +
    (k - 1) * dilation + 1 - padding; weight [in, out / groups, k..], bias [out]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: Pads = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        dtype: str = "float32",
    ) -> None:
        self.stride, self.dilation, self.groups = self._each(stride), self._each(dilation), groups
        self.padding, self.output_padding = self._pads(padding), self._each(output_padding)
        shape = (in_channels, out_channels // groups, *self._each(kernel_size))
        axes = (1, *range(2, len(shape)))
        self.weight = Parameter(shape, dtype, fan_in(shape, axes))
        self.bias = Parameter((out_channels,), dtype, fan_in(shape, axes)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        low, high = self.padding
        sizes = {"strides": self.stride, "dilations": self.dilation, "low": low, "high": high}
        y = build.conv_transpose(x.value, self.weight.value, extra=self.output_padding, groups=self.groups, **sizes)
        return self._add_bias(y, self.bias)

    def extra_repr(self) -> str:
        inside, out, *kernel = self.weight.shape
        return f"{inside}, {out * self.groups}, {tuple(kernel)}"


class ConvTranspose1d(_ConvTranspose):
    AXES = 1


class ConvTranspose2d(_ConvTranspose):
    AXES = 2


class ConvTranspose3d(_ConvTranspose):
    AXES = 3
