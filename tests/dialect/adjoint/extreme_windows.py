"""Maxima and minima over windows: paddings, images with many equal elements, and the derivative window by window."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import burn
from burn import ops

OPTIONS: list[dict[str, Any]] = [
    {"window": (1, 3, 3, 1), "strides": (1, 2, 2, 1), "low": (0, 0, 0, 0), "high": (0, 1, 1, 0)},
    {"window": (1, 3, 3, 1), "strides": (1, 1, 1, 1), "low": (0, 1, 1, 0), "high": (0, 1, 1, 0)},
    {"window": (1, 2, 3, 1), "strides": (1, 3, 1, 1), "low": (0, 0, 2, 0), "high": (0, 1, 0, 0)},
    {"window": (1, 5, 1, 1), "strides": (1, 2, 2, 1), "low": (0, 4, 0, 0), "high": (0, 4, 0, 0)},
    {"window": (1, 2, 2, 1), "strides": (1, 1, 1, 1), "low": (0, 1, 0, 0), "high": (0, 0, 1, 0), "dilations": (1, 2, 3, 1)},
]  # fmt: skip


def expected(x: np.ndarray, g: np.ndarray, kind: str, o: dict[str, Any]) -> np.ndarray:
    """Window by window."""
    dx, dilations = np.zeros_like(x), o.get("dilations", (1, 1, 1, 1))
    for index in np.ndindex(g.shape):
        cells = []
        for offset in itertools.product(*map(range, o["window"])):
            at = tuple(
                i * s + k * d - a
                for i, s, k, d, a in zip(index, o["strides"], offset, dilations, o["low"], strict=True)
            )
            if all(0 <= p < size for p, size in zip(at, x.shape, strict=True)):
                cells.append(at)
        values = [x[at] for at in cells]
        best = np.max(values) if kind == "max" else np.min(values)  # NaN if there is one
        first = next(at for at, v in zip(cells, values, strict=True) if v == best or np.isnan(v))
        dx[first] += g[index]
    return dx


def infinite(kind: str, drawn: np.random.Generator) -> np.ndarray:
    """An image with windows of the infinity that padding has, and one of nothing else."""
    x = drawn.standard_normal((2, 6, 7, 3)).astype(np.float32)
    padding = np.float32(-np.inf if kind == "max" else np.inf)
    x[drawn.random(x.shape) < 0.7] = padding
    x[1] = padding
    return x


def pulled_back(
    x: np.ndarray,
    options: dict[str, Any],
    kind: str,
    drawn: np.random.Generator,
    dynamic: bool = False,
    device: str = "cpu",
) -> tuple[np.ndarray, np.ndarray]:
    """The cotangent of x, and that of the result: drawn integers, or 2 everywhere if sizes have names."""
    o: dict[str, Any] = {"dilations": (1, 1, 1, 1), **options}

    def pool(x: Any) -> Any:
        return ops.window_reduce(x, kind=kind, **o)

    y = pool(burn.tensor(x))
    g = np.full(y.shape, 2.0, np.float32) if dynamic else drawn.integers(1, 9, y.shape).astype(np.float32)

    def gradient(x: Any) -> Any:
        return burn.vjp(pool, x)[1](ops.full(shape=pool(x).shape, dtype="float32", value=2.0) if dynamic else g)[0]

    named = {"x": {1: "h", 2: "w"}} if dynamic else None
    made = burn.compile(gradient, [x], named, cache=False, device=device)
    return np.asarray(made(x)), g
