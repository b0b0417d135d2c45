"""Special functions that burn has no primitive for, from elementary ones.

They are computed in float64 and rounded once (`rounded`). For float32 and smaller they are exact to the last digit or two;
variants for these say their error (`narrow`). For float64 the error is about 1e-14 (of the value, or of 1 near a zero). Formulas
are from the Digital Library of Mathematical Functions, https://dlmf.nist.gov, with its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, number_like
from burn.dialect.deferred import Value
from burn.dialect.resize import polynomial
from burn.dialect.types import DTYPES, type_of

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""B2, B4 .. B14 (24.2.4)."""
SHIFT = 10
"""Asymptotic series are taken this far to the right of the argument, where their seven terms reach float64."""


Real = Callable[[Value], Value]

_NARROW: dict[Real, tuple[Real, str]] = {}


def narrow(function: Real, dtype: str) -> Callable[[Real], Real]:
    """Decorates the variant of a function for results of float32 and less. dtype: of its operand and of its arithmetic."""

    def decorate(variant: Real) -> Real:
        _NARROW[function] = variant, dtype
        return variant

    return decorate


def computed(function: Real, x: Value, dtype: str) -> Value:
    """The function of x, computed in float64 or by its narrow variant, as a result of an element type."""
    inner = "float64"
    if type_of(x).dtype != "float64" and dtype != "float64":
        function, inner = _NARROW.get(function, (function, inner))
    return convert(function(convert(x, inner)), dtype)


def rounded(function: Real) -> Real:
    """The function computed in float64, in the operand's element type."""
    return lambda x: computed(function, x, type_of(x).dtype)


def _c(value: float, x: Value) -> Value:
    return number_like(value, x)


def _where(condition: Value, value: float | Value, other: Value) -> Value:
    return ops.select(condition, _c(value, other) if isinstance(value, (int, float)) else value, other)


def _series(x: Value, *coefficients: float) -> Value:
    """sum of c[k] x^k, the lowest power first."""
    return polynomial(x, *reversed(coefficients))


def _whole(x: Value) -> Value:
    return ops.eq(ops.floor(x), x)


# ---- the gamma function's family ------------------------------------------------------------------------------------------
def _zeta_above_one(s: int) -> float:
    """zeta(s) - 1: 18 terms, then Euler and Maclaurin's formula (25.11.5) at 20."""
    n = 20.0
    tail = n ** (1 - s) / (s - 1) + n**-s / 2
    factor = s * n ** (-s - 1)
    for k, b in enumerate(BERNOULLI, 1):
        tail += factor * b / math.factorial(2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k) / n**2
    return math.fsum([*(j**-s for j in range(2, 20)), tail])


AROUND_TWO = (1 - 0.57721566490153286, *((-1) ** k * _zeta_above_one(k) / k for k in range(2, 31)))
"""log gamma(2 + t) / t as powers of t (5.7.3): Euler's constant, and zeta at whole numbers."""
NARROW_AROUND_TWO = (0.4227843350997953, 0.3224670334234966, -0.06735230143541507, 0.020580808605237744)
NARROW_AROUND_TWO = (*NARROW_AROUND_TWO, -0.007385533261288008, 0.0028905020821439896, -0.0011930547050406706)
NARROW_AROUND_TWO = (*NARROW_AROUND_TWO, 0.0005098091580313527, -0.00022086982602425632, 9.839697643190869e-05)
NARROW_AROUND_TWO = (*NARROW_AROUND_TWO, -5.278721858454867e-05, 2.4154595381278688e-05)
"""The same for |t| <= 1/2, interpolated at Chebyshev's points: the error is 7e-12."""


def lgamma(x: Value) -> Value:
    """log|gamma(x)|: infinite at 0, -1, .."""
    return _lgamma(x, AROUND_TWO, SHIFT, len(BERNOULLI), sine=12)


@narrow(lgamma, "float64")
def _narrow_lgamma(x: Value) -> Value:
    """With an error of 1e-10 before it is rounded."""
    return _lgamma(x, NARROW_AROUND_TWO, shift=4, terms=4, sine=8)


