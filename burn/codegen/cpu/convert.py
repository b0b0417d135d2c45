"""Conversions between element types, lane-wise: `convert` is the entry point, ONNX's Cast its specification.

A value has its element type's representation in memory. float64 to bfloat16 are MLIR floats, integers `i8` to `i64`,
and bool `i1`. Types without arithmetic (8-bit and 4-bit floats, 4-bit and 2-bit integers) are bit patterns, one per
byte. Every conversion decodes to a type with arithmetic and encodes from there. Nothing calls a compiler-rt routine
on a target with F16C or better: bfloat16 and the small floats are integer arithmetic.

Choices where the specification leaves one:
- float to integer truncates. A NaN, or a number out of range, gives the same as C on x86-64: the least int32 (int64
  for uint32). Narrower types take its low bits. A negative float wraps to an unsigned type.
- a double is rounded once, even to types narrower than float32. An integer above 2^53 is first rounded to a double.
- NaN becomes zero in float4_e2m1fn (as in ml_dtypes), and a negative number NaN in float8_e8m0fnu.
"""

from __future__ import annotations

import math

from burn.codegen.cpu.lanes import Lanes
from burn.codegen.formats import EXPONENT, HALF, INTEGERS, SMALL, Small
from burn.codegen.host.emit import Function, Value, lanes_of, vector
from burn.errors import CompileError

FLOATS = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}
_ELEMENTS = {
    **FLOATS,
    **{name: f"i{max(8, bits)}" for name, bits in INTEGERS.items()},
    **dict.fromkeys([*SMALL, EXPONENT], "i8"),
    "bool": "i1",
    **dict.fromkeys(("string", "list"), "i64"),  # addresses: equal strings have equal addresses
}


def element_type(dtype: str) -> str:
    """The MLIR type of one element in memory. Raises `CompileError` for a type that has none here."""
    if dtype not in _ELEMENTS:
        raise CompileError(f"elements of type {dtype} cannot be held in a CPU register")
    return _ELEMENTS[dtype]


def convert(
    code: Function, value: Value, source: str, target: str, *, saturate: bool = True, round_mode: str = "up"
) -> Value:
    """`value`, lanes of burn dtype `source`, as `target`. `saturate` and `round_mode` (up, down, nearest: of
    float8_e8m0fnu) are ONNX Cast's attributes. Raises `CompileError` for complex and string types."""
    lanes = Lanes(code, value)
    if lanes.element != element_type(source):
        raise CompileError(f"{source} is held as {element_type(source)}, not as {value.type}")
    element_type(target)
    if round_mode not in ("up", "down", "nearest"):
        raise CompileError(f"there is no rounding mode '{round_mode}'")
    if source == target:
        return value
    plain = _decode(lanes, source)
    if target == "bool":
        return plain.value if source == "bool" else plain.differs(0).value
    if target in INTEGERS:
        return _to_integer(plain, source, target).value
    number = _to_float(plain, source)
    if target in ("float64", "float32"):
        return (number.widen if target == "float64" else number.narrow)(FLOATS[target]).value
    if number.element == "f64":
        number = _round_to_odd(number)
    if target == "float16":
        if code.soft_float16:
            return _to_small(number, HALF, saturate=False).cast("arith.bitcast", "f16").value
        return number.narrow("f16").value
    if target == "bfloat16":
        return _to_bfloat16(number).value
    if target == EXPONENT:
        return _to_exponent(number, saturate, round_mode).value
    return _to_small(number, SMALL[target], saturate).value


def rounded(code: Function, value: Value, target: str) -> Value | None:
    """Lanes of float32 rounded to the nearest integer, ties to even, and converted as by `convert`. None without an instruction
    for both."""
    whole = _in_int32(Lanes(code, value), _ROUNDS) if INTEGERS.get(target, 64) <= 32 and target != "uint32" else None
    return None if whole is None else convert(code, whole.value, "int32", target)


def _decode(x: Lanes, source: str) -> Lanes:
    """The value as f32 or f64, as an integer with all bits significant, or as i1."""
    if source == "float16":
        return _from_small(x.as_int(), HALF) if x.code.soft_float16 else x.widen("f32")
    if source == "bfloat16":
        return (x.as_int().resize("i32", signed=False) << 16).as_float()
    if source in SMALL:
        return _from_small(x, SMALL[source])
    if source == EXPONENT:
        return _from_exponent(x)
    if INTEGERS.get(source, 8) < 8:
        unused = 8 - INTEGERS[source]
        top = x << unused
        return top.shift_right_logical(unused) if source.startswith("u") else top >> unused
    return x


