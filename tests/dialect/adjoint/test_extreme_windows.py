"""The derivative of maxima and minima over windows: one window's gradient goes to its first extreme, for every padding."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["sizes", "named sizes"])
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_first_extreme(options: dict[str, Any], dynamic: bool, kind: str) -> None:
    drawn = np.random.default_rng(0)
    x = drawn.integers(-3, 4, (2, 8, 7, 3)).astype(np.float32)  # ties
    x[1, 2, 3, 1] = np.nan
    o = {"dilations": (1, 1, 1, 1), **options}

    def pool(x: Any) -> Any:
        return ops.window_reduce(x, kind=kind, **o)

    y = pool(burn.tensor(x))
    g = np.full(y.shape, 2.0, np.float32) if dynamic else drawn.standard_normal(y.shape).astype(np.float32)

    def gradient(x: Any) -> Any:
        return burn.vjp(pool, x)[1](ops.full(shape=pool(x).shape, dtype="float32", value=2.0) if dynamic else g)[0]

    found = burn.jit(gradient, dynamic={"x": {1: "h", 2: "w"}} if dynamic else None)(x)
    np.testing.assert_allclose(np.asarray(found), expected(x, g, kind, options), rtol=1e-5, atol=1e-6)
