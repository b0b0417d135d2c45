"""Conversions between element types, as `burn.codegen.cpu.convert` states them: ONNX's Cast, and what it leaves open.

StableHLO's own conversion saturates floats that an integer type does not hold, and rounds some doubles twice on their way to half
precision. Floats of 8 and 4 bits are converted by integer arithmetic on their bits.
"""

from __future__ import annotations

import math

from burn.codegen.formats import EXPONENT, SMALL, Small
from burn.codegen.stablehlo.arithmetic import Lanes
from burn.codegen.stablehlo.builder import Builder, Value
from burn.codegen.stablehlo.elements import carrier
from burn.dialect.types import DTYPES


def cast(b: Builder, x: Value, source: str, target: str, saturate: bool = True) -> Value:
    """x, which carries elements of `source`, as the carrier of `target`."""
    if source == target:
        return x
    if source == EXPONENT and target == "bool":  # it has no 0
        return b.compare("GE", x, b.like(0, x))
    if source == EXPONENT and target in ("float64", "bfloat16"):
        return _power_of_two(Lanes(b, x), target).value
    lanes = _decoded(Lanes(b, x), source)
    kind = DTYPES[target].kind
    if kind == "complex" or DTYPES[source].kind == "complex":
        return lanes.to(target).value
    if kind == "bool":
        return lanes.value if source == "bool" else lanes.is_("NE", 0).value
    if kind in ("int", "uint"):
        number = lanes.to(carrier(target)) if not _is_float(lanes.dtype) else _truncated(lanes, target)
        return wrapped(b, number.value, target)
    if target in ("float64", "float32"):
        return lanes.to(target).value
    number = lanes if _is_float(lanes.dtype) else lanes.to("float64" if _is_wide(lanes.dtype) else "float32")
    if number.dtype == "float64":
        number = _round_to_odd(number)
    if kind == "float":
        return number.to(target).value
    number = number.to("float32")
    made = _to_exponent(number, saturate) if target == EXPONENT else _to_small(number, SMALL[target], saturate)
    return made.to("uint8").value


def wrapped(b: Builder, x: Value, dtype: str) -> Value:
    """The result of arithmetic in a carrier, as that of a narrow integer type."""
    bits = DTYPES[dtype].bits
    if DTYPES[dtype].kind not in ("int", "uint") or bits >= 8:
        return x
    lanes = Lanes(b, x) << (8 - bits)
    return lanes.op("shift_right_arithmetic" if dtype.startswith("int") else "shift_right_logical", 8 - bits).value


def _is_float(dtype: str) -> bool:
    return DTYPES[dtype].kind == "float"


def _is_wide(dtype: str) -> bool:
    return DTYPES[dtype].bits > 16


def _decoded(x: Lanes, source: str) -> Lanes:
    """Small floats as float32."""
    if source == EXPONENT:
        return _from_exponent(x)
    return _from_small(x, SMALL[source]) if source in SMALL else x


def _truncated(x: Lanes, target: str) -> Lanes:
    """A float as an integer. One out of range becomes the least integer of 32 or 64 bits, whose low bits are taken."""
    if x.dtype in ("float16", "bfloat16"):
        x = x.to("float32")
    if target == "uint64":  # from 2^63 on, the top bit is taken off the float and put back on the integer
        large = x >= 2.0**63
        low = _fitting(large.where(x - 2.0**63, x), 64)
        return (low ^ large.where(low.const(-(1 << 63)), 0)).to("uint64")
    bits = 64 if DTYPES[target].bits == 64 or target == "uint32" else 32
    return _fitting(x, bits).to(carrier(target))


def _fitting(x: Lanes, bits: int) -> Lanes:
    limit = 2.0 ** (bits - 1)
    fits = (x >= -limit) & (x < limit)
    return fits.where(fits.where(x, 0.0).to(f"int{bits}"), -(1 << (bits - 1)))


