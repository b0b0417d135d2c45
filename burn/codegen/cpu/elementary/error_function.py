"""erf. Vectors of AVX-512 look the coefficients of one of 32 polynomials up in registers. Others compute two functions and
select: an odd polynomial up to 1, and 1 - erfc beyond, where erfc is small and its relative error hardly counts."""

from __future__ import annotations

from burn.codegen.cpu.elementary.coefficients import ERF, ERF_PIECES, ERF_SPACING, ERFC, ERFCX
from burn.codegen.cpu.elementary.exponential import exp_of_bounded, exp_of_negative
from burn.codegen.cpu.elementary.formats import at_most, format_of
from burn.codegen.cpu.elementary.tables import looked_up, looks_up, on_whole_vectors
from burn.codegen.cpu.lanes import Lanes

_ONE_FROM = {"f32": 4.0, "f64": 6.0}  # erf rounds to 1 from here on


def erf(x: Lanes) -> Lanes:
    if x.element == "f32" and looks_up(x):
        return on_whole_vectors(x, _by_pieces)
    a = at_most(x.abs(), _ONE_FROM[x.element])
    small = a.mad((a * a).horner(ERF[x.element]), a)
    large = 1.0 - (_erfc_single(x, a) if x.element == "f32" else _erfc_double(a))
    return (a < 1.0).where(small, large).with_sign_of(x)


def _by_pieces(x: Lanes) -> Lanes:
    """The piece's number is in the low bits of the rounded quotient, where the instruction reads it."""
    magic = format_of(x).magic
    a = at_most(x.abs(), _ONE_FROM[x.element])
    number = a.mad(1 / ERF_SPACING, magic)
    r = (number - magic).mad(-ERF_SPACING, a)
    constant, *others = (looked_up(number.as_int(), numbers) for numbers in ERF_PIECES)
    result = others[-1]
    for coefficient in reversed(others[:-1]):
        result = result.mad(r, coefficient)
    first = number.equals(magic)
    return result.mad(r, first.where(a, constant)).with_sign_of(x)


def _erfc_single(x: Lanes, t: Lanes) -> Lanes:
    """The exponential and the polynomial depend only on x. The exponential is written as exp(-(x * x)): the derivative
    contains the same expression, which is then computed once."""
    return exp_of_negative(-(x * x)) * t.horner(ERFC["f32"])


def _erfc_double(t: Lanes) -> Lanes:
    return exp_of_bounded(-(t * t)) * ((t - 3.0) / (t + 3.0)).horner(ERFCX["f64"])
