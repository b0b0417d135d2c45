"""Float arithmetic where XLA's rules differ from burn's ops: signs of zero, ties, bit patterns."""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.compose import convert
from burn.dialect.deferred import Value
from burn.dialect.types import HALF_DTYPES, type_of
from burn.importers.lax.scalars import bits_of, like, unsigned

MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
"""Stored bits of the fraction."""


def sign(x: Value) -> Value:
    """-1, 1, or x itself where x is a zero of either sign, or NaN."""
    return ops.select(ops.eq(x, like(0.0, x)), x, ops.sign(x))


def is_finite(x: Value) -> Value:
    return ops.lt(ops.abs(x), like(math.inf, x))


def round_to_even(x: Value) -> Value:
    """The nearest integer, ties to even."""
    return ops.round(x)


def round_from_zero(x: Value) -> Value:
    """The nearest integer, ties away from zero."""
    low = ops.trunc(x)
    away = ops.ge(ops.abs(ops.sub(x, low)), like(0.5, x))
    return ops.select(away, ops.add(low, _signed_one(x)), low)


def _signed_one(x: Value) -> Value:
    return ops.select(ops.lt(x, like(0.0, x)), like(-1.0, x), like(1.0, x))


def integer_power(x: Value, exponent: int) -> Value:
    """x to a whole power, by repeated squaring; a negative one inverts the result. Any number type."""
    if exponent == 0:
        return ops.add(ops.mul(x, like(0, x)), like(1, x)) if not _is_float(x) else _ones(x)
    result: Value | None = None
    base, rest = x, abs(exponent)
    while rest:
        if rest & 1:
            result = base if result is None else ops.mul(result, base)
        rest >>= 1
        base = ops.mul(base, base) if rest else base
    assert result is not None
    return ops.div(like(1.0, x), result) if exponent < 0 else result


def _ones(x: Value) -> Value:
    return ops.select(ops.eq(x, x), like(1.0, x), like(1.0, x))


def _is_float(x: Value) -> bool:
    return type_of(x).dtype in MANTISSA


def exp2(x: Value) -> Value:
    return ops.pow(like(2.0, x), x)


def log2(x: Value) -> Value:
    """In float64, so that powers of two have whole logarithms."""
    wide = convert(x, "float64")
    return convert(ops.div(ops.log(wide), like(math.log(2), wide)), type_of(x).dtype)


def reduce_precision(x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """x rounded (ties to even) to a format with fewer bits; too large numbers become infinite, too small ones 0."""
    dtype = type_of(x).dtype
    if dtype in HALF_DTYPES:
        return convert(reduce_precision(convert(x, "float32"), exponent_bits, mantissa_bits), dtype)
    width, mantissa = bits_of(x), MANTISSA[dtype]
    exponent = width - mantissa - 1
    word = unsigned(width)
    bits = ops.bitcast(x, dtype=word)
    rounded = bits
    if mantissa_bits < mantissa:
        drop = mantissa - mantissa_bits
        odd = ops.and_(ops.shift_right(bits, like(drop, bits)), like(1, bits))
        rounded = ops.add(bits, ops.add(odd, like((1 << (drop - 1)) - 1, bits)))
        rounded = ops.and_(rounded, like(((1 << width) - 1) ^ ((1 << drop) - 1), bits))
    if exponent_bits < exponent:
        sign_bit, bias = 1 << (width - 1), (1 << (exponent - 1)) - 1
        reduced = (1 << (exponent_bits - 1)) - 1
        field = ops.and_(rounded, like(((1 << exponent) - 1) << mantissa, bits))
        own_sign = ops.and_(rounded, like(sign_bit, bits))
        infinite = ops.gt(field, like((bias + reduced) << mantissa, bits))
        vanishing = ops.le(field, like((bias - reduced) << mantissa, bits))
        infinity = ops.or_(own_sign, like(((1 << exponent) - 1) << mantissa, bits))
        rounded = ops.select(infinite, infinity, rounded)
        rounded = ops.select(vanishing, own_sign, rounded)
    return ops.select(ops.isnan(x), x, ops.bitcast(rounded, dtype=dtype))
