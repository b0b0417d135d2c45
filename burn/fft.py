"""Discrete Fourier transforms along an axis: `burn.fft.rfft(x)`.

Complex numbers are pairs of tensors: transforms give a `Spectrum` of real and imaginary parts, and take one (or any such
pair). Lengths that factor are split as Cooley and Tukey did; a long prime length costs its square (burn/dialect/signal.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim, dim_min, floordiv, plain
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.base import made
from burn.tensors.creation import arange, window


class Spectrum(NamedTuple):
    """Complex numbers, by parts."""

    real: Tensor
    imag: Tensor

    def abs(self) -> Tensor:
        """Their magnitudes."""
        return self.real.hypot(self.imag)

    def angle(self) -> Tensor:
        """Their angles in [-pi, pi]."""
        return self.imag.atan2(self.real)


def fft(x: Any, n: Dim | None = None, axis: int = -1) -> Spectrum:
    """sum over t of x[t] exp(-2 pi i k t / n), of a real tensor or a pair; cut or filled with zeros to n elements."""
    return _transformed(x, n, axis, inverse=False)


def ifft(x: Any, n: Dim | None = None, axis: int = -1) -> Spectrum:
    """The inverse of `fft`."""
    return _transformed(x, n, axis, inverse=True)


def rfft(x: Any, n: Dim | None = None, axis: int = -1) -> Spectrum:
    """The first n // 2 + 1 numbers of the transform of a real tensor; the others are their conjugates."""
    given = constant(x)
    index = given._axis(axis)
    length = given.type.shape[index] if n is None else n
    whole = fft(given, n, axis)
    return Spectrum(*(part._cut(index, 0, floordiv(length, 2) + 1) for part in whole))


def irfft(x: Any, n: Dim | None = None, axis: int = -1) -> Tensor:
    """The inverse of `rfft`: n real numbers, 2 * (bins - 1) by default."""
    real, given = _pair(x)
    imaginary = real * 0.0 if given is None else given
    index = real._axis(axis)
    length = (real.type.shape[index] - 1) * 2 if n is None else n
    bins = floordiv(length, 2) + 1
    real, imaginary = (_fitted(part, bins, index) for part in (real, imaginary))
    k = arange(length)
    own = k <= made(compose.dim_value(floordiv(length, 2)))
    source = own.where(k, made(compose.dim_value(length)) - k)
    sign = own.where(1.0, -1.0).reshape(*(length if i == index else 1 for i in range(real.ndim)))
    whole = real.take(source, index), imaginary.take(source, index) * sign.astype(real.dtype)
    return ifft(whole, axis=axis).real


def _some(n: Dim) -> None:
    compose.check_size(n, ">=", 1, "a transform has at least one element")


def fftfreq(n: Dim, d: float = 1.0, dtype: str = "float32") -> Tensor:
    """The frequencies of `fft`'s numbers for samples d apart: 0, 1, .., -2, -1 over n * d."""
    _some(n)
    k, half = arange(n), floordiv(n - 1, 2)
    size = made(compose.dim_value(n))
    turned = (k <= made(compose.dim_value(half))).where(k, k - size)
    return (turned.double() / (size.double() * d)).astype(dtype)


def rfftfreq(n: Dim, d: float = 1.0, dtype: str = "float32") -> Tensor:
    """The frequencies of `rfft`'s numbers: 0, 1, .. over n * d."""
    _some(n)
    return (arange(floordiv(n, 2) + 1).double() / (made(compose.dim_value(n)).double() * d)).astype(dtype)


def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """The halves of axes (of all, by default) exchanged, so that the number of frequency 0 comes to index n // 2."""
    return _shifted(x, axes, -1)


def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, 1)


def _shifted(x: Any, axes: int | Sequence[int] | None, direction: int) -> Tensor:
    result = constant(x)
    for axis in result._axes(axes):
        n = result.type.shape[axis]
        half = made(compose.dim_value(floordiv(n, 2)))
        result = result.take((arange(n) + direction * half) % made(compose.dim_value(n)), axis)
    return result


def stft(x: Any, size: int, step: int, weights: Tensor | None = None) -> Spectrum:
    """The `rfft`s of frames of `size` elements, `step` apart, along the last axis, multiplied by `weights` [size] (a window
    such as burn.hann_window): [.., n] -> [.., frames, size // 2 + 1]."""
    frames = constant(x).unfold(-1, size, step)
    return rfft(frames if weights is None else frames * weights)


# ---- windows -----------------------------------------------------------------------------------------------------------
def hann_window(size: Dim, periodic: bool = True, dtype: str = "float32") -> Tensor:
    """0.5 - 0.5 cos(2 pi n / N), N = size if periodic (for spectra), else size - 1 (numpy's `hanning`)."""
    return window("hann", size, periodic, dtype)


def hamming_window(size: Dim, periodic: bool = True, dtype: str = "float32") -> Tensor:
    """0.54 - 0.46 cos(2 pi n / N), N = size if periodic, else size - 1."""
    return window("hamming", size, periodic, dtype)


def blackman_window(size: Dim, periodic: bool = True, dtype: str = "float32") -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N), N = size if periodic, else size - 1."""
    return window("blackman", size, periodic, dtype)


# ---- how ---------------------------------------------------------------------------------------------------------------
def _pair(x: Any) -> tuple[Tensor, Tensor | None]:
    if not isinstance(x, tuple):
        return constant(x)._floating(), None
    if len(x) != 2:
        raise TypeMismatch("complex numbers are a real and an imaginary part", [f"not {len(x)} parts"])
    real, imaginary = (constant(part)._floating() for part in x)
    if real.type != imaginary.type:
        raise TypeMismatch("the parts of complex numbers are alike", [f"not {real.type} and {imaginary.type}"])
    return real, imaginary


def _transformed(x: Any, n: Dim | None, axis: int, inverse: bool) -> Spectrum:
    parts = _pair(x)
    index = parts[0]._axis(axis)
    moved = [None if p is None else _fitted(p, n, index).moveaxis(index, -1) for p in parts]
    assert moved[0] is not None
    _some(moved[0].type.shape[-1])
    results = build.dft(*(None if p is None else p.value for p in moved), inverse=inverse)
    return Spectrum(*(made(part).moveaxis(-1, index) for part in results))


def _fitted(x: Tensor, length: Dim | None, axis: int) -> Tensor:
    """The axis cut, or filled with zeros, to `length`."""
    have, length = x.type.shape[axis], None if length is None else plain(length)
    if length is None or have == length:
        return x._present()
    if isinstance(length, int) and length < 1:
        raise TypeMismatch("a transform has at least one element", [f"not {length}"])
    kept = x._cut(axis, 0, dim_min(have, length))
    missing = length - kept.type.shape[axis]
    return kept.pad([(0, missing if i == axis else 0) for i in range(x.ndim)])


__all__ = [
    "Spectrum", "blackman_window", "fft", "fftfreq", "fftshift", "hamming_window", "hann_window", "ifft", "ifftshift", "irfft",
    "rfft", "rfftfreq", "stft",
]  # fmt: skip
