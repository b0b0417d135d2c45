"""A program while it is drawn: its values by torch in float64, and random choices among them. `steps` has what it may draw."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

from tests.fuzz.gradients.program import Line, Program
from tests.fuzz.gradients.sides import scope

SIZES = (1, 2, 3, 3, 4, 5, 7)
DTYPES = {"float64": 9, "float32": 6, "float16": 2, "bfloat16": 2}
LARGEST = 600
"""Elements of a value."""
LIMIT = {"float64": 1e3, "float32": 1e3, "float16": 30.0, "bfloat16": 1e2}
"""Magnitudes beyond which a line is dropped: derivatives are larger still, and float16 overflows."""

Texts = tuple[str, str | None]
"""A line's expression in burn and in torch; None: torch has no twin."""


class Unfit(Exception):
    """A step that cannot be made here; another is drawn."""


@dataclass(frozen=True)
class Value:
    """An input or a computed value. Prints as its name."""

    name: str
    tensor: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def rank(self) -> int:
        return self.tensor.ndim

    @property
    def size(self) -> int:
        return self.tensor.numel()

    def __str__(self) -> str:
        return self.name


class Draft:
    """The program of a seed, while lines are added."""

    def __init__(self, seed: int, dtype: str | None = None) -> None:
        self.chance = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.program = Program(dtype or self.chance.choices(list(DTYPES), list(DTYPES.values()))[0])
        self.values: dict[str, Value] = {}
        self._count = 0
        self.extents = [*self.chance.sample((2, 3, 4, 5, 7), 3), 1]
        if self.chance.random() < 0.06:
            self.extents.append(0)
        self.exact = self.chance.random() < 0.3
        """True if inputs are multiples of 0.5, so that there are ties and zeros."""
        for _ in range(self.chance.randint(1, 3)):
            self.new(tuple(self.chance.choice(self.extents) for _ in range(self.chance.choice((0, 1, 2, 2, 3, 3, 4)))))

    # ---- inputs ------------------------------------------------------------------------------------------------------------
    def new(self, shape: Sequence[int], scale: float = 1.0) -> Value:
        """A further input of floats."""
        return self._enter(drawn(self.data, tuple(shape), self.program.dtype, self.exact, scale))

    def positive(self, shape: Sequence[int]) -> Value:
        array = self.data.uniform(0.3, 2.0, tuple(shape))
        return self._enter(rounded(array, self.program.dtype))

    def whole(self, below: int, shape: Sequence[int], low: int = 0) -> Value:
        """A further input of int64s from low to below - 1. Raises Unfit where there are none."""
        if below <= low:
            raise Unfit
        return self._enter(self.data.integers(low, below, tuple(shape)))

    def _enter(self, array: np.ndarray) -> Value:
        value = Value(f"x{self._count}", wide(array))
        self._count += 1
        self.program.inputs[value.name] = array
        if value.tensor.is_floating_point():
            self.values[value.name] = value
        return value

    def constant(self, values: Any) -> str:
        """Integers or floats as a constant of the program."""
        return f"m.const({np.asarray(values).tolist()})"

    # ---- choices -----------------------------------------------------------------------------------------------------------
    def value(self, fits: Callable[[Value], bool] = lambda v: True, empty: bool = True) -> Value:
        """An earlier value, mostly a late one. Raises Unfit where none fits."""
        found = [v for v in self.values.values() if fits(v) and (empty or v.size)]
        if not found:
            raise Unfit
        return found[-1] if self.flag(0.6) else self.chance.choice(found)

    def ranked(self, *ranks: int, empty: bool = True) -> Value:
        return self.value(lambda v: v.rank in ranks, empty)

    def image(self, axes: int) -> tuple[str, tuple[int, ...]]:
        """A value as [batch, channels, d..] and that shape."""
        x = self.ranked(*range(1, axes + 3), empty=False)
        lead = axes + 2 - x.rank
        return f"{x}[{'None, ' * lead}...]" if lead else str(x), (1,) * lead + x.shape

    def fitting(self, shape: Sequence[int]) -> Value:
        """A value that broadcasts to a shape, or a new input that does."""
        whole = tuple(shape)
        if self.flag(0.5):
            fits = [v for v in self.values.values() if broadcasts(v.shape, whole)]
            if fits:
                return self.chance.choice(fits)
        part = whole[self.chance.randint(0, len(whole)) :] if self.flag(0.4) else whole
        return self.new(tuple(n if self.flag(0.7) else 1 for n in part))

    def axis(self, x: Value) -> int:
        if not x.rank:
            raise Unfit
        return self.chance.randrange(-x.rank, x.rank)

    def axes(self, x: Value, count: int | None = None) -> tuple[int, ...]:
        if not x.rank:
            raise Unfit
        return tuple(self.chance.sample(range(x.rank), count or self.chance.randint(1, x.rank)))

    def flag(self, share: float = 0.5) -> bool:
        return self.chance.random() < share

    def among(self, *options: Any) -> Any:
        return self.chance.choice(options)

    def number(self) -> float:
        return self.chance.choice((-1.5, -1.0, -0.5, 0.25, 0.5, 1.0, 2.0, 0.3, 1.7))

    # ---- lines -------------------------------------------------------------------------------------------------------------
    def add(self, texts: Texts, names: int = 1) -> bool:
        """A line, unless torch refuses it or its values are of no use; then False."""
        count = sum(len(line.names) for line in self.program.lines)
        line = Line(tuple(f"v{count + i}" for i in range(names)), *texts)
        try:
            found = self._computed(line)
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AssertionError):
            return False
        if len(found) != names or not all(self._fit(t) for t in found):
            return False
        self.program.lines.append(line)
        self.values |= {n: Value(n, t) for n, t in zip(line.names, found, strict=True)}
        return True

    def _computed(self, line: Line) -> list[Any]:
        side, text = ("burn", line.burn) if line.torch is None else ("torch", line.torch)
        own = scope(side)
        for name in line.uses:
            value = self.values[name].tensor if name in self.values else wide(self.program.inputs[name])
            own[name] = value if side == "torch" else own["burn"].constant(value.numpy())
        result = eval(text, own)
        found = list(result) if len(line.names) > 1 else [result]
        return found if side == "torch" else [torch.tensor(t.numpy()) for t in found]

    def _fit(self, tensor: Any) -> bool:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float64 or tensor.numel() > LARGEST:
            return False
        if not tensor.numel():
            return True
        return bool(tensor.isfinite().all()) and tensor.abs().max().item() <= LIMIT[self.program.dtype]


def broadcasts(shape: Sequence[int], whole: Sequence[int]) -> bool:
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(shape[::-1], whole[::-1], strict=False))


def drawn(data: np.random.Generator, shape: tuple[int, ...], dtype: str, exact: bool, scale: float = 1.0) -> np.ndarray:
    """Floats around 0, or small multiples of a half."""
    array = data.integers(-4, 5, shape) / 2 if exact else data.standard_normal(shape)
    return rounded(np.asarray(array * scale), dtype)


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(array).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def wide(array: np.ndarray) -> torch.Tensor:
    """An array in torch, floats in float64."""
    floats = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    return torch.tensor(array.astype(np.float64) if floats else array)
