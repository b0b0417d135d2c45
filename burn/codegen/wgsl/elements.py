"""Element types: how a kernel holds a number, and how it lies in the heap.

WGSL computes with 32-bit numbers. Narrower integers are held in 32 bits and wrap after each operation. Integers of 64 bits
are pairs of words, the lower one first. float16 and bfloat16 are held as f32 and rounded after each operation, so no
device needs the feature shader-f16. Floats of 8 or 4 bits are bit patterns. Elements of less than a word share words: a
store changes its own bits by two atomic operations.
"""

from __future__ import annotations

import math
import struct

from burn.codegen.formats import EXPONENT, INTEGERS, SMALL
from burn.codegen.printing.code import Unprintable
from burn.dialect.types import DTYPES, HALF_DTYPES

LONG = "vec2<u32>"
"""A pair of words."""

MOVED = {"float64": 8, "complex64": 8}
"""Types without arithmetic here, by their bytes: kernels that only move or select elements take them as pairs of words."""

REGISTERS = {
    "float32": "f32", "float16": "f32", "bfloat16": "f32", "bool": "bool",
    **{f"int{bits}": "i32" for bits in (2, 4, 8, 16, 32)},
    **{f"uint{bits}": "u32" for bits in (2, 4, 8, 16, 32)},
    "int64": LONG, "uint64": LONG,
    **dict.fromkeys([*SMALL, EXPONENT], "u32"),
    **dict.fromkeys(MOVED, LONG),
}  # fmt: skip
"""The WGSL type that holds an element."""


def register(dtype: str) -> str:
    """Raises Unprintable for a type that kernels do not hold."""
    if dtype not in REGISTERS:
        raise Unprintable(f"WGSL kernels do not hold elements of type {dtype}")
    return REGISTERS[dtype]


def bits_of(dtype: str) -> int:
    """Bits of an element in memory."""
    register(dtype)
    return DTYPES[dtype].size * 8


def f32(value: float) -> str:
    """A number as f32. WGSL has no literals for infinities and NaN, and some compilers refuse denormals."""
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        bits = 0xFF800000 if value < 0 else 0x7F800000
    single = struct.unpack("<f", struct.pack("<I", bits))[0]
    if not math.isfinite(single) or 0 < abs(single) < 2.0**-126:
        return f"float_of(0x{bits:x}u)"
    text = f"{single!r}f"
    return f"({text})" if text.startswith("-") else text


def i32(value: int) -> str:
    return str(value) if 0 <= value < 1 << 31 else f"({value})" if value > -(1 << 31) else "(-2147483647 - 1)"


def constant(dtype: str, value: float | int | bool) -> str:
    """A number of that type."""
    type_, kind = register(dtype), DTYPES[dtype].kind
    if type_ == "bool":
        return "true" if value else "false"
    if dtype == "complex64":
        number = complex(value)
        parts = struct.unpack("<2I", struct.pack("<2f", number.real, number.imag))
        return f"vec2<u32>({parts[0]}u, {parts[1]}u)"
    if dtype == "float64":
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return f"vec2<u32>({bits & 0xFFFFFFFF}u, {bits >> 32}u)"
    if type_ == LONG:
        number = int(value) & 0xFFFFFFFFFFFFFFFF
        return f"vec2<u32>({number & 0xFFFFFFFF}u, {number >> 32}u)"
    if kind == "small":
        from burn.codegen.wgsl.convert import convert

        return convert(f32(float(value)), "float32", dtype)
    if kind == "float":
        return f32(_half(float(value), dtype))
    bits = DTYPES[dtype].bits
    number = int(value) % (1 << bits)
    if kind == "uint":
        return f"{number}u"
    return i32(number - (1 << bits) if number >> (bits - 1) else number)


def _half(value: float, dtype: str) -> float:
    """The nearest number of a half-precision type."""
    import numpy as np

    from burn.dialect.types import numpy_dtype

    if dtype not in HALF_DTYPES:
        return value
    with np.errstate(all="ignore"):
        return float(np.float32(value).astype(numpy_dtype(dtype)))


def load(dtype: str, base: str, index: str) -> str:
    """The element at an i32 index behind a base, which counts words."""
    bits = bits_of(dtype)
    if bits == 64:
        return f"load_64({base}, {index})"
    if bits == 32:
        word = f"read({base} + u32({index}))"
        return {"f32": f"bitcast<f32>({word})", "i32": f"bitcast<i32>({word})"}.get(REGISTERS[dtype], word)
    code = f"load_{bits}({base}, {index})"
    if dtype == "bool":
        return f"({code} != 0u)"
    if dtype == "float16":
        return f"float_of_half({code})"
    if dtype == "bfloat16":
        return f"bitcast<f32>({code} << 16u)"
    if REGISTERS[dtype] == "i32":
        return f"extractBits(bitcast<i32>({code}), 0u, {INTEGERS[dtype] if INTEGERS[dtype] >= 8 else 8}u)"
    return code


def store(dtype: str, base: str, index: str, value: str) -> str:
    """The statement that stores a value."""
    bits = bits_of(dtype)
    if bits == 64:
        return f"store_64({base}, {index}, {value});"
    if bits == 32:
        word = value if REGISTERS[dtype] == "u32" else f"bitcast<u32>({value})"
        return f"write({base} + u32({index}), {word});"
    if dtype == "bool":
        code = f"select(0u, 1u, {value})"
    elif dtype == "float16":
        code = f"half_of_float({value})"
    elif dtype == "bfloat16":
        code = f"brain_of_float({value})"
    else:
        code = value if REGISTERS[dtype] == "u32" else f"bitcast<u32>({value})"
    return f"store_{bits}({base}, {index}, {code});"
