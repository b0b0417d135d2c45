"""The dialect's arithmetic on single numbers in plain Python. Tests compare every printer's code with it.

A number is a Python int, float or bool with an element type beside it. Floats are computed in float64 (half precision
through float32, like in the back ends) and rounded to their type; integers wrap around. Entry points: `apply`,
`convert`, `reinterpret`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from burn.dialect.functions import BY_NAME
from burn.dialect.types import DTYPES, HALF_DTYPES, numpy_dtype

Number = int | float | bool

ARITHMETIC: dict[str, Callable[..., float]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
"""Functions of floats that are Python's own, which has no warnings to silence."""
FINITE = 2.0**127
"""Smaller numbers are finite in float32."""


def rounded(value: Any, dtype: str) -> Number:
    """Rounds or wraps a number of unbounded precision to the type."""
    info = DTYPES[dtype]
    if info.kind == "bool":
        return bool(value)
    if info.kind in ("complex", "string", "list"):
        return value
    if info.kind in ("int", "uint"):
        low = int(value) & ((1 << info.bits) - 1)
        return low - (1 << info.bits) if info.kind == "int" and low >> (info.bits - 1) else low
    if dtype == "float64":
        return float(value)
    if dtype == "float32" and abs(value) < FINITE:  # no warning to silence
        return float(np.float32(value))
    with np.errstate(all="ignore"):
        if dtype == "float32":
            return float(np.float32(value))
        return float(np.float32(value).astype(numpy_dtype(dtype)))


def apply(function: str, dtype: str, *args: Number) -> Number:
    """A pointwise function of the dialect on numbers of one type (`select`'s first is a bool)."""
    if function == "select":
        return args[1] if args[0] else args[2]
    if function in PREDICATES:
        return bool(PREDICATES[function](*args))
    kind = DTYPES[dtype].kind
    if kind == "float" and function in ARITHMETIC and dtype not in HALF_DTYPES:
        return rounded(ARITHMETIC[function](*map(float, args)), dtype)
    with np.errstate(all="ignore"):
        if kind == "float":
            result = meaning(function)(*(np.float64(a) for a in args))
            half = dtype in HALF_DTYPES
            return rounded(np.float32(result) if half else result, dtype)
        if kind == "bool":
            return bool(BOOLS[function](*map(bool, args)))
        bits = DTYPES[dtype].bits
        if function in SHIFTS:
            shift = int(args[1])
            moved = SHIFTS[function](int(args[0]) & ((1 << bits) - 1), shift) if 0 <= shift < bits else 0
            return rounded(moved, dtype)
        return rounded(INTEGERS[function](*map(int, args)), dtype)


def meaning(function: str) -> Callable[..., Any]:
    """A function of floats, computed on numpy scalars."""
    found = BY_NAME[function].numpy
    assert found is not None, function
    return found


def reinterpret(value: Number, source: str, target: str) -> Number:
    """The bits of a number read as another type of the same width."""
    array = np.array([value], numpy_dtype(source)).view(numpy_dtype(target))
    return array[0].item() if DTYPES[target].kind in ("int", "uint", "bool") else float(array[0])


# ---- conversions -----------------------------------------------------------------------------------------------------


def convert(value: Number, source: str, target: str, saturate: bool = True) -> Number:
    """ONNX's Cast; implementation-defined cases are as in `codegen/cpu/convert.py`."""
    kind = DTYPES[target].kind
    if kind == "bool":
        return bool(value != 0)
    if kind in ("int", "uint"):
        return rounded(_truncated(value, target) if isinstance(value, float) else int(value), target)
    number = float(value)
    if kind == "small":
        return _small(number, target, saturate)
    if target in HALF_DTYPES and not isinstance(value, bool):
        return _once(number, target)
    return rounded(number, target)


def _truncated(value: float, target: str) -> int:
    """Truncates. A number out of range becomes the least 32-bit integer, or the least 64-bit one for the widest types."""
    bits = 64 if DTYPES[target].bits == 64 or target == "uint32" else 32
    least = -(1 << (bits - 1))
    if math.isnan(value) or math.isinf(value):
        return least if target != "uint64" or not value > 0 else 0
    whole = math.trunc(value)
    if target == "uint64" and value >= 2.0**63:
        return whole if value < 2.0**64 else 0
    return whole if least <= whole < -least else least


def _once(number: float, target: str) -> float:
    """Rounds once to half precision: the intermediate float32 rounds to odd, so its last bit is sticky."""
    single = np.float32(number)
    if float(single) != number and math.isfinite(number) and np.isfinite(single):
        bits = int(single.view(np.int32))
        bits -= abs(float(single)) > abs(number)
        single = np.int32(bits | 1).view(np.float32)
    with np.errstate(all="ignore"):
        return float(single.astype(numpy_dtype(target)))


def _small(number: float, target: str, saturate: bool) -> float:
    """Converts to a float of 8 or 4 bits; `saturate` clamps to the largest number."""
    import ml_dtypes

    dtype = numpy_dtype(target)
    if target == "float8_e8m0fnu":
        return _power_of_two(number, saturate)
    largest = float(ml_dtypes.finfo(dtype).max)
    if math.isnan(number):
        return float(np.float32(number).astype(dtype))
    single = _once_single(number)
    result = float(np.float32(single).astype(dtype))
    if not abs(result) <= largest and (saturate or target == "float4_e2m1fn"):
        return math.copysign(largest, number)
    return result


def _once_single(number: float) -> float:
    single = np.float32(number)
    if float(single) == number or not np.isfinite(single):
        return float(single)
    bits = int(single.view(np.int32)) - (abs(float(single)) > abs(number))
    return float(np.int32(bits | 1).view(np.float32))


def _power_of_two(number: float, saturate: bool) -> float:
    """Converts to float8_e8m0fnu: the next larger power of two."""
    if math.isnan(number) or number < 0 or (not saturate and number < 2.0**-127):
        return math.nan
    if number <= 2.0**-127:
        return 2.0**-127
    exponent = math.ceil(math.log2(number)) if math.isfinite(number) else 128
    if exponent > 127:
        return 2.0**127 if saturate else math.nan
    return 2.0**exponent


# ---- the functions ---------------------------------------------------------------------------------------------------

Rule = Callable[..., Any]


def _quotient(a: int, b: int) -> int:
    """The quotient truncated towards zero; x / 0 is 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(base: int, exponent: int) -> int:
    """A negative exponent gives the truncated reciprocal."""
    if exponent >= 0:
        return pow(base, exponent, 1 << 64)
    return {1: 1, -1: 1 if exponent % 2 == 0 else -1}.get(base, 0)


INTEGERS: dict[str, Rule] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "floordiv": lambda a, b: a // b if b else 0,
    "fmod": lambda a, b: a - _quotient(a, b) * b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "pow": _power,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda x: ~x,
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
}

SHIFTS: dict[str, Rule] = {"shift_left": lambda a, b: a << b, "shift_right": lambda a, b: a >> b}

BOOLS: dict[str, Rule] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "not": lambda x: not x,
    "min": lambda a, b: a and b,
    "max": lambda a, b: a or b,
    "abs": lambda x: x,
}

PREDICATES: dict[str, Rule] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "isnan": math.isnan,
    "isinf": math.isinf,
}
