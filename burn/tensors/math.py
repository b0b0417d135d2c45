"""Functions of each element on its own: roots, powers, logarithms, angles, rounding, bits.

Functions that give fractions take integers and bools as float32; rounding leaves integers as they are. Two operands
broadcast and are promoted as in `promotion.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import compose, special
from burn.dialect import ops as build
from burn.dialect.types import CONTINUOUS, DTYPES, FLOATS, INTEGERS, numpy_dtype
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.operators import Operators, binary
from burn.tensors.promotion import Operand, together

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Math(Operators):
    """Pointwise functions."""

    __slots__ = ()

    def _fraction(self, name: str) -> Tensor:
        """A function of floats and complex numbers."""
        return made(getattr(build, name)(self._field().value))

    def _rounding(self, name: str) -> Tensor:
        return made(self.value) if self.dtype in INTEGERS else self._fraction(name)

    # ---- powers and logarithms ---------------------------------------------------------------------------------------
    def exp(self) -> Tensor:
        """e to the power of each element."""
        return self._fraction("exp")

    def exp2(self) -> Tensor:
        """2 to the power of each element."""
        return binary("pow", 2.0, self._field())

    def expm1(self) -> Tensor:
        """exp(x) - 1, exact near 0."""
        return self._fraction("expm1")

    def log(self) -> Tensor:
        """The natural logarithm; -inf at 0, NaN below."""
        return self._fraction("log")

    def log2(self) -> Tensor:
        """The logarithm to base 2."""
        return self.log() * (1 / math.log(2))

    def log10(self) -> Tensor:
        """The logarithm to base 10."""
        return self.log() * (1 / math.log(10))

    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0."""
        return self._fraction("log1p")

    def sqrt(self) -> Tensor:
        """The square root; NaN below 0."""
        return self._fraction("sqrt")

    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return self._fraction("rsqrt")

    def square(self) -> Tensor:
        """x * x."""
        return made(build.mul(self.value, self.value))

    def reciprocal(self) -> Tensor:
        """1 / x."""
        return self._fraction("reciprocal")

    def pow(self, exponent: Operand) -> Tensor:
        """Each element to the power of the exponent's, as `**`."""
        return binary("pow", self, exponent)

    power = pow

    # ---- angles ------------------------------------------------------------------------------------------------------
    def sin(self) -> Tensor:
        """The sine of an angle in radians."""
        return self._fraction("sin")

    def cos(self) -> Tensor:
        """The cosine of an angle in radians."""
        return self._fraction("cos")

    def tan(self) -> Tensor:
        """The tangent of an angle in radians."""
        return self._fraction("tan")

    def asin(self) -> Tensor:
        """The angle in [-pi/2, pi/2] whose sine is x."""
        return self._fraction("asin")

    def acos(self) -> Tensor:
        """The angle in [0, pi] whose cosine is x."""
        return self._fraction("acos")

    def atan(self) -> Tensor:
        """The angle in [-pi/2, pi/2] whose tangent is x."""
        return self._fraction("atan")

    def sinh(self) -> Tensor:
        """The hyperbolic sine."""
        return self._fraction("sinh")

    def cosh(self) -> Tensor:
        """The hyperbolic cosine."""
        return self._fraction("cosh")

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return self._fraction("tanh")

    def asinh(self) -> Tensor:
        """The inverse hyperbolic sine."""
        return self._fraction("asinh")

    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosine; NaN below 1."""
        return self._fraction("acosh")

    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangent; NaN outside of [-1, 1]."""
        return self._fraction("atanh")

    def atan2(self, other: Operand) -> Tensor:
        """The angle in [-pi, pi] of the point (other, self)."""
        return binary("atan2", self, other, floating=True)

    arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
    arcsinh, arccosh, arctanh = asinh, acosh, atanh

    def hypot(self, other: Operand) -> Tensor:
        """sqrt(self^2 + other^2)."""
        return binary("hypot", self, other, floating=True)

    def deg2rad(self) -> Tensor:
        """Degrees as radians."""
        return self._floating() * (math.pi / 180)

    def rad2deg(self) -> Tensor:
        """Radians as degrees."""
        return self._floating() * (180 / math.pi)

    def erf(self) -> Tensor:
        """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
        return self._fraction("erf")

    # ---- rounding and signs ------------------------------------------------------------------------------------------
    def floor(self) -> Tensor:
        """The next integer towards minus infinity, in the same element type."""
        return self._rounding("floor")

    def ceil(self) -> Tensor:
        """The next integer towards infinity, in the same element type."""
        return self._rounding("ceil")

    def round(self, decimals: int = 0) -> Tensor:
        """The nearest integer, ties to even, in the same element type; or the nearest number with `decimals` decimals."""
        if decimals == 0 or (decimals > 0 and self.dtype in INTEGERS):
            return self._rounding("round")
        if self.dtype in INTEGERS:
            raise TypeMismatch("integers are rounded to no tens", [f"decimals is {decimals}"])
        scale = 10.0 ** abs(decimals)
        return (self * scale).round() / scale if decimals > 0 else (self / scale).round() * scale

    __round__ = round

    def trunc(self) -> Tensor:
        """The next integer towards zero, in the same element type."""
        return self._rounding("trunc")

    def frac(self) -> Tensor:
        """x - trunc(x), with the sign of x."""
        return self._floating() - self._floating().trunc()

    def sign(self) -> Tensor:
        """-1, 0 or 1; NaN stays NaN."""
        return made(build.sign(self.value))

    def signbit(self) -> Tensor:
        """True for negative x and for minus zero."""
        kind, bits = DTYPES[self.dtype].kind, DTYPES[self.dtype].bits
        return made(build.bitcast(self.value, dtype=f"int{bits}")) < 0 if kind == "float" else self < 0

    def copysign(self, other: Operand) -> Tensor:
        """The magnitude of self with the sign of other, that of zeros included. The derivative by self is 0 at 0, as that of
        `abs` and PyTorch's."""
        size, sign = together(self, other, floating=True)
        magnitude = build.abs(size.value)
        return made(build.select(sign.signbit().value, build.neg(magnitude), magnitude))

    def abs(self) -> Tensor:
        """The magnitude."""
        return made(build.abs(self.value))

    def neg(self) -> Tensor:
        """-x."""
        return made(build.neg(self.value))

    negative = neg

    # ---- two operands ------------------------------------------------------------------------------------------------
    def add(self, other: Operand) -> Tensor:
        """self + other."""
        return binary("add", self, other)

    def sub(self, other: Operand) -> Tensor:
        """self - other."""
        return binary("sub", self, other)

    def mul(self, other: Operand) -> Tensor:
        """self * other."""
        return binary("mul", self, other)

    def div(self, other: Operand) -> Tensor:
        """self / other; integers are divided as float32."""
        return binary("div", self, other, floating=True)

    subtract, multiply, divide = sub, mul, div

    def floor_divide(self, other: Operand) -> Tensor:
        """floor(self / other), as `//`; integers stay integers, and x // 0 is 0."""
        return binary("floordiv", self, other)

    def remainder(self, other: Operand) -> Tensor:
        """The remainder with the sign of other, as `%`."""
        return binary("mod", self, other)

    mod = remainder

    def divmod(self, other: Operand) -> tuple[Tensor, Tensor]:
        """`floor_divide` and `remainder`, as Python's divmod."""
        return divmod(self, other)  # type: ignore[return-value]

    def fmod(self, other: Operand) -> Tensor:
        """The remainder with the sign of self, as C's fmod."""
        return binary("fmod", self, other)

    def logaddexp(self, other: Operand) -> Tensor:
        """log(exp(self) + exp(other)), without overflow."""
        a, b = together(self, other, floating=True)
        same = (a == b) & a.isinf()  # inf - inf is NaN
        first = a >= b  # each operand at most once: the derivatives are right where both are equal
        gap: Any = same.where(-math.inf, first.where(b - a, a - b))
        return first.where(a, b) + gap.softplus()

    def nextafter(self, other: Operand) -> Tensor:
        """The next number of the element type after self, in the direction of other; other itself if both are equal. It has no
        derivative."""
        a, b = together(self, other, floating=True)
        return made(special.next_after(a.value, b.value))

    def maximum(self, other: Operand) -> Tensor:
        """The larger of two; NaN if either is."""
        return binary("max", self, other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller of two; NaN if either is."""
        return binary("min", self, other)

    def clip(self, low: Operand | None = None, high: Operand | None = None) -> Tensor:
        """Elements below low become low, then those above high become high. Either bound may be None, but not both."""
        if low is None and high is None:
            raise TypeMismatch("clip needs a bound", ["give low, high or both"])
        x: Any = self
        bounds = []
        for bound in (low, high):
            x, bound = together(x, bound) if bound is not None else (x, None)
            bounds.append(bound)
        return made(compose.clamp(x.value, *(None if b is None else b.astype(x.dtype).value for b in bounds)))

    clamp = clip

    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """self + weight * (end - self): self at weight 0, end at weight 1."""
        return self + weight * (end - self)  # type: ignore[operator]

    # ---- predicates --------------------------------------------------------------------------------------------------
    def isnan(self) -> Tensor:
        """True where the element, or a part of it, is NaN; integers never are."""
        return self._is("isnan")

    def isinf(self) -> Tensor:
        """True where the element, or a part of it, is an infinity; integers never are."""
        return self._is("isinf")

    def isfinite(self) -> Tensor:
        """True where the element is neither NaN nor an infinity."""
        return ~(self.isnan() | self.isinf())

    def _is(self, name: str) -> Tensor:
        if self.dtype not in CONTINUOUS:
            return made(build.full(shape=self.type.shape, dtype="bool", value=0.0))
        return made(getattr(build, name)(self.value))

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """NaN and the infinities replaced; the infinities by the largest finite numbers unless others are given."""
        if self.dtype not in FLOATS:
            return made(self.value)
        top = _largest(self.dtype)
        high, low = top if posinf is None else posinf, -top if neginf is None else neginf
        x: Any = made(self.value)
        infinite = x.isinf()
        x = (infinite & (x > 0)).where(high, (infinite & (x < 0)).where(low, x))
        return self.isnan().where(nan, x)

    def isclose(self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """|self - other| <= atol + rtol * |other|, element by element; infinities are close to themselves."""
        a, b = together(self, other, floating=True)
        close = (a - b).abs() <= atol + rtol * b.abs()
        result = ((close & b.isfinite()) | (a == b)) if a.dtype in CONTINUOUS else close
        return result | (a.isnan() & b.isnan()) if equal_nan else result

    def allclose(self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """True if all elements are close (`isclose`): a bool scalar."""
        return self.isclose(other, rtol, atol, equal_nan).all()

    def where(self, on_true: Operand, on_false: Operand) -> Tensor:
        """`on_true` where this bool tensor is true, `on_false` elsewhere; the three broadcast."""
        if self.dtype != "bool":
            raise TypeMismatch("where chooses by bools", [f"not by {self.type}; write (x != 0).where(...)"])
        a, b = together(on_true, on_false)
        return made(build.select(self.value, a.value, b.value))


def _largest(dtype: str) -> float:
    if dtype == "bfloat16":
        import ml_dtypes

        return float(ml_dtypes.finfo(numpy_dtype(dtype)).max)
    return float(np.finfo(numpy_dtype(dtype)).max)
