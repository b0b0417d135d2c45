"""The element types of an artefact's tensors by name, as numpy and DLPack know them.

Types narrower than a byte take one byte an element. Strings have no numpy type of their own: their elements are not plain
bytes, and arrays of them hold objects (strings.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

# DLPack's type codes (dlpack.h, DLDataTypeCode).
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6


@dataclass(frozen=True)
class DType:
    name: str
    numpy: np.dtype
    dlpack: int | None  # type code; None where DLPack packs several elements in a byte, or has no such type

    @property
    def bits(self) -> int:
        """Bits an element takes in memory."""
        return self.numpy.itemsize * 8


def _table() -> dict[str, DType]:
    rows: list[tuple[str, object, int | None]] = [
        ("float64", np.float64, _FLOAT),
        ("float32", np.float32, _FLOAT),
        ("float16", np.float16, _FLOAT),
        ("bfloat16", ml_dtypes.bfloat16, _BFLOAT),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 10),
        ("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 11),
        ("float8_e5m2", ml_dtypes.float8_e5m2, 12),
        ("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 13),
        ("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, 14),
        ("float4_e2m1fn", ml_dtypes.float4_e2m1fn, None),
        ("int2", ml_dtypes.int2, None),
        ("uint2", ml_dtypes.uint2, None),
        ("int4", ml_dtypes.int4, None),
        ("uint4", ml_dtypes.uint4, None),
        ("int8", np.int8, _INT),
        ("int16", np.int16, _INT),
        ("int32", np.int32, _INT),
        ("int64", np.int64, _INT),
        ("uint8", np.uint8, _UINT),
        ("uint16", np.uint16, _UINT),
        ("uint32", np.uint32, _UINT),
        ("uint64", np.uint64, _UINT),
        ("bool", np.bool_, _BOOL),
        ("complex64", np.complex64, _COMPLEX),
        ("complex128", np.complex128, _COMPLEX),
    ]
    table = {name: DType(name, np.dtype(scalar), code) for name, scalar, code in rows}  # type: ignore[call-overload]
    table["string"] = DType("string", np.dtype(object), None)
    return table


DTYPES = _table()
CODES = (
    *("float64", "float32", "float16", "bfloat16"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"),
    *("int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "complex64", "complex128", "string", "list"),
)
"""Element types in the order of burn_dtype in lib_keys.h. A list is of tensors, and a scalar; programs alone see it."""

_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES.values()}
_BY_DLPACK = {(dtype.dlpack, dtype.bits): dtype for dtype in DTYPES.values() if dtype.dlpack is not None}


def numpy_dtype(name: str) -> np.dtype:
    """Raises KeyError for a name that is no element type."""
    return DTYPES[name].numpy


def name_of(dtype: np.dtype) -> str:
    """The name of a numpy dtype; numpy's own for one that no artefact has."""
    known = _BY_NUMPY.get(dtype)
    return known.name if known else str(dtype)


def dlpack_code(dtype: np.dtype) -> int | None:
    """DLPack's type code of a numpy dtype; None if it has no such type with one element a byte or more."""
    known = _BY_NUMPY.get(dtype)
    return None if known is None else known.dlpack


def from_dlpack(code: int, bits: int) -> DType | None:
    return _BY_DLPACK.get((code, bits))
