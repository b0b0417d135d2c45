"""exp and functions derived from it: exp2, expm1, the logistic function, tanh, sinh, cosh.

exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2)/2. Results range over more powers of two than one factor
can hold (denormals included), so 2^n is applied as two factors: 2^(n -+ split), then 2^(+-split) by the sign of x. If
one instruction does it at once, the bits are the same.
"""

from __future__ import annotations

import math

from burn.codegen.cpu.elementary.coefficients import EXP, EXP_BFLOAT16, SINH, TANH
from burn.codegen.cpu.elementary.formats import (
    at_least,
    at_most,
    format_of,
    power_of_two,
    reaches,
    reciprocal_nearly,
    scaled,
    scales,
)
from burn.codegen.cpu.lanes import Lanes


def exp(x: Lanes) -> Lanes:
    return _exp(x, 0)


def _exp(x: Lanes, shift: int) -> Lanes:
    """exp(x) * 2^shift for a small shift, which is not lost to overflow in between."""
    form = format_of(x)
    split = (form.bias + 1) // 2
    x = at_most(x, form.exp_high + 1)
    if scales(x):
        n = x.mad(1 / math.log(2), form.magic) - form.magic
        return scaled(expm1_of_rest(x, n) + 1.0, n + float(shift) if shift else n, reaches(x, form.exp_low))
    x = at_least(x, form.exp_low)
    positive = x > 0.0
    offset = form.magic + form.bias + shift
    biased_by = positive.where(x.const(offset - split), offset + split)
    biased = x.mad(1 / math.log(2), biased_by)
    result = expm1_of_rest(x, biased - biased_by) + 1.0
    return result * power_of_two(biased) * positive.where(x.const(2.0**split), 2.0**-split)


def exp_of_negative(x: Lanes) -> Lanes:
    """exp(x) for x <= 0, where one split serves all."""
    form = format_of(x)
    split = (form.bias + 1) // 2
    if scales(x):
        n = x.mad(1 / math.log(2), form.magic) - form.magic
        return scaled(expm1_of_rest(x, n) + 1.0, n, reaches(x, form.exp_low))
    x = at_least(x, form.exp_low)
    offset = form.magic + form.bias + split
    biased = x.mad(1 / math.log(2), offset)
    power = power_of_two(biased)
    return power.mad(expm1_of_rest(x, biased - offset), power) * 2.0**-split


def exp_for_bfloat16(x: Lanes) -> Lanes:
    """exp(x) of float32 for x <= 0, with a relative error below 2^-17.4, which rounding to bfloat16 hides. 0 for results
    that are no normal numbers. As accurate as `exp_of_negative` on vectors that an instruction does not scale."""
    if not scales(x):
        return exp_of_negative(x)
    form = format_of(x)
    n = x.mad(1 / math.log(2), form.magic) - form.magic
    r = n.mad(-math.log(2), x)
    power = r.horner(EXP_BFLOAT16[x.element]).mad(r, 1.0).mad(r, 1.0)
    return scaled(power, n, reaches(x, math.log(form.min_normal)))


def exp_of_bounded(x: Lanes) -> Lanes:
    """exp(x) if neither x nor the result is near the ends of the range."""
    form = format_of(x)
    offset = form.magic + form.bias
    biased = x.mad(1 / math.log(2), offset)
    return (expm1_of_rest(x, biased - offset) + 1.0) * power_of_two(biased)


def expm1_of_rest(x: Lanes, n: Lanes) -> Lanes:
    """exp(r) - 1 for r = x - n ln 2."""
    form = format_of(x)
    r = n.mad(-form.ln2_low, n.mad(-form.ln2_high, x))
    return (r * r).mad(r.horner(EXP[x.element]), r)


def exp2(x: Lanes) -> Lanes:
    form = format_of(x)
    split = (form.bias + 1) // 2
    x = at_least(at_most(x, form.bias + 2.0), -(form.bias + form.mantissa + 1.0))
    positive = x > 0.0
    biased_by = positive.where(x.const(form.magic + form.bias - split), form.magic + form.bias + split)
    biased = x + biased_by
    r = (x - (biased - biased_by)) * math.log(2)
    result = (r * r).mad(r.horner(EXP[x.element]), r) + 1.0
    return result * power_of_two(biased) * positive.where(x.const(2.0**split), 2.0**-split)


def expm1(x: Lanes) -> Lanes:
    """2^n (exp(r) - 1) + (2^n - 1), halved until the end so that 2^n does not overflow before the sum does."""
    form = format_of(x)
    bounded = at_least(at_most(x, form.exp_high), -form.log_epsilon)
    offset = form.magic + form.bias - 1
    biased = bounded.mad(1 / math.log(2), offset)
    n = biased - offset
    rest = expm1_of_rest(bounded, n)
    half = power_of_two(biased)
    return n.equals(0.0).where(rest, half.mad(rest, half - 0.5) * 2.0).with_sign_of(x)


def tanh(x: Lanes) -> Lanes:
    """An odd polynomial up to 0.55; beyond, 1 - 2 / (exp(2 |x|) + 1)."""
    a = x.abs()
    z = a * a
    small = (a * z).mad(z.horner(TANH[x.element]), a)
    large = 1.0 - 2.0 / (exp_of_bounded(at_most(a * 2.0, format_of(x).log_epsilon + 2.0)) + 1.0)
    return (a < 0.55).where(small, large).with_sign_of(x)


def sigmoid(x: Lanes) -> Lanes:
    """z / (1 + z) or 1 / (1 + z) with z = exp(-|x|). The remainder top - q (1 + z) corrects the approximate quotient.
    It does not contain the rounding of 1 + z: top - q is exact, as q is at least half of the top."""
    z, negative = exp_of_negative(-x.abs()), x < 0.0
    top, below = negative.where(z, 1.0), z + 1.0
    if scales(x) and x.element == "f32":
        near = reciprocal_nearly(below)
        q = top * near
    else:
        q = top / below
        near = negative.where(1.0 - q, q)  # 1 / (1 + z), at low precision
    return (-z).mad(q, top - q).mad(near, q)


def sigmoid_for_bfloat16(x: Lanes) -> Lanes:
    """1 / (1 + exp(-x)) of float32 with a relative error below 2^-13.8, which rounding to bfloat16 hides. Results that are no
    normal numbers have an absolute error below 2^-126. As accurate as `sigmoid` on vectors that an instruction does not scale."""
    if not scales(x):
        return sigmoid(x)
    form = format_of(x)
    x = at_least(x, -2 * form.exp_high)  # exp(-x) is infinite, but its reduced argument is finite
    n = x.mad(-1 / math.log(2), form.magic) - form.magic
    r = n.mad(-math.log(2), -x)
    power = r.horner(EXP_BFLOAT16[x.element]).mad(r, 1.0).mad(r, 1.0)
    return reciprocal_nearly(scaled(power, n, reaches(-x, math.log(form.min_normal))) + 1.0)


def sinh(x: Lanes) -> Lanes:
    a = x.abs()
    z = at_most(a, 1.0) * at_most(a, 1.0)
    small = (a * z).mad(z.horner(SINH[x.element]), a)
    half = _exp(a, -1)
    return (a < 1.0).where(small, half - 0.25 / half).with_sign_of(x)


def cosh(x: Lanes) -> Lanes:
    half = _exp(x.abs(), -1)
    return half + 0.25 / half
