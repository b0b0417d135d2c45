"""log and functions derived from it: log2, log1p, asinh, acosh, atanh.

x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and log(x) = k ln 2 + f - f^2/2 + tail(f). The tail is a polynomial
in f32; in f64 it goes through s = f / (2 + f) as in FreeBSD's msun, which takes half as many terms.
"""

from __future__ import annotations

import math

from burn.codegen.cpu.elementary.coefficients import LOG
from burn.codegen.cpu.elementary.formats import format_of
from burn.codegen.cpu.lanes import Lanes

_ROOT_HALF_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}
_LOG2_E = {"f32": (1.4426950216293335, 1.9259629911266175e-08), "f64": (1.4426950408889634, 2.0355273740931033e-17)}


def split_exponent(x: Lanes) -> tuple[Lanes, Lanes]:
    """(k, m) with x = 2^k m, both floats, sqrt(1/2) <= m < sqrt(2), for positive finite x (denormal too)."""
    form = format_of(x)
    lift = 64
    tiny = x < form.min_normal
    lifted = tiny.where(x * 2.0**lift, x).as_int()
    base = _ROOT_HALF_BITS[x.element]
    offset = lifted - base
    m = ((offset & ((1 << form.mantissa) - 1)) + base).as_float()
    k = offset >> form.mantissa
    if x.element == "f32":
        exponent = k.to_float("f32")
    else:  # few targets convert i64 lanes; the exponent fits in the low bits of a large float
        exponent = (k + x.const(form.magic).as_int()).as_float() - form.magic
    return exponent - tiny.where(x.const(float(lift)), 0.0), m


def _log(k: Lanes, f: Lanes, extra: Lanes | float = 0.0) -> Lanes:
    """k ln 2 + log1p(f) + extra, the last small."""
    form = format_of(f)
    low = k.mad(form.ln2_low, extra)
    square = f * f
    if f.element == "f32":
        tail = (square * f).mad(f.horner(LOG["f32"]), low)
        tail = square.mad(-0.5, tail)
    else:
        s = f / (f + 2.0)
        z = s * s
        half = square * 0.5
        tail = s.mad(z.mad(z.horner(LOG["f64"]), half), low) - half
    return k.mad(form.ln2_high, f + tail)


def _edges(x: Lanes, result: Lanes) -> Lanes:
    """A logarithm's values at infinity, at 0 and below."""
    result = (x < math.inf).where(result, x)
    return (x > 0.0).where(result, x.equals(0.0).where(x.const(-math.inf), math.nan))


def log(x: Lanes) -> Lanes:
    k, m = split_exponent(x)
    return _edges(x, _log(k, m - 1.0))


def log2(x: Lanes) -> Lanes:
    k, m = split_exponent(x)
    fraction = _log(k.const(0.0), m - 1.0)
    high, low = _LOG2_E[x.element]
    return _edges(x, fraction.mad(high, fraction * low) + k)


def log1p(x: Lanes) -> Lanes:
    """log(u) for u = 1 + x, plus the rounding error of u, divided by u. If k = 0, f is x itself."""
    u = x + 1.0
    k, m = split_exponent(u)
    lost = (u > 2.0).where(1.0 - (u - x), x - (u - 1.0)) / u
    near = k.equals(0.0)
    result = _log(k, near.where(x, m - 1.0), near.where(x.const(0.0), lost))
    result = (x < math.inf).where(result, x)
    result = (x > -1.0).where(result, x.equals(-1.0).where(x.const(-math.inf), math.nan))
    return x.equals(0.0).where(x, result)


def asinh(x: Lanes) -> Lanes:
    """log(a + sqrt(a^2 + 1)) as log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2a) if a^2 may overflow."""
    a = x.abs()
    large = a > 2.0 ** (format_of(x).mantissa + 4)
    square = a * a
    argument = a + square / ((square + 1.0).sqrt() + 1.0)
    result = log1p(large.where(a, argument)) + large.where(x.const(math.log(2)), 0.0)
    return result.with_sign_of(x)


def acosh(x: Lanes) -> Lanes:
    large = x > 2.0 ** (format_of(x).mantissa + 4)
    t = x - 1.0
    argument = t + (t * (t + 2.0)).sqrt()
    result = log1p(large.where(x, argument)) + large.where(x.const(math.log(2)), 0.0)
    return (x >= 1.0).where(result, math.nan)


def atanh(x: Lanes) -> Lanes:
    a = x.abs()
    return (log1p(2.0 * a / (1.0 - a)) * 0.5).with_sign_of(x)
