"""The exact floating-point remainder: long division of the mantissas in integers, one bit a step, all lanes at once.

The number of steps is the largest difference of exponents in any lane: few for common quotients, at most 2^11 in f64.
"""

from __future__ import annotations

import math

from burn.codegen.cpu.elementary.formats import format_of
from burn.codegen.cpu.lanes import Lanes


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """x - y trunc(x / y), with the sign of x."""
    form = format_of(x)
    a, b = x.abs(), y.abs()
    undefined = ~(a < math.inf) | ~(b > 0.0)
    small = a < b
    (high, exponent), (divisor, divisor_exponent) = _parts(a), _parts(b)
    steps = (undefined | small | ~(b < math.inf)).where(0, exponent - divisor_exponent)
    code = x.code
    count = steps.value
    if x.lanes > 1:
        count = code.raw(f"vector.reduction <maxsi>, {steps.value} : {steps.type} into {steps.element}", steps.element)
    count = code.cast("arith.extsi", count, "i64")
    with code.for_(0, count, carried=(high.value, steps.value)) as loop:
        rest, left = (x.wrap(v) for v in loop.carried)
        reduced = rest - divisor
        doubled = (rest >= divisor).where(reduced, rest) << 1
        loop.yield_((left > 0).where(doubled, rest).value, (left - 1).value)
    rest = x.wrap(loop.results[0])
    rest = (rest >= divisor).where(rest - divisor, rest)
    # Two factors, because one may be out of range; after the first, `rest` is normal, so that nothing is rounded.
    power = divisor_exponent - (form.bias + form.mantissa)
    first = power >> 1
    value = rest.to_float(x.element) * _power(first) * _power(power - first)
    value = undefined.where(math.nan, small.where(a, value))
    return (x.is_nan() | y.is_nan()).where(math.nan, value).with_sign_of(x)


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
