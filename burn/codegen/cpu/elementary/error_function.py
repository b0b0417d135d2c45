"""erf: an odd polynomial up to 1, and 1 - erfc beyond, where erfc is small and its relative error hardly counts."""

from __future__ import annotations

from burn.codegen.cpu.elementary.coefficients import ERF, ERFC, ERFCX
from burn.codegen.cpu.elementary.exponential import exp_of_bounded, exp_of_negative
from burn.codegen.cpu.elementary.formats import at_most
from burn.codegen.cpu.lanes import Lanes

_ONE_FROM = {"f32": 4.0, "f64": 6.0}  # erf rounds to 1 from here on


def erf(x: Lanes) -> Lanes:
    a = at_most(x.abs(), _ONE_FROM[x.element])
    small = a.mad((a * a).horner(ERF[x.element]), a)
    large = 1.0 - (_erfc_single(x, a) if x.element == "f32" else _erfc_double(a))
    return (a < 1.0).where(small, large).with_sign_of(x)


def _erfc_single(x: Lanes, t: Lanes) -> Lanes:
    """The exponential and the polynomial depend only on x. The exponential is written as exp(-(x * x)): the derivative
    contains the same expression, which is then computed once."""
    return exp_of_negative(-(x * x)) * t.horner(ERFC["f32"])


def _erfc_double(t: Lanes) -> Lanes:
    return exp_of_bounded(-(t * t)) * ((t - 3.0) / (t + 3.0)).horner(ERFCX["f64"])