# ---- integers --------------------------------------------------------------------------------------------------------
def _to_integer(x: Lanes, source: str, target: str) -> Lanes:
    element, bits = element_type(target), INTEGERS[target]
    if source == "bool":
        return x.cast("arith.extui", element)
    if not x.floating:
        result = x.resize(element, signed=not source.startswith("u"))
    elif target == "uint64":  # from 2^63 on, the top bit is taken off the float and put back on the integer
        large = x >= 2.0**63
        result = _truncate(large.where(x - 2.0**63, x), 64) ^ large.where(x.const(-(1 << 63), "i64"), 0)
    else:
        result = _truncate(x, 64 if bits == 64 or target == "uint32" else 32).resize(element)
    return result & ((1 << bits) - 1) if bits < 8 else result


def _truncate(x: Lanes, bits: int) -> Lanes:
    """To the signed integer of that width; a number out of range becomes the least integer."""
    if bits == 32 and (whole := _in_int32(x, _TRUNCATES)) is not None:
        return whole
    limit = 2.0 ** (bits - 1)
    fits = (x >= -limit) & (x < limit)
    return fits.where(x.to_int(f"i{bits}"), -(1 << (bits - 1)))


_TRUNCATES = {512: "avx512.mask.cvttps2dq.512", 256: "avx.cvtt.ps2dq.256", 128: "sse2.cvttps2dq"}
_ROUNDS = {512: "avx512.mask.cvtps2dq.512", 256: "avx.cvt.ps2dq.256", 128: "sse2.cvtps2dq"}
"""Intrinsics that convert float32 to int32, by the vector's bits. A lane out of range becomes the least integer."""

_CURRENT_DIRECTION = 4
"""The operand of an AVX-512 intrinsic that rounds as the control register says: to the nearest, ties to even."""


def _in_int32(x: Lanes, intrinsics: dict[int, str]) -> Lanes | None:
    """By one instruction for each register. None on other CPUs, and for lanes that do not fill registers."""
    code, count = x.code, x.lanes
    width = next((bits for bits in intrinsics if bits <= code.x86_bits and 32 * count % bits == 0), None)
    if x.element != "f32" or width is None:
        return None
    lanes, parts = width // 32, list[Value]()
    source, target = vector(lanes, "f32"), vector(lanes, "i32")
    for first in range(0, count, lanes):
        order = list(range(first, first + lanes))
        part = (
            x.value
            if lanes == count
            else code.raw(f"vector.shuffle {x.value}, {x.value} {order} : {x.type}, {x.type}", source)
        )
        operands = [part]
        if width == 512:
            operands += [code.const(0, target), code.const(-1, "i16"), code.const(_CURRENT_DIRECTION, "i32")]
        names, types = ", ".join(map(str, operands)), ", ".join(o.type for o in operands)
        parts.append(
            code.raw(f'llvm.call_intrinsic "llvm.x86.{intrinsics[width]}"({names}) : ({types}) -> {target}', target)
        )
    while len(parts) > 1:
        type_, lanes = parts[0].type, 2 * lanes_of(parts[0].type)
        parts = [
            code.raw(f"vector.shuffle {a}, {b} {list(range(lanes))} : {type_}, {type_}", vector(lanes, "i32"))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return x.wrap(parts[0])


def _to_float(x: Lanes, source: str) -> Lanes:
    """Converts to f32 if that is exact, otherwise to f64, which is exact except for integers above 2^53."""
    if source == "bool":
        return x.where(x.const(1.0, "f32"), 0.0)
    if x.floating:
        return x
    return x.cast("arith.uitofp" if source.startswith("u") else "arith.sitofp", "f32" if x.width <= 16 else "f64")


# ---- float32 to narrower floats --------------------------------------------------------------------------------------
def _round_to_odd(x: Lanes) -> Lanes:
    """Rounds f64 to f32 towards zero, and sets the last bit if the result is inexact. Rounding that result further is
    the same as rounding x once."""
    near = x.narrow("f32")
    back = near.widen("f64")
    inexact = (back < x) | (back > x)
    bits = near.as_int() - (back.abs() > x.abs()).where(near.const(1, "i32"), 0)
    return (bits | inexact.where(bits.const(1), 0)).as_float()


def _to_bfloat16(x: Lanes) -> Lanes:
    count = lanes_of(x.value.type)
    if x.code.native_bfloat16 and count in (4, 8, 16):
        return _by_instruction(x, count)
    bits = x.as_int()
    rounded = (bits + 0x7FFF + (bits.shift_right_logical(16) & 1)).shift_right_logical(16)
    quiet = bits.shift_right_logical(16) | 0x40
    return x.is_nan().where(quiet, rounded).resize("i16").cast("arith.bitcast", "bf16")


def _by_instruction(x: Lanes, count: int) -> Lanes:
    """A vector of float32 rounded to bfloat16 by AVX512-BF16. Four lanes take an instruction for eight."""
    code, value, lanes = x.code, x.value, max(8, count)
    if count < lanes:
        order = [*range(count), *range(count)]
        type_ = vector(lanes, "f32")
        value = code.raw(f"vector.shuffle {value}, {value} {order} : {value.type}, {value.type}", type_)
    type_ = vector(lanes, "bf16")
    name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}"
    rounded = code.raw(f'llvm.call_intrinsic "{name}"({value}) : ({value.type}) -> {type_}', type_)
    if count < lanes:
        order, type_ = list(range(count)), vector(count, "bf16")
        rounded = code.raw(f"vector.shuffle {rounded}, {rounded} {order} : {rounded.type}, {rounded.type}", type_)
    return Lanes(code, rounded)


