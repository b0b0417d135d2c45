"""atan, atan2, asin, acos: each reduced to an odd polynomial on a short interval.

The constants pi, pi/2 and pi/4 are added as a rounded part and a remainder, so that they cost no accuracy.
"""

from __future__ import annotations

import math

from burn.codegen.cpu.elementary.coefficients import ASIN, ATAN
from burn.codegen.cpu.elementary.formats import at_most, format_of
from burn.codegen.cpu.lanes import Lanes

_TAN_EIGHTH = math.sqrt(2) - 1


def _plus_pi(x: Lanes, fraction: float) -> Lanes:
    """fraction * pi + x, for a power of two `fraction`."""
    return (x + format_of(x).pi_low * fraction) + math.pi * fraction


def _odd(a: Lanes, z: Lanes, coefficients: dict[str, tuple[float, ...]]) -> Lanes:
    return (a * z).mad(z.horner(coefficients[a.element]), a)


def _quotient_angle(numerator: Lanes, denominator: Lanes) -> Lanes:
    """atan(numerator / denominator) in [0, pi/4], for 0 <= numerator <= denominator whose sum does not overflow."""
    far = numerator > denominator * _TAN_EIGHTH
    a = far.where(numerator - denominator, numerator) / far.where(numerator + denominator, denominator)
    angle = _odd(a, a * a, ATAN)
    return far.where(_plus_pi(angle, 0.25), angle)


def atan(x: Lanes) -> Lanes:
    a = at_most(x.abs(), 2.0 ** (format_of(x).bias - 1))
    steep = a > 1.0
    angle = _quotient_angle(steep.where(1.0, a), steep.where(a, 1.0))
    return steep.where(_plus_pi(-angle, 0.5), angle).with_sign_of(x)


def atan2(y: Lanes, x: Lanes) -> Lanes:
    form = format_of(x)
    ay, ax = y.abs(), x.abs()
    steep = ay > ax
    numerator, denominator = steep.where(ax, ay), steep.where(ay, ax)
    both_infinite = numerator.equals(math.inf)
    numerator, denominator = both_infinite.where(1.0, numerator), both_infinite.where(1.0, denominator)
    denominator = denominator.equals(0.0).where(1.0, denominator)
    scale = (denominator > 2.0 ** (form.bias - 3)).where(x.const(0.25), 1.0)
    angle = _quotient_angle(numerator * scale, denominator * scale)
    angle = steep.where(_plus_pi(-angle, 0.5), angle)
    angle = x.negative().where(_plus_pi(-angle, 1.0), angle).with_sign_of(y)
    return (x.is_nan() | y.is_nan()).where(math.nan, angle)


def asin(x: Lanes) -> Lanes:
    """Beyond 1/2: pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    a = x.abs()
    far = a > 0.5
    z = far.where((1.0 - a) * 0.5, a * a)
    angle = _odd(far.where(z.sqrt(), a), z, ASIN)
    return far.where(_plus_pi(angle * -2.0, 0.5), angle).with_sign_of(x)


def acos(x: Lanes) -> Lanes:
    a = x.abs()
    far = a > 0.5
    z = far.where((1.0 - a) * 0.5, a * a)
    angle = _odd(far.where(z.sqrt(), x), z, ASIN)
    doubled = angle * 2.0
    beyond = (x < 0.0).where(_plus_pi(-doubled, 1.0), doubled)
    return far.where(beyond, _plus_pi(-angle, 0.5))
