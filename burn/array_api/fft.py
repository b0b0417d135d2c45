"""The extension `fft` of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn import fft as transforms
from burn.tensors import Tensor


def fftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a transform's numbers for samples d apart: 0, 1, .., -2, -1 over n * d."""
    return _made(transforms.fftfreq(n, d, dtype or "float32"), device)


def rfftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a real transform's numbers: 0, 1, .. over n * d."""
    return _made(transforms.rfftfreq(n, d, dtype or "float32"), device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The halves of axes exchanged, so that the number of frequency 0 is in the middle."""
    return transforms.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return transforms.ifftshift(x, axes)


def _made(x: Tensor, device: Any) -> Tensor:
    return x if device is None else x.to_device(device)


__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]
