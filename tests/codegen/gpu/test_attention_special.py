"""Attention on GPUs with NaN and infinities, by its definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from tests.codegen.gpu.simulated_gpu import SimulatedGPU

pytest.importorskip("triton")


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    with np.errstate(invalid="ignore"):
        score = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        p = np.exp(score - score.max(-1, keepdims=True))
        return (p / p.sum(-1, keepdims=True)) @ v


def operands(queries: int, keys: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, 2, rows, 16)).astype(dtype) for rows in (queries, keys, keys)]


def attended(arrays: list[np.ndarray]) -> Any:
    types = [f"{x.dtype}[{', '.join(map(str, x.shape))}]" for x in arrays]
    return burn.compile(burn.scaled_dot_product_attention, types, device="cuda", cache=False)(*arrays)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 6), (5, 64), (5, 65), (1, 700)])
def test_nan_and_infinity_reach_the_rows_that_they_concern(
    gpu: SimulatedGPU, queries: int, keys: int, dtype: str
) -> None:
    q, k, v = operands(queries, keys, dtype)
    if queries > 1:
        q[0, 0, 1, 0] = np.nan
    k[0, 1, 2, 0] = np.inf  # scores of both signs: NaN where it is the largest, else a probability of 0
    v[0, 0, 3, 1] = np.nan
    got, want = np.asarray(attended([q, k, v])), expected(q, k, v)
    assert np.isnan(want).any() and not np.isnan(want).all()
    bound = 1e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound)
