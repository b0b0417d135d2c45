"""Changes of size: interpolation, pixel shuffling, unfolding into windows and folding, flattening."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from burn.dialect import ops as build
from burn.dialect.compose import number_like
from burn.errors import TypeMismatch
from burn.nn.checks import Count, PerAxis, Positive, Range
from burn.nn.module import Layer
from burn.nn.pool import adaptive_mean
from burn.nn.spatial import Spatial
from burn.tensors import Tensor

Factor = Annotated[float, Range(0, open=True)]
Mode = Literal["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"]

FILTERS = {
    "nearest": ("nearest", "asymmetric", "floor"),
    "nearest-exact": ("nearest", "half_pixel", "round_prefer_ceil"),
    "linear": ("linear", "half_pixel", "floor"),
    "bilinear": ("linear", "half_pixel", "floor"),
    "trilinear": ("linear", "half_pixel", "floor"),
    "bicubic": ("cubic", "half_pixel", "floor"),
}
"""torch's mode -> the resize op's mode, coordinate transformation and rounding."""

AXES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


class Upsample(Layer):
    """Resamples the last axes to a size, or by a factor. Shapes: x [N, C, d..] -> [N, C, e..], e = floor(d * factor).

    linear, bilinear, trilinear and bicubic are for one, two, three and two axes. `align_corners`: aligns the centres of the
    corner elements (otherwise their outer edges). `antialias`: when downsampling, averages all covered elements (bilinear,
    bicubic)."""

    def __init__(
        self,
        size: PerAxis | None = None,
        scale_factor: Factor | Sequence[Factor] | None = None,
        mode: Mode = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        if (size is None) == (scale_factor is None):
            raise TypeMismatch(f"{type(self).__name__} takes either a size or a scale_factor", ["not both or none"])
        if align_corners and mode not in AXES:
            raise TypeMismatch(f"mode '{mode}' has no align_corners", [f"modes that have are {', '.join(AXES)}"])
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.antialias = align_corners, antialias

    def forward(self, x: Tensor) -> Tensor:
        count = x.ndim - 2
        if not 1 <= count <= 3 or AXES.get(self.mode, count) != count:
            raise TypeMismatch(
                f"mode '{self.mode}' is not for this tensor", [f"{x.type} has {max(count, 0)} spatial axes"]
            )
        axes = tuple(range(2, x.ndim))
        factors = self._each(self.scale_factor, count) if self.scale_factor is not None else ()
        if factors:
            sizes = tuple(_scaled(d, f) for d, f in zip(x.shape[2:], factors, strict=True))
        else:
            sizes = self._each(self.size, count)
        if self.mode == "area":
            for axis, size in zip(axes, sizes, strict=True):
                x = adaptive_mean(x, axis, size)
            return x
        mode, transformation, rounding = FILTERS[self.mode]
        return Tensor(
            build.resize(
                x.value,
                None,
                None,
                axes=axes,
                sizes=sizes,
                factors=() if self.align_corners else tuple(map(float, factors)),
                mode=mode,
                transformation="align_corners" if self.align_corners else transformation,
                rounding=rounding,
                cubic_a=-0.5 if self.antialias else -0.75,  # as torch
                exclude_outside=self.antialias,
                antialias=self.antialias,
            )
        )

    def _each(self, value: Any, count: int) -> tuple[Any, ...]:
        each = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
        if len(each) != count:
            raise TypeMismatch(f"{type(self).__name__} takes {count} sizes here", [f"not {value!r}"])
        return each

    def extra_repr(self) -> str:
        return f"{f'size={self.size}' if self.size is not None else f'scale_factor={self.scale_factor}'}, {self.mode}"


class _Interpolate(Spatial, Upsample):
    __doc__ = Upsample.__doc__

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        return Upsample.forward(self, x)

    def _each(self, value: Any, count: int | None = None) -> tuple[Any, ...]:
        return Upsample._each(self, value, self.AXES)


class Interpolate1d(_Interpolate):
    __doc__ = Upsample.__doc__
    AXES = 1


class Interpolate2d(_Interpolate):
    __doc__ = Upsample.__doc__
    AXES = 2


def _scaled(size: Any, factor: float) -> Any:
    if isinstance(size, int):
        return math.floor(size * factor)
    ratio = Fraction(factor).limit_denominator(1 << 12)
    return size * ratio.numerator // ratio.denominator


class PixelShuffle(Layer):
    """Channels become pixels: [.., c r^2, h, w] -> [.., c, h r, w r] (arXiv:1609.05158)."""

    def __init__(self, upscale_factor: Positive) -> None:
        self.factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        r = self.factor
        *outer, channels, height, width = _image(self, x)
        n = len(outer)
        if isinstance(channels, int) and channels % (r * r):
            raise TypeMismatch("PixelShuffle cannot split its channels", [f"{channels} into blocks of {r} x {r}"])
        blocks = x.reshape(*outer, channels // (r * r), r, r, height, width)
        turned = blocks.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
        return turned.reshape(*outer, channels // (r * r), height * r, width * r)


class PixelUnshuffle(Layer):
    """Pixels become channels: [.., c, h r, w r] -> [.., c r^2, h, w]."""

    def __init__(self, downscale_factor: Positive) -> None:
        self.factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        r = self.factor
        *outer, channels, height, width = _image(self, x)
        n = len(outer)
        if any(isinstance(d, int) and d % r for d in (height, width)):
            raise TypeMismatch("PixelUnshuffle cannot split its pixels", [f"{x.type} into blocks of {r} x {r}"])
        blocks = x.reshape(*outer, channels, height // r, r, width // r, r)
        turned = blocks.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
        return turned.reshape(*outer, channels * r * r, height // r, width // r)


def _image(layer: Layer, x: Tensor) -> tuple[Any, ...]:
    if x.ndim < 3:
        raise TypeMismatch(f"{type(layer).__name__} takes [.., C, H, W]", [f"not {x.type}"])
    return x.shape


class _Windows(Spatial):
    """Base of `Unfold` and `Fold`: the elements of each tap of a sliding window."""

    AXES = 2

    def __init__(
        self,
        kernel_size: PerAxis,
        dilation: PerAxis = 1,
        padding: Count | Sequence[Count] = 0,
        stride: PerAxis = 1,
    ) -> None:
        self.kernel, self.dilation = self._each(kernel_size), self._each(dilation)
        self.padding, self.stride = self._each(padding), self._each(stride)

    def _positions(self, sizes: Sequence[Any]) -> tuple[Any, Any]:
        """The number of windows down and across."""
        parts = zip(sizes, self.padding, self.kernel, self.dilation, self.stride, strict=True)
        rows, columns = ((d + 2 * p - (k - 1) * t - 1) // s + 1 for d, p, k, t, s in parts)
        return rows, columns

    def _taps(self) -> list[tuple[int, int]]:
        return [
            (i * self.dilation[0], j * self.dilation[1]) for i in range(self.kernel[0]) for j in range(self.kernel[1])
        ]


class Unfold(_Windows):
    """Sliding windows as columns. Shapes: x [N, C, h, w] -> [N, C * kh * kw, windows]."""

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        batch, channels, *sizes = x.shape
        counts = self._positions(sizes)
        around = (0, 0, *self.padding)
        padded = build.pad(x.value, number_like(0, x.value), low=around, high=around, interior=(0,) * 4)
        taps = []
        for tap in self._taps():
            shape = (batch, channels, *counts)
            part = build.slice(padded, starts=(0, 0, *tap), sizes=shape, steps=(1, 1, *self.stride))
            taps.append(build.reshape(part, shape=(batch, channels, 1, counts[0] * counts[1])))
        return Tensor(build.concat(taps, axis=2)).reshape(batch, channels * len(taps), counts[0] * counts[1])


class Fold(_Windows):
    """Sums sliding windows, the adjoint of `Unfold`. Shapes: x [N, C * kh * kw, windows] -> [N, C, h, w] of output_size."""

    def __init__(
        self,
        output_size: PerAxis,
        kernel_size: PerAxis,
        dilation: PerAxis = 1,
        padding: Count | Sequence[Count] = 0,
        stride: PerAxis = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = self._each(output_size)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3:
            raise TypeMismatch("Fold takes [N, C * kh * kw, windows]", [f"not {x.type}"])
        taps, counts = self._taps(), self._positions(self.output_size)
        batch, channels = x.shape[0], x.shape[1] // len(taps)
        windows = x.reshape(batch, channels, len(taps), *counts)
        total = None
        padded = [d + 2 * p for d, p in zip(self.output_size, self.padding, strict=True)]
        for index, tap in enumerate(taps):
            after = [d - t - ((n - 1) * s + 1) for d, t, n, s in zip(padded, tap, counts, self.stride, strict=True)]
            part = windows[:, :, index].value
            inner = (0, 0, *(s - 1 for s in self.stride))
            placed = Tensor(
                build.pad(part, number_like(0, part), low=(0, 0, *tap), high=(0, 0, *after), interior=inner)
            )
            total = placed if total is None else total + placed
        assert total is not None
        (a, b), (h, w) = self.padding, self.output_size
        return total[:, :, a : a + h, b : b + w]


class Flatten(Layer):
    """Axes start to end, inclusive, as one."""

    def __init__(self, start: int = 1, end: int = -1) -> None:
        self.start, self.end = start, end

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start, self.end)


class Unflatten(Layer):
    """An axis as several; one size may be -1. Shapes: [.., a * b, ..] -> [.., a, b, ..]."""

    def __init__(self, dim: int, sizes: Sequence[int]) -> None:
        self.dim, self.sizes = dim, tuple(sizes)

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(self.dim, *self.sizes)
