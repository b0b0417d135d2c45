"""Layers of quantised models: weights are small integers with a scale, and activations are rounded to the values of such
integers. All arithmetic is in floats of these values, as in ONNX's QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

import numpy as np

from burn.dialect import ops as build
from burn.nn import init
from burn.nn.checks import Count, DTypeName, Pads, PerAxis, Positive
from burn.nn.init import inputs_bound, ones, zeros
from burn.nn.module import Layer
from burn.nn.parameter import Buffer, Parameter, ParameterOrNone
from burn.nn.spatial import Spatial
from burn.tensors import Tensor
from burn.tensors.creation import constant


class FakeQuantize(Layer):
    """x rounded to the grid of a small integer type: (q - zero_point) * scale with q = round(x / scale) + zero_point, clipped
    to the range of `dtype`. Shapes: x [...] -> [...]."""

    def __init__(self, scale: float, zero_point: int = 0, dtype: DTypeName = "int8") -> None:
        self.scale, self.zero_point, self.dtype = scale, zero_point, dtype

    def forward(self, x: Tensor) -> Tensor:
        scale, zero = constant(self.scale, x.dtype).value, constant(self.zero_point, self.dtype).value
        small = build.quantize(x.value, scale, zero, dtype=self.dtype, axis=0)
        return Tensor(build.dequantize(small, scale, zero, dtype=str(x.dtype), axis=0))

    def extra_repr(self) -> str:
        return f"{self.scale}, {self.zero_point}, {self.dtype!r}"


class QuantizedWeight(Layer):
    """A parameter stored as integers; a call returns (values - zero_point) * scale. Shapes: -> shape; scale and zero_point
    [], or with `axis` [shape[axis]]: one for each index of that axis."""

    def __init__(
        self,
        shape: Count | tuple[Count, ...],
        dtype: DTypeName = "int8",
        axis: int | None = None,
        scale_dtype: DTypeName = "float32",
    ) -> None:
        self.axis = axis
        full = (shape,) if isinstance(shape, int) else tuple(shape)
        some = () if axis is None else (full[axis],)
        self.values = Buffer(full, dtype, _spread)
        self.scale = Parameter(some, scale_dtype, ones)
        self.zero_point = Buffer(some, dtype, zeros)

    def forward(self) -> Tensor:
        parts = (self.values.value, self.scale.value, self.zero_point.value)
        return Tensor(build.dequantize(*parts, dtype=str(self.scale.dtype), axis=self.axis or 0))


def _spread(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Initial weights: integers around 0 that every integer type with at least 8 bits can hold."""
    return rng.integers(-64, 64, shape)


