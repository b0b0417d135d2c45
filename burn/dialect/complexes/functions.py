"""Functions of complex numbers as pairs of real tensors: principal values, with the branch cuts of C99 and numpy.

Source of the inverse functions: W. Kahan, "Branch Cuts for Complex Elementary Functions", 1987.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.complexes.pair import (
    Complex,
    add,
    chosen,
    conjugate,
    divided,
    each,
    equal,
    full,
    like,
    negated,
    one,
    smith,
    times,
    with_sign,
)
from burn.dialect.deferred import Value
from burn.dialect.types import type_of


def magnitude(z: Complex) -> Value:
    return ops.hypot(z.real, z.imag)


def absolute(z: Complex) -> Value:
    """XLA's |z|: NaN if a part is, also beside an infinite one."""
    missing = ops.or_(ops.isnan(z.real), ops.isnan(z.imag))
    return ops.select(missing, like(math.nan, z.real), magnitude(z))


def turned(z: Complex) -> Complex:
    """i z"""
    return Complex(ops.neg(z.imag), z.real)


def turned_back(z: Complex) -> Complex:
    """-i z"""
    return Complex(z.imag, ops.neg(z.real))


def shifted(z: Complex, by: float) -> Complex:
    """z + by, for a real number."""
    return Complex(ops.add(z.real, like(by, z.real)), z.imag)


def exponential(z: Complex) -> Complex:
    scale = ops.exp(z.real)
    sine = ops.select(ops.eq(z.imag, like(0.0, z.imag)), z.imag, ops.mul(scale, ops.sin(z.imag)))
    return Complex(ops.mul(scale, ops.cos(z.imag)), sine)


def logarithm(z: Complex) -> Complex:
    """log max(|x|, |y|) + log1p((min / max)^2) / 2, which does not overflow, and the angle."""
    x, y = ops.abs(z.real), ops.abs(z.imag)
    large, small = ops.max(x, y), ops.min(x, y)
    plain = ops.or_(ops.eq(large, like(0.0, large)), ops.eq(small, like(math.inf, small)))
    ratio = ops.select(plain, like(0.0, small), ops.div(small, large))
    size = ops.add(ops.log(large), ops.mul(like(0.5, large), ops.log1p(ops.mul(ratio, ratio))))
    return Complex(size, ops.atan2(z.imag, z.real))


def square_root(z: Complex) -> Complex:
    """The root with a real part that is not negative. For a negative real part the larger part of the root is computed first.
    Large and tiny numbers are scaled by a power of four."""
    size = ops.max(ops.abs(z.real), ops.abs(z.imag))
    large, tiny = ops.ge(size, like(1e30, size)), ops.lt(size, like(1e-30, size))
    scale = ops.select(large, like(0.25, size), ops.select(tiny, like(2.0**40, size), like(1.0, size)))
    back = ops.select(large, like(2.0, size), ops.select(tiny, like(2.0**-20, size), like(1.0, size)))
    x, y = ops.mul(z.real, scale), ops.mul(z.imag, scale)
    half = ops.sqrt(ops.mul(ops.add(ops.hypot(x, y), ops.abs(x)), like(0.5, x)))
    zero = ops.eq(half, like(0.0, half))
    other = ops.div(ops.mul(y, like(0.5, y)), ops.select(zero, like(1.0, half), half))
    right = ops.ge(x, like(0.0, x))
    signed = ops.select(ops.lt(y, like(0.0, y)), ops.neg(half), half)
    found = Complex(ops.select(right, half, ops.abs(other)), ops.select(right, other, signed))
    infinite = ops.eq(ops.abs(z.imag), like(math.inf, z.imag))
    return chosen(infinite, Complex(ops.abs(z.imag), z.imag), each(found, lambda part: ops.mul(part, back)))


def inverse_square_root(z: Complex) -> Complex:
    """By size and angle; of infinite numbers it is 0."""
    size, angle = ops.rsqrt(magnitude(z)), ops.mul(like(-0.5, z.real), ops.atan2(z.imag, z.real))
    found = Complex(ops.mul(size, ops.cos(angle)), ops.mul(size, ops.sin(angle)))
    zero = full(type_of(size), 0)
    return chosen(ops.eq(magnitude(z), like(math.inf, size)), Complex(zero, zero), found)


def square(z: Complex) -> Complex:
    """(x - y)(x + y) + 2ixy; the real part is 0 where both are alike."""
    x, y = z.real, z.imag
    alike = ops.and_(ops.eq(ops.abs(x), ops.abs(y)), ops.lt(ops.abs(x), like(math.inf, x)))
    real = ops.mul(ops.sub(x, y), ops.add(x, y))
    twice = ops.mul(x, y)
    return Complex(ops.select(alike, like(0.0, x), real), ops.add(twice, twice))


