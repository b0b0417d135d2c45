"""Convolutions, transposed convolutions, and deformable convolutions (`DeformConv2d`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from burn import ops
from burn.dialect import compose
from burn.dialect import ops as build
from burn.errors import TypeMismatch
from burn.nn.checks import Count, DTypeName, Pads, PerAxis, Positive
from burn.nn.init import inputs_bound
from burn.nn.padding import pad
from burn.nn.parameter import Parameter, ParameterOrNone
from burn.nn.spatial import Spatial
from burn.tensors import Tensor

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


class _Convolution(Spatial):
    """Base of convolutions."""

    def _add_bias(self, y: Any, bias: Parameter | None) -> Tensor:
        if bias is None:
            return Tensor(y)
        return Tensor(y) + bias.reshape(1, -1, *[1] * self.AXES)

    def _check_groups(self, inputs: int, outputs: int, groups: int) -> None:
        if inputs % groups or outputs % groups:
            raise TypeMismatch(
                f"{type(self).__name__} cannot split its channels", [f"{inputs} and {outputs} into {groups} groups"]
            )


class _Conv(_Convolution):
    """Cross-correlation. Shapes: x [N, in, d..] -> [N, out, e..], e = (d + padding - (k - 1) * dilation - 1) // stride + 1;
    weight [out, in / groups, k..], bias [out].

    padding: numbers, "valid" for none, or "same" to keep the size (with a stride of 1)."""

    def __init__(
        self,
        in_channels: Count,
        out_channels: Count,
        kernel_size: PerAxis,
        stride: PerAxis = 1,
        padding: Pads | Literal["same", "valid"] = 0,
        dilation: PerAxis = 1,
        groups: Positive = 1,
        bias: bool = True,
        dtype: DTypeName = "float32",
        padding_mode: PaddingMode = "zeros",
    ) -> None:
        self.stride, self.dilation, self.groups = self._each(stride), self._each(dilation), groups
        self.padding_mode = padding_mode
        kernel = self._each(kernel_size)
        self._check_groups(in_channels, out_channels, groups)
        self.padding = self._same(kernel) if padding == "same" else self._pads(0 if padding == "valid" else padding)
        shape = (out_channels, in_channels // groups, *kernel)
        inputs = shape[1]
        for size in kernel:
            inputs *= size
        self.weight = Parameter(shape, dtype, inputs_bound(inputs))
        self.bias: ParameterOrNone = Parameter((out_channels,), dtype, inputs_bound(inputs)) if bias else None

    def _same(self, kernel: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if set(self.stride) != {1}:
            raise TypeMismatch("padding 'same' is for a stride of 1", [f"not {self.stride}"])
        reach = [(k - 1) * d for k, d in zip(kernel, self.dilation, strict=True)]
        return tuple(r // 2 for r in reach), tuple(r - r // 2 for r in reach)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        low, high = self.padding
        if self.padding_mode != "zeros":
            x = pad(x, low, high, self.padding_mode)
            low = high = (0,) * self.AXES
        sizes = {"strides": self.stride, "dilations": self.dilation, "low": low, "high": high}
        return self._add_bias(build.conv(x.value, self.weight.value, groups=self.groups, **sizes), self.bias)

    def extra_repr(self) -> str:
        out, inside, *kernel = self.weight.shape
        return f"{inside * self.groups}, {out}, {tuple(kernel)}"


class Conv1d(_Conv):
    __doc__ = _Conv.__doc__
    AXES = 1


class Conv2d(_Conv):
    __doc__ = _Conv.__doc__
    AXES = 2


class Conv3d(_Conv):
    __doc__ = _Conv.__doc__
    AXES = 3


class _ConvTranspose(_Convolution):
    """The gradient of a convolution. Shapes: x [N, in, d..] -> [N, out, e..], e = (d - 1) * stride + output_padding +
    (k - 1) * dilation + 1 - padding; weight [in, out / groups, k..], bias [out]."""

    def __init__(
        self,
        in_channels: Count,
        out_channels: Count,
        kernel_size: PerAxis,
        stride: PerAxis = 1,
        padding: Pads = 0,
        output_padding: Count | Sequence[Count] = 0,
        groups: Positive = 1,
        bias: bool = True,
        dilation: PerAxis = 1,
        dtype: DTypeName = "float32",
    ) -> None:
        self.stride, self.dilation, self.groups = self._each(stride), self._each(dilation), groups
        self.padding, self.output_padding = self._pads(padding), self._each(output_padding)
        self._check_groups(in_channels, out_channels, groups)
        shape = (in_channels, out_channels // groups, *self._each(kernel_size))
        inputs = shape[1]
        for size in shape[2:]:
            inputs *= size
        self.weight = Parameter(shape, dtype, inputs_bound(inputs))
        self.bias: ParameterOrNone = Parameter((out_channels,), dtype, inputs_bound(inputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        low, high = self.padding
        sizes = {"strides": self.stride, "dilations": self.dilation, "low": low, "high": high}
        y = build.conv_transpose(x.value, self.weight.value, extra=self.output_padding, groups=self.groups, **sizes)
        return self._add_bias(y, self.bias)

    def extra_repr(self) -> str:
        inside, out, *kernel = self.weight.shape
        return f"{inside}, {out * self.groups}, {tuple(kernel)}"


class ConvTranspose1d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    AXES = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    AXES = 2


class ConvTranspose3d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    AXES = 3


class DeformConv2d(_Conv):
    """A convolution whose taps are displaced by offsets and weighted by an optional mask (arXiv:1703.06211, arXiv:1811.11168).

    Shapes:
    - x `[N, in, h, w]`, offset `[N, offset_groups * kh * kw * 2, eh, ew]` (down, then right);
    - mask `[N, offset_groups * kh * kw, eh, ew]`; result `[N, out, eh, ew]`, e as in Conv2d.

    Taps between elements are interpolated bilinearly; x is 0 outside."""

    AXES = 2

    def __init__(
        self,
        in_channels: Count,
        out_channels: Count,
        kernel_size: PerAxis,
        stride: PerAxis = 1,
        padding: Pads = 0,
        dilation: PerAxis = 1,
        groups: Positive = 1,
        offset_groups: Positive = 1,
        bias: bool = True,
        dtype: DTypeName = "float32",
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype)
        self.offset_groups = offset_groups
        if in_channels % offset_groups:
            raise TypeMismatch(
                "DeformConv2d cannot split its channels", [f"{in_channels} into {offset_groups} offset groups"]
            )

    def forward(self, x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        self._check(x)
        batch, channels, height, width = x.shape
        out, inside, *kernel = self.weight.shape
        taps, shared = kernel[0] * kernel[1], self.offset_groups
        moved = offset.reshape(batch, shared, taps, 2, *offset.shape[2:])
        rows, columns = moved.shape[4:]
        positions = [
            moved[:, :, :, axis] + self._taps(axis, kernel, (rows, columns), x.dtype) for axis in (0, 1)
        ]  # [N, shared, taps, eh, ew] each
        flat = x.reshape(batch, shared, channels // shared, height * width)
        sampled = _bilinear(flat, positions, (height, width))
        if mask is not None:
            sampled = sampled * mask.reshape(batch, shared, 1, taps, rows, columns)
        groups = self.groups
        columns_in = sampled.reshape(batch, groups, inside * taps, rows * columns)
        weight = self.weight.reshape(groups, out // groups, inside * taps)
        axes = {"lhs_batch": (0,), "rhs_batch": (1,), "lhs_contract": (2,), "rhs_contract": (2,)}
        y = Tensor(build.dot_general(weight.value, columns_in.value, **axes)).permute(2, 0, 1, 3)
        return self._add_bias(y.reshape(batch, out, rows, columns).value, self.bias)

    def _taps(self, axis: int, kernel: list[int], sizes: tuple[Any, Any], dtype: str) -> Tensor:
        """The position of each tap for each output element, without offsets: [taps, eh, ew]."""
        taps = kernel[0] * kernel[1]
        shape = (taps, *sizes)
        tap = Tensor(build.iota(shape=(taps, 1, 1), axis=0))
        tap = tap // kernel[1] if axis == 0 else tap % kernel[1]
        base = Tensor(build.iota(shape=shape, axis=axis + 1)) * self.stride[axis] - self.padding[0][axis]
        return (base + tap * self.dilation[axis]).astype(dtype)


def _bilinear(x: Tensor, positions: list[Tensor], sizes: tuple[Any, Any]) -> Tensor:
    """Bilinear samples. x [N, g, c, h * w], positions [N, g, s..] -> [N, g, c, s..]."""
    batch, groups, channels, _ = x.shape
    inner = positions[0].shape[2:]
    lows = [Tensor(build.floor(p.value)) for p in positions]
    total = None
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight, index, exists = None, None, None
        for axis in (0, 1):
            fraction = positions[axis] - lows[axis]
            share = fraction if corner[axis] else 1.0 - fraction
            position = lows[axis].astype("int64") + corner[axis]
            last = Tensor(compose.dim_value(sizes[axis])) - 1
            inside = (position >= 0) & (position <= last)
            position = ops.min(ops.max(position, 0), last)
            weight = share if weight is None else weight * share
            exists = inside if exists is None else exists & inside
            index = position if index is None else index * (last + 1) + position
        assert weight is not None and index is not None and exists is not None
        weight = ops.select(exists, weight, 0.0)
        flat = index.reshape(batch, groups, 1, -1)
        flat = flat.broadcast_to(batch, groups, channels, flat.shape[3])
        taken = ops.gather_elements(x, flat, axis=3).reshape(batch, groups, channels, *inner)
        term = taken * weight.unsqueeze(2)
        total = term if total is None else total + term
    assert total is not None
    return total
