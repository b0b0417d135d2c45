"""The gradient of a batch norm in the backward pass of a program, against float64, for means that are large or small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops


def normalised(x: Any, weight: Any, bias: Any) -> Any:
    mean = x.mean((0, 1), keepdims=True)
    variance = ((x - mean) ** 2).mean((0, 1), keepdims=True)
    return (x - mean) * ops.rsqrt(variance + 1e-5) * weight + bias


def expected(x: np.ndarray, w: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
    x, w, g = (a.astype(np.float64) for a in (x, w, g))
    n = x.shape[0] * x.shape[1]
    scale = 1 / np.sqrt(x.var((0, 1), keepdims=True) + 1e-5)
    y = (x - x.mean((0, 1), keepdims=True)) * scale
    db, dw = g.sum((0, 1)), (g * y).sum((0, 1))
    return scale * w * (g - db / n - y * dw / n), dw, db


@pytest.mark.parametrize("offset", [0.0, 30.0, -1000.0])
@pytest.mark.parametrize("shape", [(4, 3, 3), (5, 7, 3), (31, 64, 13)])
def test_gradient(shape: tuple[int, int, int], offset: float) -> None:
    drawn = np.random.default_rng(0)
    x = (drawn.standard_normal(shape) + offset).astype(np.float32)
    w, b = (drawn.standard_normal(shape[2]).astype(np.float32) for _ in range(2))
    g = drawn.standard_normal(shape).astype(np.float32)

    def gradient(x: Any, w: Any, b: Any, g: Any) -> Any:
        y, pull = burn.vjp(normalised, x, w, b)
        return y, pull(g)

    found = burn.jit(gradient, dynamic={name: {0: "n"} for name in ("x", "g")})(x, w, b, g)[1]
    for got, want in zip(found, expected(x, w, g), strict=True):
        bound = (1e-5 + 1e-6 * abs(offset)) * np.abs(want).max()  # the elements' own rounding is that large
        assert np.abs(np.asarray(got) - want).max() <= 3 * bound


@pytest.mark.parametrize(
    "term", [lambda x: x - 1e4, lambda x: x + -1e4, lambda x: -(1e4 - x)], ids=["minus", "plus", "from a number"]
)
def test_sums_of_deviations_from_other_numbers_do_not_cancel(term: Any) -> None:
    x = (np.random.default_rng(0).standard_normal((5000, 3)) + 1e4).astype(np.float32)
    y = np.random.default_rng(1).standard_normal((5000, 3)).astype(np.float32)

    def sums(x: Any, y: Any) -> Any:
        return x.sum(0), (y - y.mean(0) + term(x)).sum(0)

    got = np.asarray(burn.jit(sums)(x, y)[1])
    np.testing.assert_allclose(got, (x.astype(np.float64) - 1e4).sum(0), atol=1e-3 * np.sqrt(5000))


@pytest.mark.parametrize("dynamic", [None, {"y": {0: "n"}}])
def test_the_sum_of_no_deviations_is_zero(dynamic: Any) -> None:
    deviations = burn.jit(lambda y: (y.sum(0), (y - y.mean(0)).sum(0)), dynamic=dynamic)
    np.testing.assert_array_equal(np.asarray(deviations(np.zeros((0, 4), np.float32))[1]), np.zeros(4))
