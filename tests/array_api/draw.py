"""Random arguments of the array API standard's functions. Enter at `Draw`; `rows.py` has a rule for each function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = (*SIGNED, *UNSIGNED)
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REALS = (*INTS, *FLOATS)
ALL = ("bool", *REALS)
ANY = (*ALL, *COMPLEX)
SIZES = (0, 1, 1, 2, 3, 5, 7, 13)
SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-30, -3e5)


@dataclass(frozen=True)
class Dtype:
    """An element type among the arguments: each namespace has an object of its own for it."""

    name: str


class Draw:
    """Draws shapes, arrays and axes."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def shape(self, least: int = 0, most: int = 3, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        return tuple(self.one(sizes) for _ in range(int(self.rng.integers(least, most + 1))))

    def array(self, shape: tuple[int, ...], dtype: str, special: bool = False, low: float = -4, high: float = 4) -> Any:
        """Elements between low and high. special: infinities, NaN, zeros of both signs and large magnitudes; the least and the
        largest integers."""
        rng = self.rng
        if dtype == "bool":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype in COMPLEX:
            part = "float32" if dtype == "complex64" else "float64"
            real, imag = (self.array(shape, part, special, low, high) for _ in range(2))
            x = np.empty(shape, dtype)
            x.real, x.imag = real, imag
            return x
        if dtype in FLOATS:
            x = np.asarray(rng.uniform(low, high, shape))
            whole = rng.random(shape) < 0.2
            x = np.where(whole, np.round(x), x)
            if special:
                x = np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), x)
            return np.asarray(x, dtype)
        info = np.iinfo(dtype)
        x = rng.integers(max(info.min, int(low) * 3), min(info.max, int(high) * 3) + 1, shape)
        if special:
            ends = np.array([info.min, info.max, 0, 1], dtype)
            x = np.where(rng.random(shape) < 0.3, rng.choice(ends, shape), np.asarray(x).astype(dtype))
        return np.asarray(x, dtype)

    def broadcasting(self, count: int = 2) -> list[tuple[int, ...]]:
        """Shapes that broadcast together."""
        whole = self.shape()
        found = []
        for _ in range(count):
            kept = whole[int(self.rng.integers(len(whole) + 1)) :] if self.chance(0.4) else whole
            found.append(tuple(1 if self.chance(0.2) else d for d in kept))
        return found

    def axis(self, rank: int) -> int:
        return int(self.rng.integers(-rank, rank))

    def axes(self, rank: int) -> int | tuple[int, ...] | None:
        """One axis, several or all."""
        kind = self.one(("none", "one", "several"))
        if kind == "none" or not rank:
            return None if kind != "several" else ()
        if kind == "one":
            return self.axis(rank)
        chosen = self.rng.permutation(rank)[: int(self.rng.integers(rank + 1))]
        return tuple(int(a) - (rank if self.chance(0.3) else 0) for a in chosen)

    def pair(self, dtypes: Sequence[str], special: bool = True, **bounds: float) -> list[Any]:
        """Two operands of one kind that broadcast, or one and a Python number."""
        a = self.one(dtypes)
        kinds = [g for g in (SIGNED, UNSIGNED, INTS, FLOATS, COMPLEX, ("bool",)) if a in g and set(g) <= set(dtypes)]
        group = [
            b for b in self.one(kinds) if {a, b} & {"uint64"} == set() or not {a, b} & set(SIGNED)
        ]  # nothing holds uint64 and signed integers
        b = self.one(group)
        first, second = self.broadcasting()
        x = self.array(first, a, special, **bounds)
        if self.chance(0.15):
            y = self.array((), a, False, **bounds).item()
            return [x, y] if self.chance() else [y, x]
        return [x, self.array(second, b, special, **bounds)]
