"""Random operands of a case: shapes with odd sizes, 0 and 1 among them, and special values. Enter at `Draw`."""

from __future__ import annotations

import random
from typing import Any

import jax.numpy as jnp
import numpy as np

FLOATS = ("float32", "float32", "float16", "bfloat16")
WIDE = ("float32",)
INTS = ("int32", "int8", "int16", "uint8", "uint16", "uint32")
SHAPES = ((), (1,), (7,), (3, 5), (2, 3, 4), (1, 6), (0, 3), (4, 1, 3), (13,), (2, 17))


class Draw:
    """Draws that a seed decides. dtypes: the catalogue's element types, all by default; tame: finite operands, with points where
    derivatives have edges."""

    def __init__(self, seed: int, dtypes: tuple[str, ...] = (), tame: bool = False) -> None:
        self.dtypes, self.tame = dtypes, tame
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def pick(self, *values: Any) -> Any:
        return self.random.choice(values)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def shape(self, least: int = 0, most: int = 3, empty: bool = True) -> tuple[int, ...]:
        fitting = [s for s in SHAPES if least <= len(s) <= most and (empty or 0 not in s)]
        return self.random.choice(fitting)

    def axis(self, shape: tuple[int, ...]) -> int:
        return self.random.randrange(len(shape))

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def floats(
        self,
        shape: tuple[int, ...],
        dtype: str = "float32",
        low: float = -3.0,
        high: float = 3.0,
        special: bool = False,
    ) -> Any:
        x = self.numpy.uniform(low, high, shape)
        if special and x.size:
            flat = x.reshape(-1)
            values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1e-30, 1e30, 2.5]
            for value in values:
                if self.random.random() < 0.4:
                    flat[self.random.randrange(flat.size)] = value
        return jnp.asarray(x, dtype)

    def ints(
        self, shape: tuple[int, ...], dtype: str = "int32", low: int | None = None, high: int | None = None
    ) -> Any:
        info = jnp.iinfo(dtype)
        if low is None or high is None:
            wide = self.random.random() < 0.5
            low = int(info.min) if wide else max(int(info.min), -5)
            high = int(info.max) if wide else 6
        x = self.numpy.integers(low, high, shape, dtype=np.int64, endpoint=True)
        if x.size and low < 0 <= high:
            x.reshape(-1)[self.random.randrange(x.size)] = self.pick(0, -1, low, high)
        return jnp.asarray(x.astype(dtype))

    def bools(self, shape: tuple[int, ...]) -> Any:
        return jnp.asarray(self.numpy.integers(0, 2, shape).astype(bool))

    def any(self, shape: tuple[int, ...], dtype: str, special: bool = False) -> Any:
        if dtype == "bool":
            return self.bools(shape)
        return (
            self.floats(shape, dtype, special=special)
            if jnp.issubdtype(dtype, jnp.floating)
            else self.ints(shape, dtype)
        )

    def distinct(self, shape: tuple[int, ...], dtype: str = "float32") -> Any:
        """Numbers without ties, for orders."""
        count = int(np.prod(shape))
        return jnp.asarray((self.numpy.permutation(count) - count / 2.0).reshape(shape) * 0.25, dtype)
