"""GELU for results of bfloat16."""

from __future__ import annotations

from burn.codegen.cpu.elementary.coefficients import GELU_BY_TANH_PIECES, GELU_PIECES, GELU_SPACING
from burn.codegen.cpu.elementary.formats import at_least, at_most, format_of
from burn.codegen.cpu.elementary.tables import looked_up, on_whole_vectors
from burn.codegen.cpu.lanes import Lanes

_ZERO_FROM = 31 * GELU_SPACING  # the last piece


def gelu_for_bfloat16(x: Lanes, by_tanh: bool) -> Lanes:
    """GELU of float32 by erf or by tanh, for vectors that `looks_up` accepts: max(x, 0) minus a function of |x|, which is one of
    32 polynomials of degree 2.

    Rounding to bfloat16 hides the error: relative to the result it is below 2^-12.5 from x = -2.4 on, and 2^-9.8 from -3.5
    (2^-9.1 by tanh). It grows to 2^-7 (2^-5) at -5.6, where the result is -6e-8. Below, the result is 0."""
    return on_whole_vectors(x, lambda x: _by_pieces(x, GELU_BY_TANH_PIECES if by_tanh else GELU_PIECES))


def _by_pieces(x: Lanes, pieces: tuple[tuple[float, ...], ...]) -> Lanes:
    """The piece's number is in the low bits of the rounded quotient, where the instruction reads it. The polynomials are in |x|:
    the digits that cancel in them are not needed."""
    a = at_most(x.abs(), _ZERO_FROM)
    number = a.mad(1 / GELU_SPACING, format_of(x).magic).as_int()
    constant, linear, square = (looked_up(number, numbers) for numbers in pieces)
    return at_least(x, 0.0) - square.mad(a, linear).mad(a, constant)
