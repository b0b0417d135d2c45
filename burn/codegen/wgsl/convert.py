"""Conversions between element types in WGSL; codegen/cpu/convert.py documents their semantics."""

from __future__ import annotations

from burn.codegen.formats import EXPONENT, INTEGERS, SMALL, Small
from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.elements import LONG, MOVED, REGISTERS, register
from burn.codegen.wgsl.functions import rounded
from burn.dialect.types import DTYPES, HALF_DTYPES


def convert(x: str, source: str, target: str, saturate: bool = True) -> str:
    """Raises Unprintable for a type without arithmetic in WGSL."""
    for dtype in (source, target):
        register(dtype)
        if dtype in MOVED and source != target:
            raise Unprintable(f"WGSL kernels do not compute with elements of type {dtype}")
    if source == target:
        return x
    plain = _decoded(x, source)
    if target == "bool":
        return _is_nonzero(plain, source)
    if target in INTEGERS:
        return _to_integer(plain, source, target)
    if target == "float32":
        return _to_float(plain, source, once=False)
    if target in HALF_DTYPES:
        return rounded(_to_float(plain, source, once=True), target)
    number = _to_float(plain, source, once=True)
    if target == EXPONENT:
        return f"exponent_of_float({number}, {str(saturate).lower()})"
    form = SMALL[target]
    return f"small_of_float({number}, {_format(form)}, {_overflow(form, saturate)}u)"


def _decoded(x: str, source: str) -> str:
    """Small floats as f32, and integers of less than 8 bits with their sign."""
    if source in SMALL:
        return f"float_of_small({x}, {_format(SMALL[source])})"
    if source == EXPONENT:
        return f"float_of_exponent({x})"
    bits = INTEGERS.get(source, 8)
    if bits < 8:
        return f"extractBits({x}, 0u, {bits}u)"
    return x


def _is_nonzero(x: str, source: str) -> str:
    if REGISTERS[source] == LONG:
        return f"(({x}.x | {x}.y) != 0u)"
    if _is_float(source):
        return f"is_nonzero({x})"
    return f"({x} != 0{'u' if REGISTERS[source] == 'u32' else ''})"


def _is_float(dtype: str) -> bool:
    return DTYPES[dtype].kind in ("float", "small")


def _to_integer(x: str, source: str, target: str) -> str:
    bits, signed = INTEGERS[target], not target.startswith("u")
    if _is_float(source):
        if bits == 64:
            return f"whole_i64({x})" if signed else f"whole_u64({x})"
        if target == "uint32":
            return f"whole_i64({x}).x"
        return _wrapped(f"whole_i32({x})", "i32", target)
    if bits == 64:
        return _to_long(x, source)
    if REGISTERS[source] == LONG:
        return _wrapped(f"{x}.x", "u32", target)
    if source == "bool":
        return f"select(0u, 1u, {x})" if not signed else f"select(0, 1, {x})"
    return _wrapped(x, REGISTERS[source], target)


def _wrapped(x: str, type_: str, target: str) -> str:
    """A number of 32 bits in a narrower type; the lowest bits."""
    bits, to = INTEGERS[target], REGISTERS[target]
    held = x if type_ == to else f"bitcast<{to}>({x})"
    if bits < 8:  # bit patterns, without a sign
        return f"({held} & {(1 << bits) - 1}{'u' if to == 'u32' else ''})"
    return rounded(held, target)


def _to_long(x: str, source: str) -> str:
    match REGISTERS[source]:
        case "vec2<u32>":
            return x
        case "bool":
            return f"vec2<u32>(select(0u, 1u, {x}), 0u)"
        case "u32":
            return f"vec2<u32>({x}, 0u)"
    return f"long_of_i32({x})"


def _to_float(x: str, source: str, once: bool) -> str:
    """As f32. once: the number is rounded further, so what f32 loses stays visible in its last bit."""
    if _is_float(source):
        return x
    if source == "bool":
        return f"select(0.0, 1.0, {x})"
    sign = "u" if source.startswith("u") else "i"
    if INTEGERS[source] == 64:
        return f"{'odd' if once else 'float'}_of_{sign}64({x})"
    if once and INTEGERS[source] == 32:
        return f"odd_of_{sign}64({_to_long(x, source)})"
    return f"f32({x})"


def _format(form: Small) -> str:
    """The constants of float_of_small and small_of_float; -1 for a code that a format does not have."""
    nan, infinity = (-1 if code is None else code for code in (form.nan, form.infinity))
    zero = str(form.zero_unsigned).lower()
    return f"{form.bits}u, {form.mantissa}u, {form.bias}u, {form.largest}u, {nan}, {infinity}, {zero}"


def _overflow(form: Small, saturate: bool) -> int:
    if saturate or form.nan is None:
        return form.largest
    return form.nan if form.infinity is None else form.infinity
