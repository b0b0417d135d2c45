"""A complex tensor as a pair of real tensors, and the arithmetic of pairs. Enter at `Complex`.

Multiplication is the textbook formula, as in numpy and PyTorch: it does not recover infinities. Division is Smith's, with the
results of C11, G.5.1, for zeros and infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, part, reshape
from burn.dialect.deferred import Value
from burn.dialect.types import DTYPES, TensorType, type_of


def like(value: float | int | bool, x: Value) -> Value:
    """A scalar of x's element type."""
    return number(value, type_of(x).dtype)


def full(type_: TensorType, value: float | int | bool) -> Value:
    """A tensor of one repeated number."""
    return broadcast_to(number(value, type_.dtype), type_.shape)


@dataclass(frozen=True)
class Complex:
    """A tensor of complex numbers: both parts have the same type."""

    real: Value
    imag: Value


def as_complex(value: Any) -> Complex:
    """An operand; a real one has the imaginary part 0."""
    return value if isinstance(value, Complex) else Complex(value, full(type_of(value), 0))


def part_of(value: Any, name: str) -> Any:
    """The part "real" or "imag"; a real value as it is."""
    return getattr(value, name) if isinstance(value, Complex) else value


def leaves(values: Sequence[Any]) -> list[Any]:
    """The values with complex ones as two."""
    return [leaf for v in values for leaf in ((v.real, v.imag) if isinstance(v, Complex) else (v,))]


def rebuilt(flat: Sequence[Any], complex_: Sequence[bool]) -> list[Any]:
    """The reverse of `leaves`. complex_: for each value, True if it is complex."""
    rest = iter(flat)
    return [Complex(next(rest), next(rest)) if both else next(rest) for both in complex_]


def of_pairs(x: Value) -> Complex:
    """From a real tensor [.., 2] of real and imaginary parts."""
    *shape, _ = type_of(x).shape
    return Complex(*(reshape(part(x, len(shape), i, 1), tuple(shape)) for i in (0, 1)))


def as_pairs(z: Complex) -> Value:
    """The real tensor [.., 2] of real and imaginary parts."""
    shape = type_of(z.real).shape
    return ops.concat([reshape(p, (*shape, 1)) for p in (z.real, z.imag)], axis=len(shape))


def each(z: Complex, function: Callable[[Value], Value]) -> Complex:
    return Complex(function(z.real), function(z.imag))


def converted(z: Complex, dtype: str) -> Complex:
    """Parts of another element type."""
    return each(z, lambda x: convert(x, dtype))


# ---- arithmetic -------------------------------------------------------------------------------------------------------------
def add(a: Complex, b: Complex) -> Complex:
    return Complex(ops.add(a.real, b.real), ops.add(a.imag, b.imag))


def negated(z: Complex) -> Complex:
    return each(z, ops.neg)


def conjugate(z: Complex) -> Complex:
    return Complex(z.real, ops.neg(z.imag))


def times(a: Complex, b: Complex, multiply: Callable[[Value, Value], Value] | None = None) -> Complex:
    """multiply: a bilinear function of real tensors, such as a contraction; by default their multiplication."""
    multiply = multiply or ops.mul
    real = ops.sub(multiply(a.real, b.real), multiply(a.imag, b.imag))
    return Complex(real, ops.add(multiply(a.real, b.imag), multiply(a.imag, b.real)))


