"""A value of a random graph: what it is at every set of sizes, and what rounding noise makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FLOATS = tuple(map(np.dtype, (np.float32, np.float64, np.float16)))
SIGNED = tuple(map(np.dtype, (np.int64, np.int32, np.int8, np.int16)))
UNSIGNED = tuple(map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64)))
INTEGERS = SIGNED + UNSIGNED
BOOL = np.dtype(bool)


class Reject(Exception):
    """This piece does not fit the graph so far, or ONNX Runtime will not run it: another is tried."""


@dataclass
class Value:
    name: str
    arrays: list[Array]  # one for each set of sizes
    twins: list[Array]  # the same after a little rounding noise: how far a correct program may be off

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays[0].dtype

    @property
    def rank(self) -> int:
        return self.arrays[0].ndim

    @property
    def dims(self) -> list[int | None]:
        """The sizes, None where they depend on the set of sizes."""
        return [
            sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*(a.shape for a in self.arrays), strict=True)
        ]

    @property
    def least(self) -> list[int]:
        return [min(sizes) for sizes in zip(*(a.shape for a in self.arrays), strict=True)]

    @property
    def empty(self) -> bool:
        """At some set of sizes."""
        return any(not array.size for array in self.arrays)

    @property
    def exact(self) -> bool:
        return all(
            np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(self.arrays, self.twins, strict=True)
        )

    def like(self, other: Value) -> bool:
        """The same type and, at every set of sizes, the same shape."""
        pairs = zip(self.arrays, other.arrays, strict=True)
        return self.dtype == other.dtype and all(a.shape == b.shape for a, b in pairs)


def is_float(value: Value) -> bool:
    return value.dtype in FLOATS


def is_integer(value: Value) -> bool:
    return value.dtype in INTEGERS


def is_number(value: Value) -> bool:
    return value.dtype != BOOL


def is_bool(value: Value) -> bool:
    return value.dtype == BOOL


def known(dims: list[int | None]) -> list[int]:
    """The sizes of a shape that is the same at every set of sizes."""
    if None in dims:
        raise Reject("a size varies")
    return [dim for dim in dims if dim is not None]


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())
