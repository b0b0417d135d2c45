"""Inspection: `__array_namespace_info__`, the devices and element types that there are."""

from __future__ import annotations

from typing import Any

from burn.array_api.dtypes import DEFAULTS, KINDS, isdtype
from burn.runtime import device
from burn.tensors.base import ELEMENT_TYPES, ElementType

DTYPES_OF_THE_STANDARD = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip


class Info:
    """Answers of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """The optional features: boolean indexing, results of data-dependent shape, and no limit on ranks."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The device of new tensors."""
        return "cpu"

    def devices(self) -> list[str]:
        """The CPU, and the GPUs of this machine."""
        return ["cpu", *(f"cuda:{index}" for index in range(device.count("cuda")))]

    def default_dtypes(self, *, device: Any = None) -> dict[str, ElementType]:
        """The element types of results where none is given, by kind."""
        return dict(DEFAULTS)

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, ElementType]:
        """The standard's element types of a kind, or of all kinds, by name. Raises ValueError for an unknown kind."""
        kinds = kind if isinstance(kind, tuple) else (kind,)
        unknown = [k for k in kinds if k is not None and k not in KINDS]
        if unknown:
            raise ValueError(f"there is no kind {unknown[0]!r} of element types; there are {', '.join(KINDS)}")
        return {n: ELEMENT_TYPES[n] for n in DTYPES_OF_THE_STANDARD if kind is None or isdtype(n, kind)}


def __array_namespace_info__() -> Info:  # the standard's name
    """Capabilities, devices and element types of this namespace."""
    return Info()
