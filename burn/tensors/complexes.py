"""Complex numbers: parts, conjugates, and conversion between real and complex tensors.

A real tensor is its own real part and its own conjugate, as in numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.types import DTYPES, PARTS, WHOLES
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.math import Math
from burn.tensors.promotion import Operand, constant, together

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Complexes(Math):
    """Parts of complex numbers."""

    __slots__ = ()

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.dtype in PARTS

    @property
    def real(self) -> Tensor:
        """The real part; of a real tensor, itself."""
        return made(build.real(self.value)) if self.is_complex else self._present()

    @property
    def imag(self) -> Tensor:
        """The imaginary part; of a real tensor, zeros."""
        return made(build.imag(self.value) if self.is_complex else compose.zeros_like(self.value))

    def conj(self) -> Tensor:
        """The complex conjugate; of a real tensor, itself."""
        return made(build.conj(self.value)) if self.is_complex else self._present()

    conjugate = conj

    def angle(self) -> Tensor:
        """The angle in (-pi, pi]; of a real number 0 or pi."""
        x: Tensor = self._field()
        return x.imag.atan2(x.real)

    def view_as_real(self) -> Tensor:
        """The real and the imaginary part along a new last axis: [...] -> [..., 2]."""
        return made(build.view_as_real(self.value))

    def view_as_complex(self) -> Tensor:
        """Complex numbers of parts along the last axis: [..., 2] -> [...], of float32 or float64."""
        return made(build.view_as_complex(self.value))


def _parts(re: Any, im: Any, what: str) -> tuple[Tensor, Tensor]:
    a, b = together(constant(re), constant(im), floating=True)
    if a.dtype in ("float16", "bfloat16"):
        a, b = a.astype("float32"), b.astype("float32")
    if a.dtype not in WHOLES:
        raise TypeMismatch(f"{what} takes real numbers", [f"not {a.type}"])
    return a, b


def complex(re: Operand, im: Operand = 0.0) -> Tensor:  # named as it is used: burn.complex
    """re + i im, of two real tensors or numbers that broadcast: complex64, or complex128 for float64."""
    a, b = _parts(re, im, "complex")
    return made(build.complex(a.value, b.value))


def polar(abs: Operand, angle: Operand) -> Tensor:
    """Complex numbers of magnitudes and angles: abs * (cos(angle) + i sin(angle))."""
    a, b = _parts(abs, angle, "polar")
    return complex(a * b.cos(), a * b.sin())


def real(x: Any) -> Tensor:
    """The real part; of a real tensor, itself."""
    return constant(x).real


def imag(x: Any) -> Tensor:
    """The imaginary part; of a real tensor, zeros."""
    return constant(x).imag


def is_complex(x: Any) -> bool:
    """True for a tensor of complex numbers."""
    return DTYPES[constant(x).dtype].kind == "complex"


__all__ = ["Complexes", "complex", "imag", "is_complex", "polar", "real"]
