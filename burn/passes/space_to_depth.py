"""Strided convolutions of images with few channels as convolutions of stride 1 with more channels, and their weight gradients.

The first convolution of most networks reads 3 channels. A matmul's depth then consists of runs of 3 elements, which neither
align nor fill a tensor core's step. The pixels under one stride become channels instead: [N, H, W, C] becomes
[N, H / s, W / s, s * s * C].
Windows of ceil(k / s) such pixels, with zeros in the rest of the kernel, see the same elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.convolution import Windows
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import HALF_DTYPES, type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops

FEW = 4
"""The most channels of such an image."""

ALIGNED = 8
"""Channels of the result are a multiple: 16 bytes, which a thread copies at once."""


@register
@dataclass(frozen=True)
class SpaceToDepth:
    """For targets with tensor cores, half-precision types and known sizes. Expects convolutions that are channels-first."""

    name: ClassVar[str] = "space_to_depth"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        convolutions = replace_ops(program, Conv, _of_conv)
        return {"folded": convolutions + replace_ops(program, DotGeneral, _of_gradient)}


@dataclass(frozen=True)
class _Fold:
    """Windows over an image [N, d.., C] of known sizes. sizes: the numbers of windows. low: of padding."""

    channels: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def pays(self) -> bool:
        """False for images without gain, and for strides that skip pixels."""
        if 0 in (*self.kernel, *self.sizes) or max(self.strides, default=1) == 1:
            return False
        whole = all(k >= s for k, s in zip(self.kernel, self.strides, strict=True))
        return whole and 0 < self.channels <= FEW

    @property
    def padded(self) -> int:
        """Channels of a pixel, so that the result is aligned."""
        return next(c for c in range(self.channels, 9 * ALIGNED) if c * prod(self.strides) % ALIGNED == 0)

    @property
    def taps(self) -> tuple[int, ...]:
        return tuple(-(-k // s) for k, s in zip(self.kernel, self.strides, strict=True))

    def image(self, x: ir.Value) -> ir.Value:
        """[N, d.., C] -> [N, d / s.., s.. * C]"""
        batch, dims = type_of(x).shape[0], _numbers(type_of(x).shape[1:-1])
        n = len(dims)
        needed = [(e - 1 + t) * s for e, t, s in zip(self.sizes, self.taps, self.strides, strict=True)]
        high = [max(0, want - p - d) for want, p, d in zip(needed, self.low, dims, strict=True)]
        more = self.padded - self.channels
        if any((*self.low, *high, more)):
            x = ops.pad(x, number_like(0, x), low=(0, *self.low, 0), high=(0, *high, more))
        if tuple(type_of(x).shape[1:-1]) != tuple(needed):
            x = ops.slice(x, starts=(0,) * (n + 2), sizes=(batch, *needed, self.padded), steps=(1,) * (n + 2))
        pairs = [size for want, s in zip(needed, self.strides, strict=True) for size in (want // s, s)]
        x = transpose(
            reshape(x, (batch, *pairs, self.padded)), (0, *range(1, 2 * n, 2), *range(2, 2 * n + 1, 2), 2 * n + 1)
        )
        return reshape(x, (*type_of(x).shape[: n + 1], prod(self.strides) * self.padded))

    def weight(self, weight: ir.Value) -> ir.Value:
        """[k.., C, O] -> [taps.., s.. * C, O]"""
        *_, outputs = type_of(weight).shape
        n = len(self.kernel)
        whole = [t * s for t, s in zip(self.taps, self.strides, strict=True)]
        high = (*(w - k for w, k in zip(whole, self.kernel, strict=True)), self.padded - self.channels, 0)
        if any(high):
            weight = ops.pad(weight, number_like(0, weight), low=(0,) * (n + 2), high=high)
        pairs = [size for pair in zip(self.taps, self.strides, strict=True) for size in pair]
        apart = reshape(weight, (*pairs, self.padded, outputs))
        order = (*range(0, 2 * n, 2), *range(1, 2 * n, 2), 2 * n, 2 * n + 1)
        return reshape(transpose(apart, order), (*self.taps, prod(self.strides) * self.padded, outputs))

    def of_weight(self, folded: ir.Value) -> ir.Value:
        """The inverse: [taps.., s.. * C, O] -> [k.., C, O]"""
        *_, outputs = type_of(folded).shape
        n = len(self.kernel)
        apart = reshape(folded, (*self.taps, *self.strides, self.padded, outputs))
        order = [axis for i in range(n) for axis in (i, n + i)]
        whole = [t * s for t, s in zip(self.taps, self.strides, strict=True)]
        full = reshape(transpose(apart, (*order, 2 * n, 2 * n + 1)), (*whole, self.padded, outputs))
        return ops.slice(
            full, starts=(0,) * (n + 2), sizes=(*self.kernel, self.channels, outputs), steps=(1,) * (n + 2)
        )


def _numbers(sizes: Sequence[Any]) -> tuple[int, ...]:
    """The sizes; (0,) if one of them is not known."""
    found = tuple(size for size in sizes if isinstance(size, int))
    return found if len(found) == len(sizes) else (0,)


def _of_conv(op: Any) -> ir.Value | None:
    x, weight, y = (type_of(v) for v in (op.x, op.weight, op.operation.results[0]))
    if op.layout != "first" or op.groups != 1 or op.fill or set(op.dilations) != {1} or x.dtype not in HALF_DTYPES:
        return None
    low = _numbers(op.low)
    channels, kernel, sizes = _numbers(x.shape[1:]), _numbers(weight.shape[2:]), _numbers(y.shape[2:])
    fold = _Fold(channels[0], kernel, op.strides, low, sizes)
    if len(low) != len(op.low) or min(low) < 0 or not fold.pays:
        return None
    n, last = len(op.strides), (0, *range(2, x.rank), 1)
    with op.operation.location, ir.InsertionPoint(op.operation):
        image = fold.image(transpose(op.x, last))
        taps = fold.weight(transpose(op.weight, (*range(2, x.rank), 1, 0)))
        ones, none = (1,) * n, (0,) * n
        options: dict[str, Any] = {
            "strides": ones,
            "dilations": ones,
            "low": none,
            "high": none,
            "layout": "last",
            "dtype": op.dtype,
        }
        return transpose(ops.conv(image, taps, **options), (0, n + 1, *range(1, n + 1)))


def _of_gradient(op: Any) -> ir.Value | None:
    """Of windows of an image, whose elements are multiplied by the gradient of the windows: [k.., C, O]."""
    under = op_of(op.lhs)
    if not isinstance(under, Windows) or under.axis != 1 or set(under.dilations) != {1}:
        return None
    x, n = type_of(under.x), len(under.window)
    summed = tuple(range(n + 1))
    if x.rank != n + 2 or x.dtype not in HALF_DTYPES or op.lhs_batch or type_of(op.rhs).rank != n + 2:
        return None
    if op.lhs_contract != summed or op.rhs_contract != summed:
        return None
    channels, sizes = _numbers(x.shape[1:]), _numbers(type_of(op.lhs).shape[1 : n + 1])
    fold = _Fold(channels[-1], under.window, under.strides, (0,) * n, sizes)
    if not fold.pays:
        return None
    with op.operation.location, ir.InsertionPoint(op.operation):
        ones = (1,) * n
        windows = ops.windows(fold.image(under.x), axis=1, window=fold.taps, strides=ones, dilations=ones)
        return fold.of_weight(ops.dot_general(windows, op.rhs, **op.attrs))
