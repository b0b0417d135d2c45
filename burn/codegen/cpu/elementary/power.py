"""pow with C's edge cases. f32 is computed in f64; f64 keeps the logarithm in two doubles, because its error is multiplied
by y.

Factors are split by masking off the low half of the bits, so that multiplications are exact with or without a fused
multiply-add.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from burn.codegen.cpu.elementary.coefficients import EXP, EXP_SHORT, LOG_SHORT, LOG_TAIL
from burn.codegen.cpu.elementary.formats import FORMATS, at_least, at_most, power_of_two
from burn.codegen.cpu.elementary.logarithm import split_exponent
from burn.codegen.cpu.lanes import Lanes

_THIRD2 = (2 / 3, 3.700743415417189e-17)  # 2/3 in two doubles
_DOUBLE = FORMATS["f64"]


class Pair(NamedTuple):
    """high + low, |low| at most about half an ULP of high."""

    high: Lanes
    low: Lanes


def power(x: Lanes, y: Lanes) -> Lanes:
    magnitude = _single(x, y) if x.element == "f32" else _double(x, y)
    return _edges(x, y, magnitude)


def _edges(x: Lanes, y: Lanes, result: Lanes) -> Lanes:
    """`result` is |x|^y for operands without a special case; the cases are those of C's annex F.10.4.4."""
    result = (x.abs().equals(1.0) & y.equals(y)).where(1.0, result)  # even for an infinite y
    whole = y.op("math.floor").equals(y)
    half = y * 0.5
    odd = whole & half.op("math.floor").differs(half) & (y.abs() < math.inf)
    negative = x.negative()
    result = (negative & odd).where(-result, result)
    result = ((x < 0.0) & (x > -math.inf) & ~whole).where(math.nan, result)
    result = (x.is_nan() | y.is_nan()).where(math.nan, result)
    return (x.equals(1.0) | y.equals(0.0)).where(1.0, result)


def _single(x: Lanes, y: Lanes) -> Lanes:
    """exp(y log|x|) in f64: an exponent of at most 104 is then accurate to 2^-46, and the result is rounded once."""
    wide = x.abs().widen("f64")
    k, m = split_exponent(wide)  # denormals of f32 are normal here
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    log = k.mad(math.log(2), (s * z).mad(z.horner(LOG_SHORT["f64"]), s + s))
    log = wide.equals(0.0).where(-math.inf, wide.equals(math.inf).where(wide, log))
    t = at_least(at_most(log * y.widen("f64"), 90.0), -105.0)
    offset = _DOUBLE.magic + _DOUBLE.bias
    biased = t.mad(1 / math.log(2), offset)
    n = biased - offset
    r = n.mad(-_DOUBLE.ln2_low, n.mad(-_DOUBLE.ln2_high, t))
    result = (r * r).mad(r.horner(EXP_SHORT["f64"]), r) + 1.0
    return (result * power_of_two(biased)).narrow("f32")


def _split(a: Lanes) -> tuple[Lanes, Lanes]:
    """a = high + low, with 26 bits in high and 27 in low."""
    high = (a.as_int() & ~((1 << 27) - 1)).as_float()
    return high, a - high


def _multiply_exactly(a: Lanes, b: Lanes) -> Pair:
    (a1, a0), (b1, b0) = _split(a), _split(b)
    high = a * b
    return Pair(high, a0 * b0 - (((high - a1 * b1) - a1 * b0) - a0 * b1))


def _sum(a: Lanes, b: Lanes) -> Pair:
    """|a| >= |b|, or a is 0."""
    high = a + b
    return Pair(high, b - (high - a))


def _times(a: Pair, b: Pair) -> Pair:
    high, low = _multiply_exactly(a.high, b.high)
    return _sum(high, low + (a.high * b.low + a.low * b.high))


def _log(x: Lanes) -> Pair:
    """log(x) of a positive finite double to about 2^-66, relative: k ln 2 + 2s + 2/3 s^3 + s^5 P(s^2), s =
    (m-1)/(m+1)."""
    k, m = split_exponent(x)
    f = m - 1.0
    below = f + 2.0
    below_low = f - (below - 2.0)
    high = f / below
    exact = _multiply_exactly(high, below)
    s = Pair(high, (((f - exact.high) - exact.low) - high * below_low) / below)
    square = _times(s, s)
    cube = _times(_times(square, s), Pair(x.const(_THIRD2[0]), x.const(_THIRD2[1])))
    z = square.high
    tail = (high * z * z) * z.horner(LOG_TAIL["f64"])
    total = _sum(s.high * 2.0, cube.high)
    mantissa = _sum(total.high, total.low + (s.low * 2.0 + (cube.low + tail)))
    exponent = k * _DOUBLE.ln2_high  # exact: 32 bits times 11
    total = _sum(exponent, mantissa.high)
    return _sum(total.high, total.low + (mantissa.low + k * _DOUBLE.ln2_low))


def _double(x: Lanes, y: Lanes) -> Lanes:
    a = x.abs()
    infinite, zero = a.equals(math.inf), a.equals(0.0)
    log = _log((infinite | zero).where(1.0, a))
    # Beyond 2^70, y sends every base but 1 to 0 or infinity; a bounded y keeps intermediate results finite.
    bounded = at_least(at_most(y, 2.0**70), -(2.0**70))
    log_power = _multiply_exactly(log.high, bounded)
    t, low = log_power.high, log_power.low + log.low * bounded
    grows = infinite ^ (y < 0.0)
    t = (infinite | zero).where(grows.where(x.const(1e4), -1e4), t)
    low = (t.abs() < 1e3).where(low, 0.0)
    t = at_least(at_most(t, _DOUBLE.exp_high + 1), _DOUBLE.exp_low)
    positive = t > 0.0
    split = (_DOUBLE.bias + 1) // 2
    offset = _DOUBLE.magic + _DOUBLE.bias
    biased_by = positive.where(t.const(offset - split), offset + split)
    biased = t.mad(1 / math.log(2), biased_by)
    n = biased - biased_by
    r = (t - n * _DOUBLE.ln2_high) + (low - n * _DOUBLE.ln2_low)
    result = (r * r).mad(r.horner(EXP["f64"]), r) + 1.0
    return result * power_of_two(biased) * positive.where(t.const(2.0**split), 2.0**-split)