def sine(z: Complex) -> Complex:
    """The real part is 0 for a real part of 0, also where cosh is infinite."""
    real = ops.mul(ops.sin(z.real), ops.cosh(z.imag))
    return Complex(_zero_at_zero(z.real, real), ops.mul(ops.cos(z.real), ops.sinh(z.imag)))


def _zero_at_zero(x: Value, result: Value) -> Value:
    return ops.select(ops.eq(x, like(0.0, x)), x, result)


def cosine(z: Complex) -> Complex:
    imag = _zero_at_zero(z.real, ops.mul(ops.sin(z.real), ops.sinh(z.imag)))
    return Complex(ops.mul(ops.cos(z.real), ops.cosh(z.imag)), ops.neg(imag))


def hyperbolic_sine(z: Complex) -> Complex:
    """Of a real number it is real, also where it is infinite."""
    imag = ops.mul(ops.cosh(z.real), ops.sin(z.imag))
    return Complex(ops.mul(ops.sinh(z.real), ops.cos(z.imag)), _zero_at_zero(z.imag, imag))


def hyperbolic_cosine(z: Complex) -> Complex:
    imag = ops.mul(ops.sinh(z.real), ops.sin(z.imag))
    return Complex(ops.mul(ops.cosh(z.real), ops.cos(z.imag)), _zero_at_zero(z.imag, imag))


def hyperbolic_tangent(z: Complex) -> Complex:
    """tanh(x + iy) with t = tan y and u = tanh x: (u + it) / (1 + iut)."""
    t, u = ops.tan(z.imag), ops.tanh(z.real)
    found = smith(Complex(u, t), Complex(full(type_of(t), 1), ops.mul(u, t)))
    infinite = ops.eq(ops.abs(z.real), like(math.inf, z.real))
    return chosen(infinite, Complex(u, full(type_of(t), 0)), found)


def tangent(z: Complex) -> Complex:
    """tan z = -i tanh(iz)."""
    return turned_back(hyperbolic_tangent(turned(z)))


def exponential_minus_one(z: Complex) -> Complex:
    """Without cancellation: exp(x) cos y - 1 = expm1(x) cos y - 2 sin(y / 2)^2."""
    half = ops.sin(ops.mul(z.imag, like(0.5, z.imag)))
    real = ops.sub(ops.mul(ops.expm1(z.real), ops.cos(z.imag)), ops.mul(like(2.0, half), ops.mul(half, half)))
    return Complex(real, exponential(z).imag)


def log_plus_one(z: Complex) -> Complex:
    """log|1 + z| as half of log1p(x (x + 2) + y^2), unless the square overflows."""
    inner = ops.add(ops.mul(z.real, ops.add(z.real, like(2.0, z.real))), ops.mul(z.imag, z.imag))
    small = ops.lt(ops.max(ops.abs(z.real), ops.abs(z.imag)), like(0.5, z.real))
    near = ops.mul(like(0.5, inner), ops.log1p(ops.select(small, inner, like(0.0, inner))))
    found = logarithm(shifted(z, 1.0))
    return Complex(ops.select(small, near, found.real), found.imag)


def logistic(z: Complex) -> Complex:
    return divided(one(z), add(one(z), exponential(negated(z))))


def sign(z: Complex) -> Complex:
    """z / |z|, and 0 for 0."""
    size = magnitude(z)
    size = ops.select(ops.eq(size, like(0.0, size)), like(1.0, size), size)
    return each(z, lambda x: ops.div(x, size))


def power(a: Complex, b: Complex) -> Complex:
    """exp(b log a). A number to the power 0 and 1 to any power are 1; 0 and +inf to a positive power are themselves; 0 to any
    other power is NaN."""
    zero, infinity = like(0.0, a.real), like(math.inf, a.real)
    none, unit = Complex(zero, zero), Complex(like(1.0, a.real), zero)
    positive = ops.and_(ops.gt(b.real, zero), ops.eq(b.imag, zero))
    endless = equal(a, Complex(infinity, zero))
    found = exponential(times(b, logarithm(a)))
    found = chosen(ops.and_(endless, positive), Complex(infinity, zero), found)
    at_zero = ops.select(positive, zero, like(math.nan, zero))
    found = chosen(equal(a, none), Complex(at_zero, at_zero), found)
    return chosen(ops.or_(equal(b, none), equal(a, unit)), unit, found)


