"""Functions of complex numbers with C99's signed zeros and special values (annex G), which numpy and PyTorch follow.

The functions of `functions.py` treat an imaginary part of -0 as 0, as XLA does. Here a function that is odd, or symmetric under
conjugation, is computed for parts without a sign, and gets the signs of its operand's parts back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.complexes import functions
from burn.dialect.complexes.functions import FUNCTIONS
from burn.dialect.complexes.pair import Complex, like, with_sign
from burn.dialect.deferred import Value
from burn.dialect.types import type_of

Function = Callable[[Complex], Complex]


def _infinite(x: Value) -> Value:
    return ops.eq(ops.abs(x), like(math.inf, x))


def _either_infinite(z: Complex) -> Value:
    return ops.or_(_infinite(z.real), _infinite(z.imag))


def _finite(x: Value) -> Value:
    return ops.lt(ops.abs(x), like(math.inf, x))


def _zero(x: Value) -> Value:
    return ops.eq(x, like(0.0, x))


def _missing(z: Complex) -> Value:
    return ops.or_(ops.isnan(z.real), ops.isnan(z.imag))


def _where(condition: Value, number: float, x: Value) -> Value:
    return ops.select(condition, like(number, x), x)


def _odd(function: Function) -> Function:
    """f(-z) = -f(z) and f(conj z) = conj f(z): computed for |x| + i|y|."""

    def signed(z: Complex) -> Complex:
        found = function(Complex(ops.abs(z.real), ops.abs(z.imag)))
        return Complex(with_sign(found.real, z.real), with_sign(found.imag, z.imag))

    return signed


def _even(function: Function) -> Function:
    """f(-z) = f(z) and f(conj z) = conj f(z): the imaginary part has the sign of xy."""

    def signed(z: Complex) -> Complex:
        found = function(Complex(ops.abs(z.real), ops.abs(z.imag)))
        return Complex(found.real, with_sign(with_sign(found.imag, z.real), z.imag))

    return signed


def _conjugate(function: Function) -> Function:
    """f(conj z) = conj f(z): computed for x + i|y|."""

    def signed(z: Complex) -> Complex:
        found = function(Complex(z.real, ops.abs(z.imag)))
        return Complex(found.real, with_sign(found.imag, z.imag))

    return signed


def _turned(z: Complex) -> Complex:
    """The parts exchanged: i conj(z). An odd function f of this kind is i conj(g(i conj z)) for its hyperbolic g."""
    return Complex(z.imag, z.real)


def exponential(z: Complex) -> Complex:
    x, loose = z.real, ops.not_(_finite(z.imag))
    found = FUNCTIONS["exp"](z)
    gone = ops.and_(loose, ops.eq(x, like(-math.inf, x)))
    whole = ops.and_(loose, ops.eq(x, like(math.inf, x)))
    return Complex(_where(whole, math.inf, _where(gone, 0.0, found.real)), _where(gone, 0.0, found.imag))


def logarithm(z: Complex) -> Complex:
    found = FUNCTIONS["log"](z)
    return Complex(_where(_either_infinite(z), math.inf, found.real), found.imag)


def log_plus_one(z: Complex) -> Complex:
    found = FUNCTIONS["log1p"](z)
    return Complex(_where(_either_infinite(z), math.inf, found.real), found.imag)


def _sinh(z: Complex) -> Complex:
    found = FUNCTIONS["sinh"](z)
    endless = ops.not_(_finite(z.imag))
    real = _where(ops.and_(_infinite(z.real), endless), math.inf, found.real)
    return Complex(_where(ops.and_(_zero(z.real), endless), 0.0, real), found.imag)


def _cosh(z: Complex) -> Complex:
    found = FUNCTIONS["cosh"](z)
    loose = ops.and_(_infinite(z.real), ops.not_(_finite(z.imag)))
    none = ops.and_(ops.or_(_zero(z.real), _zero(z.imag)), ops.isnan(found.imag))
    return Complex(_where(loose, math.inf, found.real), _where(none, 0.0, found.imag))


def _tanh(z: Complex) -> Complex:
    found = FUNCTIONS["tanh"](z)
    return Complex(_where(_zero(z.real), 0.0, found.real), _where(_zero(z.imag), 0.0, found.imag))


def _cosine(z: Complex) -> Complex:
    """cos(x + iy) = conj(cosh(y + ix)) for parts without a sign."""
    found = _cosh(_turned(z))
    return Complex(found.real, ops.neg(found.imag))


def _rotated(function: Function) -> Function:
    """sin, tan, asin and atan: the function of the exchanged parts, exchanged again."""
    return lambda z: _turned(function(_turned(z)))


def _arc_sine(z: Complex) -> Complex:
    found = functions.arc_sine(z)
    real = _where(_zero(z.real), 0.0, _where(_missing(z), math.nan, found.real))
    return Complex(real, _where(_either_infinite(z), math.inf, found.imag))


def _arc_cosine(z: Complex) -> Complex:
    """The angle, and the size negated."""
    real, size = functions.arc_cosine_parts(z)
    lost = ops.and_(_missing(z), ops.not_(_zero(z.real)))
    real = _where(ops.and_(_missing(z), _zero(z.real)), math.pi / 2, _where(lost, math.nan, real))
    return Complex(real, ops.neg(_where(_either_infinite(z), math.inf, size)))


def _inverse_hyperbolic_cosine(z: Complex) -> Complex:
    found = _arc_cosine(z)
    return Complex(ops.neg(found.imag), found.real)


def _inverse_hyperbolic_tangent(z: Complex) -> Complex:
    """Beside the pole at 1 the square of y may vanish: log(2 / y) / 2."""
    x, y = z.real, z.imag
    found = FUNCTIONS["atanh"](z)
    least = 1e-150 if type_of(x).dtype == "float64" else 1e-18
    beside = ops.and_(ops.and_(ops.eq(x, like(1.0, x)), ops.lt(y, like(least, y))), ops.not_(_zero(y)))
    near = ops.mul(like(0.5, y), ops.sub(like(math.log(2.0), y), ops.log(y)))
    real = ops.select(beside, near, found.real)
    real = _where(ops.or_(_zero(x), _either_infinite(z)), 0.0, real)
    imag = _where(_infinite(y), math.pi / 2, _where(ops.isnan(y), math.nan, found.imag))
    flat = ops.and_(_zero(y), ops.le(x, like(1.0, x)))
    return Complex(real, _where(flat, 0.0, imag))


C99: dict[str, Callable[[Complex], Any]] = {
    **FUNCTIONS,
    "acos": _conjugate(_arc_cosine),
    "acosh": _conjugate(_inverse_hyperbolic_cosine),
    "asin": _odd(_arc_sine),
    "asinh": _odd(_rotated(_arc_sine)),
    "atan": _odd(_rotated(_inverse_hyperbolic_tangent)),
    "atanh": _odd(_inverse_hyperbolic_tangent),
    "cos": _even(_cosine),
    "cosh": _even(_cosh),
    "exp": exponential,
    "log": logarithm,
    "log1p": log_plus_one,
    "sin": _odd(_rotated(_sinh)),
    "sinh": _odd(_sinh),
    "sqrt": _conjugate(functions.square_root),
    "tan": _odd(_rotated(_tanh)),
    "tanh": _odd(_tanh),
}
"""Functions of one number, by their names in JAX."""