def _round_to_odd(x: Lanes) -> Lanes:
    """float64 to the float32 towards zero, its last bit set if anything was lost: rounding that again rounds x itself."""
    near = x.to("float32")
    back = near.to("float64")
    inexact = (back < x) | (back > x)
    down = (back.abs() > x.abs()).where(near.bits().const(1), 0)
    return (near.bits() - down | inexact.where(down.const(1), 0)).as_("float32")


# ---- floats of 8 and 4 bits --------------------------------------------------------------------------------------------
def _to_small(x: Lanes, form: Small, saturate: bool) -> Lanes:
    bits = x.bits()
    magnitude = bits & 0x7FFFFFFF
    shift = 23 - form.mantissa
    # half a unit is added, less if the last bit kept is even; a carry runs into the exponent
    rounded = magnitude + ((1 << (shift - 1)) - 1) + ((magnitude >> shift) & 1)
    normal = (rounded >> shift) - ((127 - form.bias) << form.mantissa)
    # denormals are multiples of one step
    scaled = x.abs() * 2.0 ** (form.bias - 1 + form.mantissa)
    steps = Lanes(x.b, x.b.unary("round_nearest_even", (scaled < 256.0).where(scaled, 0.0).value))
    result = (magnitude < ((128 - form.bias) << 23)).where(steps.to("int32"), normal)
    overflow = form.largest if saturate or form.nan is None else form.nan if form.infinity is None else form.infinity
    result = (result > form.largest).where(overflow, result)
    sign = (bits >> (32 - form.bits)) & (1 << (form.bits - 1))
    if form.nan is None:
        return x.is_nan().where(~sign & (1 << (form.bits - 1)), result | sign)
    if form.zero_unsigned:
        return x.is_nan().where(form.nan, result | result.equals(0).where(0, sign))
    return x.is_nan().where(form.nan, result) | sign


def _from_small(x: Lanes, form: Small) -> Lanes:
    bits = x.to("int32")
    sign_bit = 1 << (form.bits - 1)
    magnitude = bits & (sign_bit - 1)
    normal = ((magnitude << (23 - form.mantissa)) + ((127 - form.bias) << 23)).as_("float32")
    denormal = magnitude.to("float32") * 2.0 ** (1 - form.bias - form.mantissa)
    result = (magnitude < (1 << form.mantissa)).where(denormal, normal)
    if form.infinity is not None:
        result = magnitude.equals(form.infinity).where(math.inf, result)
    if form.nan is not None:
        special = magnitude > (form.largest if form.infinity is None else form.infinity)
        if form.zero_unsigned:
            special = bits.equals(form.nan)
        result = special.where(math.nan, result)
    return (result.bits() | ((bits & sign_bit) << (32 - form.bits))).as_("float32")


def _to_exponent(x: Lanes, saturate: bool) -> Lanes:
    """float8_e8m0fnu, rounded up: the float's own exponent field is the code; below 2^-126 the fraction decides."""
    bits = x.bits() & 0x7FFFFFFF
    fraction, exponent = bits & 0x7FFFFF, bits >> 23
    threshold = exponent.equals(0).where(bits.const(0x400001), 1)
    result = exponent + (fraction >= threshold).where(bits.const(1), 0)
    result = (result > 254).where(254 if saturate else 255, result)
    undefined = x.is_nan() | (x < 0.0)
    if not saturate:
        undefined = undefined | (bits < 0x400000)  # 2^-127, which a comparison of floats may take as 0
    return undefined.where(255, result)


def _power_of_two(x: Lanes, target: str) -> Lanes:
    """A float8_e8m0fnu without float32 between, which may lose 2^-127."""
    if target == "bfloat16":
        return (_from_exponent(x).bits() >> 16).to("int16").as_("bfloat16")
    value = ((x.to("int64") + (1023 - 127)) << 52).as_("float64")
    return x.equals(255).where(math.nan, value)


def _from_exponent(x: Lanes) -> Lanes:
    bits = x.to("int32")
    value = bits.equals(0).where(0x400000, bits << 23).as_("float32")
    return bits.equals(255).where(math.nan, value)