# ---- inverse functions --------------------------------------------------------------------------------------------------------
# An imaginary part of -0 counts as 0, but in atan and atanh.
def _roots(x: Value, y: Value) -> tuple[Complex, Complex]:
    """The roots of 1 - x + iy and 1 + x + iy."""
    below, above = (square_root(Complex(ops.add(like(1.0, x), p), y)) for p in (ops.neg(x), x))
    return below, above


def _signed(x: Value, sign: Value) -> Value:
    """x, negated where the sign is less than 0."""
    return ops.select(ops.lt(sign, like(0.0, sign)), ops.neg(x), x)


def _far(z: Complex) -> tuple[Value, Value]:
    """If a number is so large that 1 does not change it, and the logarithm of twice its size."""
    size = ops.max(ops.abs(z.real), ops.abs(z.imag))
    return ops.ge(size, like(1e17, size)), ops.add(logarithm(z).real, like(math.log(2.0), size))


def arc_sine(z: Complex) -> Complex:
    x, y = ops.abs(z.real), ops.abs(z.imag)
    below, above = _roots(x, y)
    far, size = _far(Complex(x, y))
    real = ops.atan2(x, ops.select(far, y, times(conjugate(below), above).real))
    imag = ops.select(far, size, ops.asinh(times(below, above).imag))
    return Complex(_signed(real, z.real), _signed(imag, z.imag))


def arc_cosine(z: Complex) -> Complex:
    real, imag = arc_cosine_parts(z)
    return Complex(real, ops.neg(_signed(imag, z.imag)))


def arc_cosine_parts(z: Complex) -> tuple[Value, Value]:
    """The real part, and the size of the imaginary part."""
    x, y = z.real, ops.abs(z.imag)
    below, above = _roots(x, y)
    far, size = _far(Complex(x, y))
    near = ops.mul(like(2.0, x), ops.atan2(below.real, above.real))
    imag = ops.abs(ops.asinh(times(below, above).imag))
    return ops.select(far, ops.atan2(y, x), near), ops.select(far, size, imag)


def inverse_hyperbolic_cosine(z: Complex) -> Complex:
    angle, size = arc_cosine_parts(z)
    return Complex(size, _signed(angle, z.imag))


def inverse_hyperbolic_sine(z: Complex) -> Complex:
    """asinh z = -i asin(iz)."""
    return turned_back(arc_sine(turned(z)))


def inverse_hyperbolic_tangent(z: Complex) -> Complex:
    """With x not negative: log1p(4x / ((1 - x)^2 + y^2)) / 4 and half the angle of (1 - x)(1 + x) - y^2 + 2iy; of large numbers,
    1 / z + i pi / 2 with the sign of y."""
    x, y = z.real, z.imag
    huge = ops.gt(ops.max(ops.abs(x), ops.abs(y)), like(1e9, x))
    near = Complex(*(ops.select(huge, like(2.0, p), p) for p in (ops.abs(x), y)))
    less, more = ops.sub(like(1.0, x), near.real), ops.add(like(1.0, x), near.real)
    square = ops.mul(near.imag, near.imag)
    whole = ops.add(ops.mul(less, less), square)
    real = ops.mul(like(0.25, x), ops.log1p(ops.div(ops.mul(like(4.0, x), near.real), whole)))
    angle = ops.atan2(ops.mul(like(2.0, y), near.imag), ops.sub(ops.mul(less, more), square))
    far = ops.abs(divided(one(z), z).real)
    real = ops.select(huge, far, real)
    quarter = with_sign(full(type_of(y), math.pi / 2), y)
    return Complex(_signed(real, x), ops.select(huge, quarter, ops.mul(like(0.5, y), angle)))


def arc_tangent(z: Complex) -> Complex:
    """atan z = -i atanh(iz)."""
    return turned_back(inverse_hyperbolic_tangent(turned(z)))


FUNCTIONS: dict[str, Callable[[Complex], Any]] = {
    "abs": absolute,
    "acos": arc_cosine,
    "acosh": inverse_hyperbolic_cosine,
    "asin": arc_sine,
    "asinh": inverse_hyperbolic_sine,
    "atan": arc_tangent,
    "atanh": inverse_hyperbolic_tangent,
    "conj": conjugate,
    "cos": cosine,
    "cosh": hyperbolic_cosine,
    "exp": exponential,
    "expm1": exponential_minus_one,
    "imag": lambda z: z.imag,
    "log": logarithm,
    "log1p": log_plus_one,
    "logistic": logistic,
    "real": lambda z: z.real,
    "rsqrt": inverse_square_root,
    "sign": sign,
    "sin": sine,
    "sinh": hyperbolic_sine,
    "sqrt": square_root,
    "square": square,
    "tan": tangent,
    "tanh": hyperbolic_tangent,
}
"""Functions of one number, by their names in JAX."""
