"""Discrete Fourier transforms: `burn.fft.rfft(x)`, with numpy's names and arguments.

Transforms of real or complex tensors give complex ones. Lengths that factor are split as Cooley and Tukey did; a long prime
length costs its square (burn/dialect/signal.py). `norm` says which direction is divided: "backward" (the inverse, by n),
"forward" (the transform, by n) or "ortho" (both, by the root of n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim, dim_min, floordiv, plain
from burn.dialect.types import HALF_DTYPES
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.argument_types import explain_all
from burn.tensors.base import made
from burn.tensors.complexes import complex as complex_of
from burn.tensors.creation import arange, window, zeros

NORMS = ("backward", "ortho", "forward")


# ---- one axis ----------------------------------------------------------------------------------------------------------
def fft(x: Any, n: Dim | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """sum over t of x[t] exp(-2 pi i k t / n), of a real or complex tensor; cut or filled with zeros to n elements.
    float32 and narrower types give complex64, float64 gives complex128."""
    return _transformed(_numbers(x), n, axis, norm, inverse=False)


def ifft(x: Any, n: Dim | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""
    return _transformed(_numbers(x), n, axis, norm, inverse=True)


def rfft(x: Any, n: Dim | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 numbers of the transform of a real tensor; the others are their conjugates."""
    given = _real("rfft", x)
    index = given._present_axis(axis)
    length = given.type.shape[index] if n is None else n
    return fft(given, n, axis, norm)._cut(index, 0, floordiv(length, 2) + 1)


