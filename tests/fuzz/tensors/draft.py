"""A program while it is made: its values by numpy, and random choices among them. `drafted` makes one from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.tensors.numpy_side import Numpy, is_finite, is_float
from tests.fuzz.tensors.program import Line, Program

SIZES = (2, 3, 4, 5, 6, 7, 8, 11, 13, 17)
DTYPES = {
    "float32": 12, "float64": 3, "float16": 2, "bfloat16": 1, "int64": 4, "int32": 3, "int8": 1, "int16": 1, "uint8": 2,
    "uint32": 1, "uint64": 1, "bool": 2,
}  # fmt: skip
MOSTLY = os.environ.get("BURN_FUZZ_DTYPE", "")
"""An element type that most inputs have, such as bfloat16."""
TWINS = 2
LARGEST = 4000  # elements
LIMIT = {"float16": 1e3, "bfloat16": 1e8, "float32": 1e8, "float64": 1e12}
"""Magnitudes beyond which a step is dropped: what follows would be infinities."""


class Unfit(Exception):
    """A step that cannot be made here; another is tried."""


@dataclass(frozen=True)
class Value:
    """A value of the program: what numpy computes, and what it computes with noise."""

    name: str
    array: np.ndarray
    twins: tuple[np.ndarray, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> str:
        return self.array.dtype.name

    @property
    def is_float(self) -> bool:
        return is_float(self.array.dtype)

    @property
    def is_int(self) -> bool:
        return self.array.dtype.kind in "iu"

    @property
    def is_finite(self) -> bool:
        return is_finite(self.array)


class Draft:
    """named: the sizes of inputs will have names, so that steps must be valid for other sizes."""

    def __init__(self, seed: int, named: bool = False) -> None:
        self.random = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.named = named
        self.program = Program()
        self.values: list[Value] = []
        self.libraries = [Numpy(), *(Numpy(np.random.default_rng([seed, i])) for i in range(TWINS))]
        self.extents = [*self.random.sample(SIZES, 3), 1]
        if self.random.random() < 0.12:
            self.extents.append(0)

    # ---- inputs ------------------------------------------------------------------------------------------------------
    def shape(self, least: int = 0) -> tuple[int, ...]:
        rank = self.random.choice([1, 2, 2, 2, 3, 3, 4, 0])
        shape = tuple(self.random.choice(self.extents) for _ in range(max(rank, least)))
        return shape if np.prod(shape) <= LARGEST // 4 else shape[-2:]

    def dtype(self) -> str:
        weights = {**DTYPES, MOSTLY: sum(DTYPES.values())} if MOSTLY else DTYPES
        return self.random.choices(list(weights), list(weights.values()))[0]

    def input(self, shape: tuple[int, ...], dtype: str) -> Value:
        array = drawn(self.data, shape, dtype, special=self.random.random() < 0.08)
        value = Value(f"x{len(self.program.inputs)}", array, (array,) * TWINS)
        self.program.inputs.append(array)
        self.values.append(value)
        return value

    # ---- steps -------------------------------------------------------------------------------------------------------
    def pick(self, fits: Callable[[Value], bool] = lambda value: True) -> Value:
        """A value that fits, rather a late one."""
        found = [v for v in self.values if fits(v)]
        if not found:
            raise Unfit
        return self.random.choice(found[-5:] if self.random.random() < 0.6 else found)

    def floats(self, least: int = 0) -> Value:
        return self.pick(lambda v: v.is_float and v.ndim >= least)

    def numbers(self, least: int = 0) -> Value:
        return self.pick(lambda v: v.dtype != "bool" and v.ndim >= least)

    def any(self, least: int = 0) -> Value:
        return self.pick(lambda v: v.ndim >= least)

    def like(self, value: Value, least: int = 0) -> Value:
        """One of the same element type."""
        return self.pick(lambda v: v.dtype == value.dtype and v.ndim >= least)

    def axis(self, value: Value) -> int:
        if not value.ndim:
            raise Unfit
        return self.random.randrange(-value.ndim, value.ndim)

    def axes(self, value: Value) -> Any:
        """One axis, several, or all (None)."""
        rank = value.ndim
        several = [tuple(self.random.sample(range(rank), self.random.randint(2, rank)))] if rank > 1 else []
        return self.random.choice([None, *range(-rank, rank), *several])

    def add(self, expression: str) -> list[Value]:
        """A line that computes an expression. Raises Unfit where its values would tell nothing."""
        scopes = [{v.name: v.array for v in self.values}]
        scopes += [{v.name: v.twins[i] for v in self.values} for i in range(TWINS)]
        try:
            results = [eval(expression, {"m": s}, scope) for s, scope in zip(self.libraries, scopes, strict=True)]
        except (ValueError, IndexError, TypeError, ZeroDivisionError, np.linalg.LinAlgError, OverflowError) as error:
            raise Unfit from error
        many = isinstance(results[0], (list, tuple))
        columns = list(zip(*results, strict=True)) if many else [tuple(results)]
        taken = sum(len(line.names) for line in self.program.lines)
        values = [Value(f"v{taken + i}", a, tuple(twins)) for i, (a, *twins) in enumerate(columns)]
        for value in values:
            self._must_tell(value)
        self.program.lines.append(Line(tuple(v.name for v in values), expression, many))
        self.values += values
        return values

    def _must_tell(self, value: Value) -> None:
        array = value.array
        if not isinstance(array, np.ndarray) or any(t.shape != array.shape for t in value.twins):
            raise Unfit
        if array.size > LARGEST or array.ndim > 6 or not (is_float(array.dtype) or array.dtype.kind in "iub"):
            raise Unfit
        if is_float(array.dtype) and array.size:
            wide = array.astype(np.float64)
            finite = wide[np.isfinite(wide)]
            if np.isnan(wide).mean() > 0.6 or np.abs(finite).max(initial=0) > LIMIT[array.dtype.name]:
                raise Unfit


def drawn(data: np.random.Generator, shape: tuple[int, ...], dtype: str, special: bool = False) -> np.ndarray:
    """Elements of an input: small whole numbers, or floats around 0 (half the time multiples of a half)."""
    if dtype == "bool":
        return np.asarray(data.random(shape) < 0.5)
    if not dtype.startswith(("float", "bfloat")):
        return np.asarray(data.integers(0 if dtype.startswith("u") else -9, 10, shape)).astype(dtype)
    array = data.standard_normal(shape) if data.random() < 0.6 else data.integers(-4, 5, shape) / 2
    if special:
        array = np.where(data.random(shape) < 0.1, data.choice([np.nan, np.inf, -np.inf, -0.0], shape), array)
    return Numpy().astype(np.asarray(array), dtype)
