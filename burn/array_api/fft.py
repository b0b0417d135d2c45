"""The extension `fft` of the array API standard. Transforms give complex tensors.

norm: "backward" divides inverse transforms by the number of elements n, "forward" divides the others, "ortho" divides both by
the root of n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn import fft as transforms
from burn.tensors import Tensor


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """sum over t of x[t] exp(-2 pi i k t / n) along an axis, cut or filled with zeros to n elements."""
    return transforms.fft(x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""
    return transforms.ifft(x, n, axis, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 numbers of the transform of a real tensor; the others are their conjugates."""
    return transforms.rfft(x, n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers, 2 (bins - 1) by default."""
    return transforms.irfft(x, n, axis, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of numbers whose second half are conjugates of those given: n real numbers, 2 (bins - 1) by default."""
    return transforms.hfft(x, n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return transforms.ihfft(x, n, axis, norm)


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`fft` along several axes, all by default. s: their sizes."""
    return transforms.fftn(x, s, axes, norm)


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`."""
    return transforms.ifftn(x, s, axes, norm)


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`rfft` along the last of the axes, then `fft` along the others."""
    return transforms.rfftn(x, s, axes, norm)


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`."""
    return transforms.irfftn(x, s, axes, norm)


def fftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a transform's numbers for samples d apart: 0, 1, .., -2, -1 over n * d."""
    return _on(transforms.fftfreq(n, d, dtype or "float32"), device)


def rfftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a real transform's numbers: 0, 1, .. over n * d."""
    return _on(transforms.rfftfreq(n, d, dtype or "float32"), device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Axes rotated so that frequency 0 is in the middle."""
    return transforms.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return transforms.ifftshift(x, axes)


def _on(x: Tensor, device: Any) -> Tensor:
    return x if device is None else x.to_device(device)


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq",
    "rfftn",
]  # fmt: skip