class _QuantConv(Spatial):
    """A convolution with an integer weight, and a scale for each output channel (`per_channel`) or one for all.
    The bias has 32-bit integers and its own scales. Shapes: as in Conv."""

    def __init__(
        self,
        in_channels: Count,
        out_channels: Count,
        kernel_size: PerAxis,
        stride: PerAxis = 1,
        padding: Pads = 0,
        dilation: PerAxis = 1,
        groups: Positive = 1,
        bias: bool = True,
        per_channel: bool = True,
        dtype: DTypeName = "int8",
    ) -> None:
        self.stride, self.dilation, self.groups = self._each(stride), self._each(dilation), groups
        self.padding = self._pads(padding)
        axis = 0 if per_channel else None
        self.weight = QuantizedWeight((out_channels, in_channels // groups, *self._each(kernel_size)), dtype, axis)
        self.bias = QuantizedWeight(out_channels, "int32", axis) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        low, high = self.padding
        sizes = {"strides": self.stride, "dilations": self.dilation, "low": low, "high": high}
        y = Tensor(build.conv(x.value, self.weight().value, groups=self.groups, **sizes))
        return y if self.bias is None else y + self.bias().reshape(1, -1, *[1] * self.AXES)


class QuantConv1d(_QuantConv):
    __doc__ = _QuantConv.__doc__
    AXES = 1


class QuantConv2d(_QuantConv):
    __doc__ = _QuantConv.__doc__
    AXES = 2


class QuantConv3d(_QuantConv):
    __doc__ = _QuantConv.__doc__
    AXES = 3


class QuantLinear(Layer):
    """A linear layer with an integer weight, and a scale for each output (`per_channel`) or one for all. The bias
    has 32-bit integers and its own scales. Shapes: as in Linear."""

    def __init__(
        self,
        in_features: Count,
        out_features: Count,
        bias: bool = True,
        per_channel: bool = True,
        transposed: bool = False,
        dtype: DTypeName = "int8",
    ) -> None:
        self.transposed = transposed
        shape = (in_features, out_features) if transposed else (out_features, in_features)
        self.weight = QuantizedWeight(shape, dtype, int(transposed) if per_channel else None)
        self.bias = QuantizedWeight(out_features, "int32", 0 if per_channel else None) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        axis = 0 if self.transposed else 1
        y = build.dot_general(x.value, self.weight().value, lhs_contract=(x.ndim - 1,), rhs_contract=(axis,))
        return Tensor(y) if self.bias is None else Tensor(y) + self.bias()


class BlockLinear(Layer):
    """A linear layer with a block-quantised weight of a few bits. Each block of `block` neighbours along the inputs has a scale,
    and with `zero_point` a zero point. Matmuls read the packed weight, so one row takes as long as reading its bits.
    `burn.quantization.quantize_module` converts a model's linear layers.

    Shapes: x [.., in] -> [.., out]; values uint8[out, blocks, block * bits / 8], the first number in a byte's lowest bits; scale
    and zero_point [out, blocks]; bias [out]."""

    def __init__(
        self,
        in_features: Count,
        out_features: Count,
        bias: bool = True,
        bits: Positive = 4,
        block: Positive = 32,
        zero_point: bool = False,
        dtype: DTypeName = "float32",
    ) -> None:
        self.in_features, self.out_features, self.bits, self.block = in_features, out_features, bits, block
        blocks = -(-in_features // block)
        self.values = Buffer((out_features, blocks, block * bits // 8), "uint8", _bytes)
        spread = max(1, in_features) ** -0.5  # the range of Linear's initial weights
        self.scale = Parameter((out_features, blocks), dtype, init.constant(spread / 2 ** (bits - 1)))
        self.zero_point = (
            Buffer((out_features, blocks), dtype, init.constant(2.0 ** (bits - 1))) if zero_point else None
        )
        self.bias: ParameterOrNone = Parameter((out_features,), dtype, inputs_bound(in_features)) if bias else None

    @property
    def dtype(self) -> str:
        return self.scale.dtype

    def forward(self, x: Tensor) -> Tensor:
        zero = None if self.zero_point is None else self.zero_point.value
        y = Tensor(
            build.block_dot(x.value, self.values.value, self.scale.value, zero, bits=self.bits, block=self.block)
        )
        return y if self.bias is None else y + self.bias

    def dense(self) -> Tensor:
        """The weight as floats [out, in]: (values - zero_point) * scale."""
        out, blocks, _ = self.values.shape
        each = 8 // self.bits
        factors = constant([float(1 << self.bits * i) for i in range(each)], "float32")
        below = float(1 << self.bits)
        numbers = (self.values.astype("float32").unsqueeze(-1) / factors).floor()  # all exact: fewer than 9 bits
        numbers = (numbers - (numbers / below).floor() * below).reshape(out, blocks, self.block)
        zero = (
            float(1 << (self.bits - 1)) if self.zero_point is None else self.zero_point.astype("float32").unsqueeze(-1)
        )
        weight = (numbers - zero) * self.scale.astype("float32").unsqueeze(-1)
        return weight.reshape(out, blocks * self.block)[:, : self.in_features].astype(self.dtype)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bits={self.bits}, block={self.block}"


def _bytes(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random bytes."""
    return rng.integers(0, 256, shape)
