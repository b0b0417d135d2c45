"""Element types of the array API standard, and functions of them. `x.dtype == burn.array_api.float32` compares."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect.spec import element_type
from burn.dialect.types import DTYPES, numpy_dtype
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.base import ELEMENT_TYPES, ElementType
from burn.tensors.promotion import common, promoted

int8 = ELEMENT_TYPES["int8"]
"""The element type int8."""
int16 = ELEMENT_TYPES["int16"]
"""The element type int16."""
int32 = ELEMENT_TYPES["int32"]
"""The element type int32."""
int64 = ELEMENT_TYPES["int64"]
"""The element type int64."""
uint8 = ELEMENT_TYPES["uint8"]
"""The element type uint8."""
uint16 = ELEMENT_TYPES["uint16"]
"""The element type uint16."""
uint32 = ELEMENT_TYPES["uint32"]
"""The element type uint32."""
uint64 = ELEMENT_TYPES["uint64"]
"""The element type uint64."""
float32 = ELEMENT_TYPES["float32"]
"""The element type float32."""
float64 = ELEMENT_TYPES["float64"]
"""The element type float64."""
complex64 = ELEMENT_TYPES["complex64"]
"""The element type complex64."""
complex128 = ELEMENT_TYPES["complex128"]
"""The element type complex128."""
bool = ELEMENT_TYPES["bool"]
"""The element type bool."""

DEFAULTS = {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}
"""Element types of results where no dtype is given."""

KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}
"""The standard's kinds of element types, and burn's."""


@dataclass(frozen=True)
class FInfo:
    """Limits of a float type; of a complex type, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: ElementType


@dataclass(frozen=True)
class IInfo:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: ElementType


def dtype_of(value: Any) -> ElementType:
    """The element type of a tensor, or the one that is given itself."""
    return value.dtype if isinstance(value, Tensor) else ELEMENT_TYPES[element_type(value)]


def finfo(type: Any, /) -> FInfo:
    """The limits of a float or complex type, or of a tensor's. Raises TypeMismatch for others."""
    dtype = dtype_of(type)
    part = {"complex64": "float32", "complex128": "float64"}.get(dtype, str(dtype))
    if DTYPES[part].kind != "float":
        raise TypeMismatch("finfo is of floats and complex numbers", [f"not of {dtype}"])
    found: Any
    if part == "bfloat16":
        import ml_dtypes

        found = ml_dtypes.finfo(numpy_dtype(part))
    else:
        found = np.finfo(numpy_dtype(part))
    eps, most, least, normal = (float(n) for n in (found.eps, found.max, found.min, found.smallest_normal))
    return FInfo(DTYPES[part].bits, eps, most, least, normal, ELEMENT_TYPES[part])


def iinfo(type: Any, /) -> IInfo:
    """The limits of an integer type, or of a tensor's. Raises TypeMismatch for others."""
    dtype = dtype_of(type)
    own = DTYPES[dtype]
    if own.kind not in ("int", "uint"):
        raise TypeMismatch("iinfo is of integers", [f"not of {dtype}"])
    least = -(1 << (own.bits - 1)) if own.kind == "int" else 0
    return IInfo(own.bits, least + (1 << own.bits) - 1, least, dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """True if an element type is of a kind. kind: an element type, the name of a kind (the keys of KINDS), or a tuple of these.
    Raises TypeMismatch for an unknown name."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    own = dtype_of(dtype)
    if isinstance(kind, str) and str(kind) in KINDS:
        return DTYPES[own].kind in KINDS[str(kind)]
    return own == dtype_of(kind)


def can_cast(from_: Any, to: Any, /) -> Any:
    """True if promotion of the first element type (or a tensor's) with the second one gives the second one."""
    source, target = dtype_of(from_), dtype_of(to)
    try:
        return promoted(source, target) == target
    except TypeMismatch:  # nothing holds both
        return False


def result_type(*arrays_and_dtypes: Any) -> ElementType:
    """The promoted element type of tensors, element types and Python numbers. Raises TypeMismatch if all are numbers."""
    numbers = [a for a in arrays_and_dtypes if isinstance(a, (builtins.bool, int, float, complex))]
    dtypes = [dtype_of(a) for a in arrays_and_dtypes if not isinstance(a, (builtins.bool, int, float, complex))]
    if not dtypes:
        raise TypeMismatch("result_type is of at least one tensor or element type", [f"not of {arrays_and_dtypes}"])
    return ELEMENT_TYPES[common(dtypes, numbers)]


def astype(x: Tensor, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Tensor:
    """A tensor with its elements converted, and on another device if one is given. Without `copy`, a tensor of that type is
    returned itself."""
    given = constant(x)
    result = given if not copy and given.dtype == dtype else given.astype(dtype)
    return result if device is None else result.to_device(device)
