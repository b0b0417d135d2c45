"""Conversions between element types in Triton's language; codegen/cpu/convert.py documents their semantics."""

from __future__ import annotations

from burn.codegen.formats import EXPONENT, INTEGERS, SMALL, Small
from burn.codegen.triton.functions import EIGHTS, triton_type
from burn.dialect.types import HALF_DTYPES


def convert(x: str, source: str, target: str, saturate: bool = True, eights: bool = False) -> str:
    """eights: the GPU has an instruction that widens 8-bit floats. Raises CompileError for a type that Triton has none for."""
    to, _ = triton_type(target), triton_type(source)
    if source == target:
        return x
    plain, number = _decoded(x, source, eights)
    if target == "bool":
        return f"{plain} != 0"
    if target in INTEGERS:
        return _to_integer(plain, number, target)
    if target in ("float64", "float32"):
        return plain if number == target else f"{plain}.to({to})"
    if number not in ("float32", "float16"):
        exact = number == "bool" or INTEGERS.get(number, 64) <= 16
        plain = f"{plain}.to(tl.float32)" if exact else f"rounded_to_odd({plain}.to(tl.float64))"
    if target in HALF_DTYPES:
        return f"{plain}.to({to})"
    if target == EXPONENT:
        return f"to_exponent({plain}, {saturate})"
    return f"to_small({plain}, {_format(SMALL[target])}, {_overflow(SMALL[target], saturate)})"


def _decoded(x: str, source: str, eights: bool) -> tuple[str, str]:
    """Decodes to a type with arithmetic: (value, type)."""
    if source in HALF_DTYPES:
        return f"{x}.to(tl.float32)", "float32"
    if source in EIGHTS and eights:
        return f"{x}.to({EIGHTS[source]}, bitcast=True).to(tl.float16)", "float16"
    if source in SMALL:
        return f"from_small({x}, {_format(SMALL[source])})", "float32"
    if source == EXPONENT:
        return f"from_exponent({x})", "float32"
    bits = INTEGERS.get(source, 8)
    if bits < 8:
        return f"(({x} << {8 - bits}) >> {8 - bits})", "uint8" if source.startswith("u") else "int8"
    return x, source


def _to_integer(plain: str, number: str, target: str) -> str:
    bits, to = INTEGERS[target], triton_type(target)
    if number.startswith("float"):
        if target == "uint64":
            return f"whole_unsigned({plain})"
        wide = 64 if bits == 64 or target == "uint32" else 32
        result = f"whole({plain}, tl.int{wide}, {2.0 ** (wide - 1)!r}).to({to})"
    else:
        result = plain if number == target else f"{plain}.to({to})"
    return f"({result} & {(1 << bits) - 1})" if bits < 8 else result


def _format(form: Small) -> str:
    """The constants of from_small and to_small; -1 for a code that a format does not have."""
    nan, infinity = (-1 if code is None else code for code in (form.nan, form.infinity))
    return f"{form.bits}, {form.mantissa}, {form.bias}, {form.largest}, {nan}, {infinity}, {form.zero_unsigned}"


def _overflow(form: Small, saturate: bool) -> int:
    if saturate or form.nan is None:
        return form.largest
    return form.nan if form.infinity is None else form.infinity