def irfft(x: Any, n: Dim | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers, 2 * (bins - 1) by default."""
    given = _numbers(x)
    index = given._present_axis(axis)
    length = (given.type.shape[index] - 1) * 2 if n is None else n
    _some(length)
    given = _fitted(given, floordiv(length, 2) + 1, index)
    k = arange(length)
    own = k <= made(compose.dim_value(floordiv(length, 2)))
    source = own.where(k, made(compose.dim_value(length)) - k)
    mirrored = given.take(source, index)
    if given.is_complex:
        mask = own.reshape(*(length if i == index else 1 for i in range(given.ndim)))
        mirrored = complex_of(mirrored.real, mask.where(mirrored.imag, -mirrored.imag))
    return ifft(mirrored, None, axis, norm).real


def hfft(x: Any, n: Dim | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The n real numbers that are the transform of a signal with x[-t] = conj(x[t]). x has its first n // 2 + 1 elements."""
    return irfft(_numbers(x).conj(), n, axis, _opposite(norm))


def ihfft(x: Any, n: Dim | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return rfft(x, n, axis, _opposite(norm)).conj()


# ---- several axes ------------------------------------------------------------------------------------------------------
def fftn(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """`fft` along several axes, all by default; s: the lengths, the last ones by default."""
    return _along(fft, _numbers(x), s, axes, norm)


def ifftn(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`."""
    return _along(ifft, _numbers(x), s, axes, norm)


def rfftn(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """`rfft` along the last of several axes, and `fft` along the others."""
    given = _real("rfftn", x)
    lengths, positions = _lengths(given, s, axes)
    half = rfft(given, lengths[-1], positions[-1], norm)
    return _along(fft, half, lengths[:-1], positions[:-1], norm)


def irfftn(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`; the last axis has 2 * (bins - 1) elements by default."""
    given = _numbers(x)
    lengths, positions = _lengths(given, s, axes)
    whole = _along(ifft, given, lengths[:-1], positions[:-1], norm)
    return irfft(whole, None if s is None else lengths[-1], positions[-1], norm)


def fft2(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Tensor:
    """`fftn` along two axes."""
    return fftn(x, s, axes, norm)


def ifft2(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Tensor:
    """The inverse of `fft2`."""
    return ifftn(x, s, axes, norm)


def rfft2(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Tensor:
    """`rfftn` along two axes."""
    return rfftn(x, s, axes, norm)


def irfft2(x: Any, s: Sequence[Dim] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Tensor:
    """The inverse of `rfft2`."""
    return irfftn(x, s, axes, norm)


# ---- frequencies -------------------------------------------------------------------------------------------------------
def _some(n: Dim) -> None:
    if isinstance(n, int) and n < 1:
        raise TypeMismatch("a transform has at least one element", [f"not {n}"])
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
    """Axes (all, by default) rotated so that frequency 0 comes to index n // 2."""
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


# ---- short-time transforms ---------------------------------------------------------------------------------------------
def stft(x: Any, size: int, step: int, weights: Tensor | None = None) -> Tensor:
    """The `rfft`s of frames of `size` elements, `step` apart, along the last axis, multiplied by `weights` [size] (a window
    such as burn.hann_window): [.., n] -> complex [.., frames, size // 2 + 1]."""
    frames = constant(x).unfold(-1, size, step)
    return rfft(frames if weights is None else frames * weights)


def istft(x: Any, size: int, step: int, weights: Tensor | None = None) -> Tensor:
    """The inverse of `stft`: complex [.., frames, size // 2 + 1] -> [.., (frames - 1) * step + size]. Overlapping frames are
    added with their weights, and divided by the sum of squared weights. Elements that no frame reads are 0."""
    frames = irfft(x, size)
    weights = constant(weights).astype(frames.dtype) if weights is not None else None
    *lead, count, _ = frames.type.shape
    length = (count - 1) * step + size
    index = (arange(count).unsqueeze(1) * step + arange(size)).ravel()

    def added(values: Tensor, *shape: Dim) -> Tensor:
        """Values [.., frames, size] added at their positions: [.., length]."""
        flat = values.reshape(*shape, count * size)
        start = zeros((*shape, length), dtype=frames.dtype)
        at = index.broadcast_to(*shape, count * size)
        return made(build.scatter_elements(start.value, at.value, flat.value, axis=len(shape), reduction="add"))

    total = added(frames if weights is None else frames * weights, *lead)
    square = (weights * weights if weights is not None else zeros((size,), dtype=frames.dtype) + 1.0).broadcast_to(
        count, size
    )
    share = added(square)
    return (share == 0).where(0.0, total / (share == 0).where(1.0, share))


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
def _numbers(x: Any) -> Tensor:
    """Floats or complex numbers; a pair of tensors is real and imaginary parts."""
    if isinstance(x, tuple):
        if len(x) != 2:
            raise TypeMismatch("complex numbers are a real and an imaginary part", [f"not {len(x)} parts"])
        real, imaginary = (constant(part)._floating() for part in x)
        if real.type != imaginary.type:
            raise TypeMismatch("the parts of complex numbers are alike", [f"not {real.type} and {imaginary.type}"])
        return complex_of(real, imaginary)
    given = constant(x)._field()
    return given.astype("float32") if given.dtype in HALF_DTYPES else given


def _real(name: str, x: Any) -> Tensor:
    given = constant(x)
    if given.is_complex:
        raise TypeMismatch(f"{name} is of real numbers", [f"not of {given.type}; take the real part, or write fft"])
    return _numbers(given)


def _opposite(norm: str) -> str:
    return {"backward": "forward", "forward": "backward"}.get(norm, norm)


def _transformed(x: Tensor, n: Dim | None, axis: int, norm: str, inverse: bool) -> Tensor:
    if norm not in NORMS:
        raise TypeMismatch(f"there is no norm {norm!r}", [f"there are {', '.join(NORMS)}"])
    index = x._present_axis(axis)
    moved = _fitted(x, n, index).moveaxis(index, -1)
    length = moved.type.shape[-1]
    _some(length)
    parts = (moved.real.value, moved.imag.value) if moved.is_complex else (moved.value, None)
    real, imaginary = (made(part) for part in build.dft(*parts, inverse=inverse))
    if norm != "backward":
        size = made(compose.dim_value(length, real.dtype))
        size = size.sqrt() if norm == "ortho" else size
        real, imaginary = (real * size, imaginary * size) if inverse else (real / size, imaginary / size)
    return complex_of(real, imaginary).moveaxis(-1, index)


def _lengths(
    x: Tensor, s: Sequence[Dim | None] | None, axes: Sequence[int] | None
) -> tuple[list[Dim | None], list[int]]:
    if axes is None and s is not None and len(s) > x.ndim:
        raise TypeMismatch("a transform has a length for each axis", [f"{len(s)} lengths for {x.type}"])
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    positions = [x._present_axis(a) for a in axes]
    lengths: list[Dim | None] = [*s] if s is not None else [None for _ in positions]
    if len(lengths) != len(positions) or not positions:
        raise TypeMismatch("a transform has a length for each axis", [f"{len(lengths)} for axes {list(axes)}"])
    return lengths, positions


def _along(
    function: Callable[..., Tensor], x: Tensor, s: Sequence[Dim | None] | None, axes: Sequence[int] | None, norm: str
) -> Tensor:
    lengths, positions = (list(s or ()), list(axes)) if axes is not None and s is not None else _lengths(x, s, axes)
    for n, axis in zip(lengths, positions, strict=True):
        x = function(x, n, axis, norm)
    return x


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
    "blackman_window", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hamming_window", "hann_window", "hfft", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "istft", "rfft", "rfft2", "rfftfreq", "rfftn", "stft",
]  # fmt: skip


explain_all(globals(), "fft")
