"""The element type, the shape and the operands of one case of the catalogue. Enter at `Sample`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.jax.draw import Draw

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REALS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *REALS, *COMPLEX)
WIDE = ("int64", "uint64", "float64", "complex128")
"""Element types that JAX has with x64 on."""

SHAPES = (
    (), (0,), (1,), (2,), (7,), (13,), (3, 5), (0, 3), (4, 0), (1, 6), (2, 17), (5, 5), (2, 3, 4), (4, 1, 3), (3, 0, 2),
    (1, 1, 1), (2, 2, 3, 3),
)  # fmt: skip

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-30, 1e30, 3e-39)
POINTS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0)
"""Where derivatives have edges."""


def numpy_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class Sample:
    """dtype, shape: drawn; x64: if JAX computes in 64 bits. Operands are numpy's arrays."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.pick, self.integer = draw.pick, draw.integer
        self.dtype: str = draw.pick(*draw.dtypes) if draw.dtypes else draw.pick(*DTYPES)
        self.shape: tuple[int, ...] = draw.pick(*SHAPES)
        self.x64: bool = self.dtype in WIDE or draw.pick(False, False, False, True)
        self.style: str = draw.pick("tame", "tame", "wide", "special") if not draw.tame else draw.pick("tame", "points")

    # ---- shapes ------------------------------------------------------------------------------------------------------
    def ranked(self, least: int, most: int = 4, empty: bool = True) -> tuple[int, ...]:
        """The drawn shape if its rank fits, another one otherwise."""
        fits = [s for s in SHAPES if least <= len(s) <= most and (empty or 0 not in s)]
        return self.shape if self.shape in fits else self.pick(*fits)

    def square(self, batched: bool = True) -> tuple[int, ...]:
        n = self.pick(1, 2, 3, 5, 7, 3, 5, 0)
        return (*(self.pick((), (), (2,), (2, 1)) if batched else ()), n, n)

    def axis(self, shape: tuple[int, ...]) -> int:
        return self.integer(-len(shape), len(shape) - 1)

    def axes(self, shape: tuple[int, ...]) -> Any:
        """None, an axis, or several."""
        if not shape:
            return self.pick(None, ())
        several = tuple(sorted(self.draw.random.sample(range(len(shape)), self.integer(1, len(shape)))))
        return self.pick(None, self.axis(shape), several)

    def beside(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts with this one."""
        other = tuple(self.pick(d, d, 1) for d in shape)
        return other[self.pick(0, 0, self.integer(0, len(shape))) :]

    # ---- operands ----------------------------------------------------------------------------------------------------
    def a(self, shape: tuple[int, ...] | None = None, dtype: str | None = None, style: str | None = None) -> Any:
        shape, dtype = self.shape if shape is None else shape, dtype or self.dtype
        if dtype == "bool":
            return self.draw.numpy.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            return self.ints(shape, dtype)
        if dtype in COMPLEX:
            part = "float32" if dtype == "complex64" else "float64"
            return (self._reals(shape, part, style) + 1j * self._reals(shape, part, style)).astype(dtype)
        return self._reals(shape, dtype, style)

    def tame(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Any:
        """Small finite numbers: for sums of products, and matrices."""
        x = self.a(shape, dtype, "tame")
        return x if (dtype or self.dtype) not in INTEGERS else (x % 7).astype(x.dtype)

    def other(self) -> str:
        """Another operand's element type: mostly the same."""
        kinds = [t for t in DTYPES if self.x64 or t not in WIDE]
        return self.pick(self.dtype, self.dtype, self.dtype, self.pick(*kinds))

    def ints(
        self, shape: tuple[int, ...], dtype: str = "int32", low: int | None = None, high: int | None = None
    ) -> Any:
        info = np.iinfo(dtype)
        if low is None or high is None:
            whole = self.pick(True, False)
            low, high = (int(info.min), int(info.max)) if whole else (max(int(info.min), -5), 6)
        kind = np.uint64 if high > 2**63 - 1 else np.int64
        x = np.asarray(self.draw.numpy.integers(low, high, shape, dtype=kind, endpoint=True)).astype(dtype)
        flat = x.reshape(-1)
        if flat.size > 1:
            flat[self.integer(0, flat.size - 1)] = self.pick(low, high)
            flat[self.integer(0, flat.size - 1)] = min(max(0, low), high)
        return flat.reshape(shape)

    def _reals(self, shape: tuple[int, ...], dtype: str, style: str | None) -> Any:
        style = style or self.style
        x = np.asarray(self.draw.numpy.uniform(-3, 3, shape))
        if style == "wide":
            x = np.sign(x) * 10.0 ** self.draw.numpy.uniform(-6, 5, shape)
        flat = x.reshape(-1).copy()
        if style in ("special", "points") and flat.size:
            values = SPECIAL if style == "special" else POINTS
            for value in values:
                if self.draw.random.random() < 0.5:
                    flat[self.integer(0, flat.size - 1)] = value
        with np.errstate(all="ignore"):
            return flat.reshape(shape).astype(numpy_dtype(dtype))
