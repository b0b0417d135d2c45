"""The element types of an artefact's tensors by name, as numpy and DLPack know them.

Types narrower than a byte take one byte an element. Strings have no numpy type of their own: their elements are not plain
bytes, and arrays of them hold objects (strings.py).
"""

from __future__ import annotations

import sys
from functools import cache

import numpy as np

# DLPack's type codes (dlpack.h, DLDataTypeCode).
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6


class DType:
    """An element type. bits: those that an element takes in memory. dlpack: its type code; None where DLPack packs several
    elements in a byte, or has no such type."""

    __slots__ = ("_numpy", "bits", "dlpack", "name")

    def __init__(self, name: str, bits: int, dlpack: int | None, numpy: np.dtype | None) -> None:
        """numpy: None for a type of ml_dtypes, which takes 5 ms to import."""
        self.name, self.bits, self.dlpack, self._numpy = name, bits, dlpack, numpy

    @property
    def numpy(self) -> np.dtype:
        if self._numpy is None:
            import ml_dtypes

            self._numpy = np.dtype(getattr(ml_dtypes, self.name))
        return self._numpy

    def __repr__(self) -> str:
        return f"DType({self.name})"


def _table() -> dict[str, DType]:
    rows: list[tuple[str, int, int | None, type | None]] = [
        ("float64", 64, _FLOAT, np.float64),
        ("float32", 32, _FLOAT, np.float32),
        ("float16", 16, _FLOAT, np.float16),
        ("bfloat16", 16, _BFLOAT, None),
        ("float8_e4m3fn", 8, 10, None),
        ("float8_e4m3fnuz", 8, 11, None),
        ("float8_e5m2", 8, 12, None),
        ("float8_e5m2fnuz", 8, 13, None),
        ("float8_e8m0fnu", 8, 14, None),
        ("float4_e2m1fn", 8, None, None),
        ("int2", 8, None, None),
        ("uint2", 8, None, None),
        ("int4", 8, None, None),
        ("uint4", 8, None, None),
        ("int8", 8, _INT, np.int8),
        ("int16", 16, _INT, np.int16),
        ("int32", 32, _INT, np.int32),
        ("int64", 64, _INT, np.int64),
        ("uint8", 8, _UINT, np.uint8),
        ("uint16", 16, _UINT, np.uint16),
        ("uint32", 32, _UINT, np.uint32),
        ("uint64", 64, _UINT, np.uint64),
        ("bool", 8, _BOOL, np.bool_),
        ("complex64", 64, _COMPLEX, np.complex64),
        ("complex128", 128, _COMPLEX, np.complex128),
        ("string", 64, None, object),
    ]
    return {name: DType(name, bits, code, None if kind is None else np.dtype(kind)) for name, bits, code, kind in rows}


DTYPES = _table()
CODES = (
    *("float64", "float32", "float16", "bfloat16"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"),
    *("int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "complex64", "complex128", "string", "list"),
)
"""Element types in the order of burn_dtype in lib_keys.h. A list is of tensors, and a scalar; programs alone see it."""

_OWN = {dtype.numpy: dtype for dtype in DTYPES.values() if dtype._numpy is not None}
_BY_DLPACK = {(dtype.dlpack, dtype.bits): dtype for dtype in DTYPES.values() if dtype.dlpack is not None}


@cache
def _all() -> dict[np.dtype, DType]:
    return {dtype.numpy: dtype for dtype in DTYPES.values()}


def of_numpy(dtype: np.dtype) -> DType | None:
    """The element type of a numpy dtype; None if it is none."""
    found = _OWN.get(dtype)
    return _all().get(dtype) if found is None and "ml_dtypes" in sys.modules else found


def numpy_dtype(name: str) -> np.dtype:
    """Raises KeyError for a name that is no element type."""
    return DTYPES[name].numpy


def name_of(dtype: np.dtype) -> str:
    """The name of a numpy dtype; numpy's own for one that no artefact has."""
    known = of_numpy(dtype)
    return known.name if known else str(dtype)


def dlpack_code(dtype: np.dtype) -> int | None:
    """DLPack's type code of a numpy dtype; None if it has no such type with one element a byte or more."""
    known = of_numpy(dtype)
    return None if known is None else known.dlpack


def from_dlpack(code: int, bits: int) -> DType | None:
    return _BY_DLPACK.get((code, bits))
