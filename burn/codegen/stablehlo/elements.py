"""Element types in StableHLO: their names, and the types that stand for those without arithmetic there.

A *carrier* is the type that holds a burn element type inside of a module. Integers of 2 and 4 bits are carried in 8 bits, sign-
or zero-extended. Floats of 8 and 4 bits are carried as their bit patterns in `uint8`. All others carry themselves.
"""

from __future__ import annotations

from burn.dialect.types import DTYPES

_CARRIERS = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}


def carrier(dtype: str) -> str:
    """The element type that holds `dtype` in a module."""
    return "uint8" if DTYPES[dtype].kind == "small" else _CARRIERS.get(dtype, dtype)


def has_carrier(dtype: str) -> bool:
    """False for strings and lists, which StableHLO does not have."""
    return DTYPES[dtype].kind not in ("string", "list")


def is_float(dtype: str) -> bool:
    return DTYPES[dtype].kind == "float"


def is_integer(dtype: str) -> bool:
    return DTYPES[dtype].kind in ("int", "uint")


def is_unsigned(dtype: str) -> bool:
    return DTYPES[dtype].kind in ("uint", "bool")


def lowest(dtype: str) -> float | int:
    """The least value: minus infinity of floats."""
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if kind == "float":
        return float("-inf")
    return -(1 << (bits - 1)) if kind == "int" else 0


def highest(dtype: str) -> float | int:
    """The largest value: infinity of floats."""
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if kind == "float":
        return float("inf")
    return (1 << (bits - 1)) - 1 if kind == "int" else (1 << bits) - 1


def accumulator(dtype: str) -> str:
    """The type that sums of `dtype` are formed in: float32 for half precision."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype
