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
        """1.5 * 2^mantissa. Adding it to a small number rounds that to an integer in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def min_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {
    "f32": Format(23, 127, 0.693359375, math.log(2) - 0.693359375, -8.742278000372476e-08, 89.0, -104.0, 18.0),
    "f64": Format(
        52, 1023, 0.6931471803691238, 1.9082149292705877e-10, 1.2246467991473532e-16, 710.0, -746.0, 40.0
    ),
}  # fmt: skip


def format_of(x: Lanes) -> Format:
    return FORMATS[x.element]


def at_most(x: Lanes, bound: float) -> Lanes:
    """min(x, bound), with NaN propagated: this order of the operands is one instruction on x86."""
    return (x > bound).where(bound, x)


def at_least(x: Lanes, bound: float) -> Lanes:
    return (x < bound).where(bound, x)


def power_of_two(biased: Lanes) -> Lanes:
    """2^n from n rounded by adding `magic + bias`, whose low bits are then the exponent field."""
    return (biased.as_int() << format_of(biased).mantissa).as_float()


_SCALEF = {"f32": ("ps", "i16"), "f64": ("pd", "i8")}
"""By element type: the suffix of AVX-512's instruction, and the type of its mask."""


def scales(x: Lanes) -> bool:
    """True if one instruction multiplies such vectors by powers of two: AVX-512's vscalef."""
    return "+avx512f" in x.code.attributes and x.lanes * x.width == 512


def scaled(x: Lanes, n: Lanes, kept: Lanes) -> Lanes:
    """x * 2^n, rounded once, and 0 in lanes that are not `kept`; for vectors that `scales` accepts. Masked lanes cost
    nothing, while a denormal result takes some CPUs a hundred cycles."""
    name, mask = _SCALEF[x.element]
    code, type_ = x.code, x.type
    bits = code.pure(f"llvm.bitcast {kept.value} : {kept.type} to {mask}", mask)
    operands = (x.value, n.value, x.const(0.0).value, bits, code.const(4, "i32"))
    values, types = (", ".join(texts) for texts in (map(str, operands), (v.type for v in operands)))
    call = f'llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.{name}.512"({values}) : ({types}) -> {type_}'
    return x.wrap(code.pure(call, type_))


def reaches(x: Lanes, bound: float) -> Lanes:
    """True if x is at least the bound, or NaN."""
    return x.wrap(x.code.cmpf("uge", x.value, x.const(bound).value))


def reciprocal_nearly(x: Lanes) -> Lanes:
    """1 / x with a relative error below 2 ** -14, for vectors of float32 that `scales` accepts."""
    operands = (x.value, x.const(0.0).value, x.code.const(-1, "i16"))
    values, types = (", ".join(texts) for texts in (map(str, operands), (v.type for v in operands)))
    return x.wrap(
        x.code.pure(f'llvm.call_intrinsic "llvm.x86.avx512.rcp14.ps.512"({values}) : ({types}) -> {x.type}', x.type)
    )
