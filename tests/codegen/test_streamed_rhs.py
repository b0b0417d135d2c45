"""Matmuls of few rows with a large rhs that is an input: parts of its rows are read one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import burn


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 1031, 997), (3, 333, 3001), (8, 1000, 640), (2, 17, 70_001), (13, 700, 333), (33, 500, 515)],
)
def test_few_rows(rows: int, depth: int, columns: int, dtype: str) -> None:
    """Depths and columns that fill no whole part and no whole panel."""
    draws = np.random.default_rng(depth)
    a, b = (draws.standard_normal(shape).astype(dtype) for shape in ((rows, depth), (depth, columns)))
    got = burn.jit(lambda a, b: a @ b)(burn.tensor(a), burn.tensor(b)).numpy()
    tolerance = 1e-12 if dtype == "float64" else 2e-4
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=tolerance, atol=tolerance * 10)


def test_a_vector() -> None:
    draws = np.random.default_rng(0)
    a, b = draws.standard_normal(1500), draws.standard_normal((1500, 701))
    got = burn.jit(lambda a, b: a @ b)(burn.tensor(a), burn.tensor(b)).numpy()
    np.testing.assert_allclose(got, a @ b, rtol=1e-11, atol=1e-11)