def _lgamma(x: Value, around_two: tuple[float, ...], shift: int, terms: int, sine: int) -> Value:
    """The series at 2 (5.7.3) from 1/2 to 5/2, where the function has its zeros. Stirling's series (5.11.1) of `terms` terms at
    x + shift beyond. The reflection (5.5.3) below 1/2, with so many terms of the sine; the recurrence (5.5.1) and it share a
    logarithm."""
    one, small = _c(1.0, x), ops.lt(x, _c(0.5, x))
    y = ops.select(small, ops.sub(one, x), x)
    steps: Any = y
    for k in range(1, shift):
        steps = ops.mul(steps, ops.add(y, _c(k, y)))
    large = ops.gt(y, _c(1e6, y))  # the series needs no shift there, and `steps` would overflow
    steps = _where(large, 1.0, steps)
    z = ops.select(large, y, ops.add(y, _c(shift, y)))
    inverse = ops.reciprocal(z)
    tail = ops.mul(
        inverse,
        _series(ops.mul(inverse, inverse), *(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:terms], 1))),
    )
    main = ops.sub(ops.mul(ops.sub(z, _c(0.5, z)), ops.log(z)), z)
    main = ops.add(ops.add(main, _c(0.5 * math.log(2 * math.pi), z)), tail)
    first, near = ops.lt(y, _c(1.5, y)), ops.lt(y, _c(2.5, y))
    t = ops.sub(y, ops.select(first, one, _c(2.0, y)))
    main = ops.select(near, ops.mul(t, _series(t, *around_two)), main)
    factor = ops.select(near, ops.select(first, y, one), steps)
    # sin(pi r) by Taylor's series, which is exact at 0
    r = ops.sub(x, ops.round(x))
    signs = [(-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(sine)]
    size = ops.abs(ops.mul(r, _series(ops.mul(r, r), *signs)))
    logarithm = ops.log(ops.select(small, ops.div(size, ops.mul(factor, _c(math.pi, x))), factor))
    value = ops.select(small, ops.neg(ops.add(logarithm, main)), ops.sub(main, logarithm))
    infinite = ops.or_(ops.isinf(x), ops.and_(small, ops.eq(r, _c(0.0, x))))
    return _where(infinite, math.inf, value)


def digamma(x: Value) -> Value:
    """gamma'(x) / gamma(x): the asymptotic series (5.11.2) at x + 10, the recurrence (5.5.2), the reflection (5.5.4); NaN at
    -1, -2, .., and an infinity of the other sign at the two zeros."""
    small = ops.lt(x, _c(0.5, x))
    y = ops.select(small, ops.sub(_c(1.0, x), x), x)
    steps: Any = ops.reciprocal(y)
    for k in range(1, SHIFT):
        steps = ops.add(steps, ops.reciprocal(ops.add(y, _c(k, y))))
    z = ops.add(y, _c(SHIFT, y))
    inverse = ops.reciprocal(z)
    square = ops.mul(inverse, inverse)
    terms = [b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
    tail = ops.add(ops.mul(inverse, _c(0.5, z)), ops.mul(square, _series(square, *terms)))
    value = ops.sub(ops.sub(ops.log(z), tail), steps)
    angle = ops.mul(ops.sub(x, ops.round(x)), _c(math.pi, x))
    reflected = ops.sub(value, ops.div(_c(math.pi, x), ops.tan(angle)))
    reflected = _where(_whole(x), math.nan, reflected)
    result = ops.select(small, reflected, value)
    return _where(ops.eq(x, _c(0.0, x)), ops.neg(ops.reciprocal(x)), result)


def zeta(s: Value, q: Value) -> Value:
    """sum over k >= 0 of (q + k)^-s, for s > 1. A negative q needs a whole s. Its negative terms are those of a sum in the
    other direction: (-1)^s (zeta(s, 1 - f) - zeta(s, 1 - q)), with f the fractional part of q."""
    one, negative = _c(1.0, s), ops.lt(q, _c(0.0, q))
    f = ops.sub(q, ops.floor(q))
    even = ops.eq(ops.mod(s, _c(2.0, s)), _c(0.0, s))
    others = ops.sub(_sum(s, ops.sub(one, f)), _sum(s, ops.sub(one, ops.select(negative, q, _c(0.0, q)))))
    below = ops.add(_sum(s, f), ops.select(even, others, ops.neg(others)))
    total = ops.select(negative, ops.select(_whole(s), below, _c(math.nan, s)), _sum(s, q))
    total = _where(ops.and_(ops.le(q, _c(0.0, q)), _whole(q)), math.inf, total)
    total = _where(ops.eq(s, one), math.inf, total)
    return _where(ops.lt(s, one), math.nan, total)


def zeta_of_xla(s: Value, q: Value) -> Value:
    """`zeta` in the operands' element type. At the poles q = 0, -1, .. it is infinite for an even s, and NaN for any other."""
    wide_s, wide_q = convert(s, "float64"), convert(q, "float64")
    pole = ops.and_(ops.le(wide_q, _c(0.0, wide_q)), _whole(wide_q))
    even = ops.eq(ops.mod(wide_s, _c(2.0, wide_s)), _c(0.0, wide_s))
    at_pole = ops.select(even, _c(math.inf, wide_s), _c(math.nan, wide_s))
    value = ops.select(pole, at_pole, zeta(wide_s, wide_q))
    return convert(_where(ops.eq(wide_s, _c(1.0, wide_s)), math.inf, value), type_of(s).dtype)


def _sum(s: Value, q: Value) -> Value:
    """`zeta` for q > 0: ten terms, then Euler and Maclaurin's formula (25.11.5) with seven."""
    power = ops.neg(s)
    total: Any = ops.pow(q, power)
    for k in range(1, SHIFT):
        total = ops.add(total, ops.pow(ops.add(q, _c(k, q)), power))
    a = ops.add(q, _c(SHIFT, q))
    last = ops.pow(a, power)
    total = ops.add(total, ops.div(ops.mul(last, a), ops.sub(s, _c(1.0, s))))
    total = ops.add(total, ops.mul(last, _c(0.5, q)))
    inverse = ops.reciprocal(a)
    square = ops.mul(inverse, inverse)
    factor = ops.mul(ops.mul(last, inverse), s)  # s (s + 1) .. (s + 2k - 2) a^(-s - 2k + 1)
    for k, b in enumerate(BERNOULLI, 1):
        total = ops.add(total, ops.mul(factor, _c(b / math.factorial(2 * k), q)))
        rising = ops.mul(ops.add(s, _c(2 * k - 1, s)), ops.add(s, _c(2 * k, s)))
        factor = ops.mul(ops.mul(factor, square), rising)
    return total


# ---- error functions --------------------------------------------------------------------------------------------------------
SCALED = (1.2329951186255526, -0.1396211168405625, 0.015379652102620043, 0.0680970542546915, -0.10103906603632531)
SCALED = (*SCALED, 0.09373283499839856, -0.06633036581163801, 0.03716751553659459, -0.016197734066131217)
SCALED = (*SCALED, 0.005031969986384833, -0.000757773217833116, -0.00019925673873841222, 0.00015062129738671902)
SCALED = (*SCALED, -2.4399088847660157e-05, -1.1220714057028525e-05, 5.70959085941704e-06, 2.9080103880439256e-07)
SCALED = (*SCALED, -8.256328662721886e-07, 7.912967211230534e-08, 1.110147131556594e-07, -2.216855318558915e-08)
SCALED = (*SCALED, -1.5513315617886106e-08, 4.200305215266063e-09, 2.2478113664913687e-09, -6.732709696571896e-10)
SCALED = (*SCALED, -2.899582157475778e-10, 8.518664541403873e-11, 2.2591543236660944e-11, -6.196918288183327e-12)
"""(1 + 2 x) erfcx(x) for x >= 0 as a polynomial in t = (x - 4) / (x + 4), the lowest power first: Chebyshev's expansion of
degree 28, which has an error of 5e-16. This form of the argument is M. M. Shepherd's and J. G. Laframboise's (Mathematics of
Computation 36, 1981)."""


def erfcx(x: Value) -> Value:
    """exp(x^2) erfc(x)."""
    y = ops.abs(x)
    t = ops.sub(_c(1.0, x), ops.div(_c(8.0, x), ops.add(y, _c(4.0, x))))
    above = ops.div(_series(t, *SCALED), ops.add(ops.mul(_c(2.0, x), y), _c(1.0, x)))
    low = ops.min(x, _c(0.0, x))
    below = ops.sub(ops.mul(_c(2.0, x), ops.exp(ops.mul(low, low))), above)
    return _where(ops.isnan(x), math.nan, ops.select(ops.lt(x, _c(0.0, x)), below, above))


def cbrt(x: Value) -> Value:
    """The real cube root, with one of Newton's steps."""
    size = ops.abs(x)
    root = ops.pow(size, _c(1 / 3, x))
    better = ops.sub(root, ops.div(ops.sub(root, ops.div(size, ops.mul(root, root))), _c(3.0, x)))
    plain = ops.and_(ops.gt(size, _c(0.0, x)), ops.not_(ops.isinf(size)))
    root = ops.select(plain, better, root)
    return ops.select(ops.lt(x, _c(0.0, x)), ops.neg(root), root)


# ---- Bessel functions ---------------------------------------------------------------------------------------------------------
TERMS = 50
"""Of a power series in (x/2)^2, which up to |x| = 20 reach float64."""
FAR = 20.0
EXPANSION = 30
"""Terms of the expansion for large arguments (10.40.1), which from 20 on reach float64."""


def scaled_bessel(order: int) -> Callable[[Value], Value]:
    """exp(-|x|) I0(x), or I1: the power series (10.25.2) up to 20, the expansion for large arguments beyond."""
    powers = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(TERMS)]
    far, term = [1.0], 1.0
    for k in range(1, EXPANSION):
        term *= -((4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
        far.append(term)

    def function(x: Value) -> Value:
        size = ops.abs(x)
        half = ops.mul(ops.min(size, _c(FAR, x)), _c(0.5, x))
        near = ops.mul(_series(ops.mul(half, half), *powers), ops.exp(ops.neg(ops.min(size, _c(FAR, x)))))
        near = ops.mul(near, half) if order else near
        inverse = ops.reciprocal(ops.max(size, _c(FAR, x)))
        beyond = ops.mul(_series(inverse, *far), ops.sqrt(ops.mul(inverse, _c(1 / (2 * math.pi), x))))
        value = ops.select(ops.le(size, _c(FAR, x)), near, beyond)
        value = ops.select(ops.isnan(x), x, value)
        return ops.select(ops.lt(x, _c(0.0, x)), ops.neg(value), value) if order else value

    return function


def bessel(order: int) -> Callable[[Value], Value]:
    scaled = scaled_bessel(order)
    return lambda x: ops.mul(scaled(x), ops.exp(ops.abs(x)))


def polygamma(n: int, x: Value) -> Value:
    """The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x)."""
    if n == 0:
        return digamma(x)
    sign = 1.0 if n % 2 else -1.0
    total = _where(ops.eq(x, _c(math.inf, x)), 0.0, zeta(_c(n + 1, x), x))
    return ops.mul(total, _c(sign * math.factorial(n), x))


def erfc(x: Value) -> Value:
    """1 - erf(x), without cancellation. x is float64."""
    high = convert(convert(x, "float32"), "float64")  # its square is exact
    rest = ops.mul(ops.sub(x, high), ops.add(x, high))
    falling = ops.mul(ops.exp(ops.neg(ops.mul(high, high))), ops.exp(ops.neg(rest)))
    far = ops.mul(falling, erfcx(x))
    far = _where(ops.gt(x, _c(30.0, x)), 0.0, far)  # where the square of x may overflow
    return ops.select(ops.lt(x, _c(0.5, x)), ops.sub(_c(1.0, x), ops.erf(x)), far)


# ---- bits of floats ---------------------------------------------------------------------------------------------------------
def next_after(x: Value, to: Value) -> Value:
    """The next representable number from x towards another."""
    dtype = type_of(x).dtype
    width = DTYPES[dtype].bits
    word = f"uint{width}"
    sign_bit = 1 << (width - 1)
    bits, goal = ops.bitcast(x, dtype=word), ops.bitcast(to, dtype=word)
    magnitude = ops.and_(bits, number_like(sign_bit - 1, bits))
    goal_magnitude = ops.and_(goal, number_like(sign_bit - 1, bits))
    same_sign = ops.eq(ops.and_(bits, number_like(sign_bit, bits)), ops.and_(goal, number_like(sign_bit, bits)))
    inwards = ops.or_(ops.gt(magnitude, goal_magnitude), ops.not_(same_sign))
    stepped = ops.select(inwards, ops.sub(bits, number_like(1, bits)), ops.add(bits, number_like(1, bits)))
    from_zero = ops.or_(ops.and_(goal, number_like(sign_bit, bits)), number_like(1, bits))
    zero = number_like(0, bits)
    result = ops.select(ops.eq(magnitude, zero), from_zero, stepped)
    result = ops.select(ops.eq(x, to), goal, result)
    moved = ops.bitcast(result, dtype=dtype)
    unordered = ops.or_(ops.isnan(x), ops.isnan(to))
    return ops.select(unordered, number_like(math.nan, x), moved)
