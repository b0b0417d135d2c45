"""The meaning of `m` in a loop's text: numpy with Python's loops, and burn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import burn


class Numpy:
    """Loops of Python over arrays."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def astype(self, x: Any, dtype: str) -> np.ndarray:
        return np.asarray(x).astype(getattr(ml_dtypes, dtype, dtype))

    def fori(self, start: Any, stop: Any, body: Callable[..., Any], c: Any) -> Any:
        for i in range(int(start), int(stop)):
            c = body(np.int64(i), c)
        return c

    def repeat(self, n: Any, body: Callable[..., Any], c: Any) -> Any:
        return self.fori(0, n, body, c)

    def scan(self, body: Callable[..., Any], c: Any, xs: Any, n: Any) -> Any:
        """The carried tensors and the stacked results; without iterations, the latter are empty."""
        rows: list[Any] = []
        count = int(n) if xs is None else len(xs)
        for i in range(count):
            c, row = body(c, None if xs is None else xs[i], np.int64(i))
            rows.append([np.asarray(each) for each in row])
        if not rows:
            like = body(c, None if xs is None else np.zeros(xs.shape[1:], xs.dtype), np.int64(0))[1]
            return (*c, *(np.zeros((0, *np.shape(each)), np.asarray(each).dtype) for each in like))
        return (*c, *(np.stack(column) for column in zip(*rows, strict=True)))


class Burn:
    """Loops of burn. repeat: by a condition on a carried number."""

    def __getattr__(self, name: str) -> Any:
        return getattr(burn, name)

    def fori(self, start: Any, stop: Any, body: Callable[..., Any], c: Any) -> Any:
        return burn.fori_loop(start, stop, body, tuple(c))

    def repeat(self, n: Any, body: Callable[..., Any], c: Any) -> Any:
        def step(state: Any) -> Any:
            i, c = state
            return i + 1, body(i, c)

        return burn.while_loop(lambda state: state[0] < n, step, (burn.constant(0), tuple(c)))[1]

    def scan(self, body: Callable[..., Any], c: Any, xs: Any, n: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            i, c = state
            new, row = body(c, x, i)
            return (i + 1, new), row

        (_, last), rows = burn.scan(step, (burn.constant(0), tuple(c)), xs, n)
        return (*last, *rows)