def _to_small(x: Lanes, form: Small, saturate: bool) -> Lanes:
    bits = x.as_int()
    magnitude = bits & 0x7FFFFFFF
    shift = 23 - form.mantissa
    # Adds half an ULP, or one bit less if the last kept bit is even; a carry correctly increments the exponent.
    rounded = magnitude + ((1 << (shift - 1)) - 1) + (magnitude.shift_right_logical(shift) & 1)
    normal = rounded.shift_right_logical(shift) - ((127 - form.bias) << form.mantissa)
    # Denormals are multiples of one step: a float addition rounds |x| / step, and its low bits are the code.
    magic = x.const(1.5 * 2.0**23)
    denormal = (x.abs().mad(2.0 ** (form.bias - 1 + form.mantissa), magic)).as_int() - magic.as_int()
    result = (magnitude < ((128 - form.bias) << 23)).where(denormal, normal)
    overflow = form.largest if saturate or form.nan is None else form.nan if form.infinity is None else form.infinity
    result = (result > form.largest).where(overflow, result)
    sign = bits.shift_right_logical(32 - form.bits) & (1 << (form.bits - 1))
    if form.nan is None:
        result = x.is_nan().where(~sign & (1 << (form.bits - 1)), result | sign)
    elif form.zero_unsigned:
        result = x.is_nan().where(form.nan, result | result.equals(0).where(0, sign))
    else:
        result = x.is_nan().where(form.nan, result) | sign
    return result.resize("i8" if form.bits <= 8 else f"i{form.bits}")


def _from_small(x: Lanes, form: Small) -> Lanes:
    bits = x.resize("i32", signed=False)
    sign_bit = 1 << (form.bits - 1)
    magnitude = bits & (sign_bit - 1)
    normal = ((magnitude << (23 - form.mantissa)) + ((127 - form.bias) << 23)).as_float()
    denormal = magnitude.to_float("f32") * 2.0 ** (1 - form.bias - form.mantissa)
    result = (magnitude < (1 << form.mantissa)).where(denormal, normal)
    if form.infinity is not None:
        result = magnitude.equals(form.infinity).where(math.inf, result)
    if form.nan is not None:
        special = magnitude > form.largest
        if form.infinity is not None:
            special = magnitude > form.infinity
        if form.zero_unsigned:
            special = bits.equals(form.nan)
        result = special.where(math.nan, result)
    return (result.as_int() | ((bits & sign_bit) << (32 - form.bits))).as_float()


def _to_exponent(x: Lanes, saturate: bool, round_mode: str) -> Lanes:
    """Converts to float8_e8m0fnu. The code is the float's exponent field; below 2^-126 the fraction decides between 0
    and 1."""
    bits = x.as_int() & 0x7FFFFFFF
    fraction = bits & 0x7FFFFF
    exponent = bits.shift_right_logical(23)
    denormal = exponent.equals(0)
    # The least fraction that rounds up; for a denormal, half of the fraction field.
    threshold = {
        "up": denormal.where(bits.const(0x400001), 1),
        "nearest": denormal.where(bits.const(0x600000), 0x400000),
        "down": bits.const(0x800000),
    }[round_mode]
    result = exponent + (fraction >= threshold).where(bits.const(1), 0)
    result = (result > 254).where(254 if saturate else 255, result)
    undefined = x.is_nan() | (x < 0.0)
    if not saturate:
        undefined = undefined | (x < 2.0**-127)
    return undefined.where(255, result).resize("i8")


def _from_exponent(x: Lanes) -> Lanes:
    bits = x.resize("i32", signed=False)
    value = bits.equals(0).where(0x400000, bits << 23).as_float()
    return bits.equals(255).where(math.nan, value)
