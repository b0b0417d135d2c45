"""The extension `fft` of the array API standard. Transforms are of complex tensors.

norm: "backward" divides inverse transforms by the number of elements n, "forward" divides the others, "ortho" divides both by
the root of n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from burn import fft as pairs
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.complexes import complex

FACTORS: dict[str, Callable[[int], tuple[float, float]]] = {
    "backward": lambda n: (1.0, 1.0),
    "ortho": lambda n: (1.0 / math.sqrt(n), math.sqrt(n)),
    "forward": lambda n: (1.0 / n, float(n)),
}
"""By norm: the factors of a transform of n elements, and of an inverse transform that is divided by n."""
SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norm that divides the transforms of the other direction."""


def _scaled(result: Tensor, n: Any, norm: str, inverse: bool) -> Tensor:
    """The result of a transform of n elements with the norm."""
    if norm not in FACTORS:
        raise TypeMismatch(f"there is no norm {norm!r}", [f"there are {', '.join(FACTORS)}"])
    if norm == "backward":
        return result
    if not isinstance(n, int):
        raise TypeMismatch(f"the norm {norm!r} needs a size that is a number", [f"not {n}"])
    return result * FACTORS[norm](n)[inverse]


def _pair(x: Any) -> tuple[Tensor, Tensor]:
    given = constant(x)
    return given.real, given.imag


def _length(x: Any, n: Any, axis: int) -> Any:
    given = constant(x)
    return given.type.shape[given._axis(axis)] if n is None else n


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """sum over t of x[t] exp(-2 pi i k t / n) along an axis, cut or filled with zeros to n elements."""
    return _scaled(complex(*pairs.fft(_pair(x), n, axis)), _length(x, n, axis), norm, inverse=False)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""
    return _scaled(complex(*pairs.ifft(_pair(x), n, axis)), _length(x, n, axis), norm, inverse=True)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 numbers of the transform of a real tensor; the others are their conjugates."""
    return _scaled(complex(*pairs.rfft(constant(x), n, axis)), _length(x, n, axis), norm, inverse=False)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers, 2 (bins - 1) by default."""
    length = 2 * (_length(x, None, axis) - 1) if n is None else n
    return _scaled(pairs.irfft(_pair(x), length, axis), length, norm, inverse=True)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of numbers whose second half are conjugates of those given: n real numbers, 2 (bins - 1) by default."""
    return irfft(constant(x).conj(), n=n, axis=axis, norm=SWAPPED.get(norm, norm))


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return rfft(x, n=n, axis=axis, norm=SWAPPED.get(norm, norm)).conj()


def _several(x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """The axes of a transform along several, and their sizes. Raises TypeMismatch for sizes that do not fit the axes."""
    given = constant(x)
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(given.ndim)
    positions = [given._axis(a) for a in axes]
    if s is not None and len(s) != len(positions):
        raise TypeMismatch("a transform needs a size for each axis", [f"{list(s)} for axes {list(axes)}"])
    return list(zip(positions, [None] * len(positions) if s is None else s, strict=True))


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`fft` along several axes, all by default. s: their sizes."""
    for axis, n in _several(x, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`."""
    for axis, n in _several(x, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`rfft` along the last of the axes, then `fft` along the others."""
    *others, (last, length) = _several(x, s, axes)
    x = rfft(x, n=length, axis=last, norm=norm)
    for axis, n in others:
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`."""
    *others, (last, length) = _several(x, s, axes)
    for axis, n in others:
        x = ifft(x, n=n, axis=axis, norm=norm)
    return irfft(x, n=length, axis=last, norm=norm)


def fftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a transform's numbers for samples d apart: 0, 1, .., -2, -1 over n * d."""
    return _on(pairs.fftfreq(n, d, dtype or "float32"), device)


def rfftfreq(n: Any, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a real transform's numbers: 0, 1, .. over n * d."""
    return _on(pairs.rfftfreq(n, d, dtype or "float32"), device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The halves of axes exchanged, so that the number of frequency 0 is in the middle."""
    return pairs.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return pairs.ifftshift(x, axes)


def _on(x: Tensor, device: Any) -> Tensor:
    return x if device is None else x.to_device(device)


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq",
    "rfftn",
]  # fmt: skip
