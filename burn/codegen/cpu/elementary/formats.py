"""The facts about f32 and f64 that the elementary functions are written in terms of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from burn.codegen.cpu.lanes import Lanes


@dataclass(frozen=True)
class Format:
    mantissa: int  # stored bits
    bias: int
    # ln 2 in two parts; n * ln2_high is exact for every exponent n, even where a multiply-add is not fused.
    ln2_high: float
    ln2_low: float
    pi_low: float  # pi minus its nearest value in this format
    exp_high: float  # beyond, exp overflows
    exp_low: float  # below, exp is 0
    log_epsilon: float  # from -this down, exp(x) is under half an ULP of 1

    @property
    def magic(self) -> float:
        """1.5 * 2^mantissa: added to a small number, it rounds it to an integer that then stands in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def min_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def sign_bit(self) -> int:
        return 1 << (self.mantissa + (self.bias + 1).bit_length())


FORMATS = {
    "f32": Format(23, 127, 0.693359375, math.log(2) - 0.693359375, -8.742278000372476e-08, 89.0, -104.0, 18.0),
    "f64": Format(
        52, 1023, 0.6931471803691238, 1.9082149292705877e-10, 1.2246467991473532e-16, 710.0, -746.0, 40.0
    ),
}  # fmt: skip


def format_of(x: Lanes) -> Format:
    return FORMATS[x.element]


def at_most(x: Lanes, bound: float) -> Lanes:
    """min(x, bound), NaN kept: this order of the operands is one instruction on x86."""
    return (x > bound).where(bound, x)


def at_least(x: Lanes, bound: float) -> Lanes:
    return (x < bound).where(bound, x)


def power_of_two(biased: Lanes) -> Lanes:
    """2^n from n rounded by adding `magic + bias`, whose low bits are then the exponent field."""
    return (biased.as_int() << format_of(biased).mantissa).as_float()
