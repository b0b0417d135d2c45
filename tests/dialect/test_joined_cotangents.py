"""Cotangents of slices: concats where slices tile an axis, in linear time, against numpy."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import burn
from burn.compiler import executable
from burn.dialect.adjoint import joined
from burn.tracing.trace import trace

Window = tuple[int, int, int, int]


def gradient(windows: list[Window], shape: tuple[int, int]) -> np.ndarray:
    """Of the sum of sin(3 x) over windows (rows from, to, columns from, to) of x = 0, each times its number."""

    def total(x: Any) -> Any:
        y: Any = 0.0
        for number, (top, bottom, left, right) in enumerate(windows):
            y = y + burn.ops.sin(x[top:bottom, left:right] * 3.0).sum() * float(number + 1)
        return y

    program = trace(burn.grad(total), {"x": f"float32[{shape[0]}, {shape[1]}]"})
    return np.asarray(executable(program)(np.zeros(shape, "float32")))


@pytest.mark.parametrize("seed", range(6))
def test_windows(seed: int) -> None:
    """Tilings of both axes, some twice, and windows that overlap them."""
    rng = random.Random(seed)
    rows, columns = rng.choice([2, 3, 7]), rng.choice([1, 5, 8])
    windows: list[Window] = []
    for _ in range(2):
        tops = sorted({0, rows, *(rng.randrange(rows) for _ in range(2))})
        for top, bottom in pairwise(tops):
            lefts = sorted({0, columns, *(rng.randrange(columns) for _ in range(2))})
            windows += [(top, bottom, left, right) for left, right in pairwise(lefts)]
    windows += rng.sample(windows, 2) if len(windows) > 2 else []
    windows += [(0, rows - 1, 0, columns), (1, rows, columns // 2, columns)]
    rng.shuffle(windows)
    want = np.zeros((rows, columns))
    for number, (top, bottom, left, right) in enumerate(windows):
        want[top:bottom, left:right] += 3.0 * (number + 1)
    np.testing.assert_allclose(gradient(windows, (rows, columns)), want, rtol=1e-6)


def test_the_time_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrolled loops have thousands of slices."""
    calls, across = [0], joined._Padded.across

    def counted(self: Any, axis: int) -> Any:
        calls[0] += 1
        return across(self, axis)

    monkeypatch.setattr(joined._Padded, "across", counted)
    windows = [(row, row + 1, column, column + 1) for row in range(2) for column in range(40)]
    want = 3.0 * np.arange(1, 81).reshape(2, 40)
    np.testing.assert_allclose(gradient(windows, (2, 40)), want, rtol=1e-6)
    assert 0 < calls[0] <= 6 * len(windows)
