"""The exact floating-point remainder.

With a fused multiply-add, x - q y is exact for the rounded quotient q, which is at most one too large. This needs a q that has
all its digits before the point. Other quotients take long division of the mantissas in integers, one bit a step, all lanes at
once. The number of steps is the largest difference of exponents in any lane: at most 2^11 in f64.
"""

from __future__ import annotations

import math

from burn.codegen.cpu.elementary.formats import format_of
from burn.codegen.cpu.lanes import Lanes


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """x - y trunc(x / y), with the sign of x."""
    a, b, code = x.abs(), y.abs(), x.code
    if not any(feature in code.attributes for feature in ("+fma", "+neon")):
        return _by_long_division(a, b).with_sign_of(x)
    quotient = a / b
    large = quotient >= 2.0 ** (format_of(x).mantissa - 1)  # not of NaN, which goes through
    rest = (-quotient.op("math.trunc")).op("math.fma", b, a)
    rest = (a < b).where(a, (rest < 0.0).where(rest + b, rest))
    with code.for_(0, code.cast("arith.extui", large.any().value, "i64"), carried=(rest.value,)) as loop:
        loop.yield_(large.where(_by_long_division(a, b), x.wrap(loop.carried[0])).value)
    return x.wrap(loop.results[0]).with_sign_of(x)


def _by_long_division(a: Lanes, b: Lanes) -> Lanes:
    """a - b trunc(a / b) of numbers that are not negative; NaN if it is undefined."""
    form, code = format_of(a), a.code
    undefined = ~(a < math.inf) | ~(b > 0.0)
    small = a < b
    (high, exponent), (divisor, divisor_exponent) = _parts(a), _parts(b)
    steps = (undefined | small | ~(b < math.inf)).where(0, exponent - divisor_exponent)
    count = steps.value
    if a.lanes > 1:
        count = code.raw(f"vector.reduction <maxsi>, {steps.value} : {steps.type} into {steps.element}", steps.element)
    count = code.cast("arith.extsi", count, "i64")
    with code.for_(0, count, carried=(high.value, steps.value)) as loop:
        rest, left = (a.wrap(v) for v in loop.carried)
        reduced = rest - divisor
        doubled = (rest >= divisor).where(reduced, rest) << 1
        loop.yield_((left > 0).where(doubled, rest).value, (left - 1).value)
    rest = a.wrap(loop.results[0])
    rest = (rest >= divisor).where(rest - divisor, rest)
    # Two factors, because one may be out of range; after the first, `rest` is normal, so that nothing is rounded.
    power = divisor_exponent - (form.bias + form.mantissa)
    first = power >> 1
    value = rest.to_float(a.element) * _power(first) * _power(power - first)
    value = undefined.where(math.nan, small.where(a, value))
    return (a.is_nan() | b.is_nan()).where(math.nan, value)


def _power(n: Lanes) -> Lanes:
    mantissa, bias = (23, 127) if n.width == 32 else (52, 1023)
    return ((n + bias) << mantissa).as_float()


def _parts(a: Lanes) -> tuple[Lanes, Lanes]:
    """(m, e) with a = m 2^(e - bias - mantissa), m an integer with its top bit at `mantissa`, for positive finite a."""
    form = format_of(a)
    tiny = a < form.min_normal
    bits = tiny.where(a * 2.0**form.mantissa, a).as_int()
    exponent = (bits >> form.mantissa) - tiny.where(bits.const(form.mantissa), 0)
    return (bits & ((1 << form.mantissa) - 1)) | (1 << form.mantissa), exponent