def divided(a: Complex, b: Complex) -> Complex:
    """`smith`; where both parts would be NaN for zeros or infinities in the operands, as C11 in G.5.1."""
    found = smith(a, b)
    x, y, u, v = a.real, a.imag, b.real, b.imag
    zero, infinity = like(0.0, x), like(math.inf, x)
    lost = ops.and_(ops.isnan(found.real), ops.isnan(found.imag))
    at_zero = ops.and_(ops.eq(ops.add(ops.abs(u), ops.abs(v)), zero), ops.not_(ops.and_(ops.isnan(x), ops.isnan(y))))
    pole = each(a, lambda p: ops.mul(with_sign(infinity, u), p))
    a_infinite, b_infinite = (ops.or_(*(ops.eq(ops.abs(p), infinity) for p in (z.real, z.imag))) for z in (a, b))
    a_finite, b_finite = (ops.and_(*(ops.lt(ops.abs(p), infinity) for p in (z.real, z.imag))) for z in (a, b))
    boxed_a, boxed_b = (each(z, _boxed) for z in (a, b))
    over = times(boxed_a, conjugate(b))
    under = times(a, conjugate(boxed_b))
    large = each(over, lambda p: ops.mul(infinity, p))
    small = each(under, lambda p: ops.mul(zero, p))
    found = chosen(ops.and_(lost, ops.and_(b_infinite, a_finite)), small, found)
    found = chosen(ops.and_(lost, ops.and_(a_infinite, b_finite)), large, found)
    return chosen(ops.and_(lost, at_zero), pole, found)


def _boxed(x: Value) -> Value:
    """1 with x's sign for an infinite x, else 0 with its sign."""
    infinite = ops.eq(ops.abs(x), like(math.inf, x))
    return with_sign(ops.select(infinite, like(1.0, x), like(0.0, x)), x)


def with_sign(size: Value, x: Value) -> Value:
    """A size with x's sign; that of a zero counts."""
    word = f"int{DTYPES[type_of(x).dtype].bits}"
    return ops.select(ops.lt(ops.bitcast(x, dtype=word), number(0, word)), ops.neg(size), size)


def smith(a: Complex, b: Complex) -> Complex:
    """R. Smith's algorithm (Communications of the ACM 5(8), 1962): no overflow where the quotient has none."""
    wide = ops.ge(ops.abs(b.real), ops.abs(b.imag))
    large, small = (ops.select(wide, *pair) for pair in ((b.real, b.imag), (b.imag, b.real)))
    ratio = ops.div(small, large)
    below = ops.add(large, ops.mul(small, ratio))
    first = ops.select(wide, ops.add(a.real, ops.mul(a.imag, ratio)), ops.add(ops.mul(a.real, ratio), a.imag))
    second = ops.select(wide, ops.sub(a.imag, ops.mul(a.real, ratio)), ops.sub(ops.mul(a.imag, ratio), a.real))
    return Complex(ops.div(first, below), ops.div(second, below))


def equal(a: Complex, b: Complex) -> Value:
    return ops.and_(ops.eq(a.real, b.real), ops.eq(a.imag, b.imag))


def chosen(condition: Value, a: Complex, b: Complex) -> Complex:
    """a where the condition holds, else b."""
    return Complex(ops.select(condition, a.real, b.real), ops.select(condition, a.imag, b.imag))


def after(a: Complex, b: Complex) -> Value:
    """True where a comes after b in the order of real parts, then of imaginary parts."""
    return ops.select(ops.eq(a.real, b.real), ops.gt(a.imag, b.imag), ops.gt(a.real, b.real))


def larger(a: Complex, b: Complex) -> Complex:
    """The later one in the order of real parts, then of imaginary parts."""
    return chosen(after(a, b), a, b)


def smaller(a: Complex, b: Complex) -> Complex:
    return chosen(after(b, a), a, b)


def one(z: Complex) -> Complex:
    return Complex(full(type_of(z.real), 1), full(type_of(z.real), 0))


def integer_power(z: Complex, exponent: int) -> Complex:
    """By repeated squaring; a negative exponent inverts the result."""
    if exponent == 0:
        return one(z)
    result: Complex | None = None
    base, rest = z, abs(exponent)
    while rest:
        if rest & 1:
            result = base if result is None else times(result, base)
        rest >>= 1
        base = times(base, base) if rest else base
    assert result is not None
    return divided(one(z), result) if exponent < 0 else result
