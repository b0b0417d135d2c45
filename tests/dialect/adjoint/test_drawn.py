"""Derivatives of functions of random shapes against differences, recorded and compiled, in float64."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import burn
from burn.tensors import Tensor
from tests.dialect.adjoint.drawn import FAMILIES

STEP = 1e-5
QUICK, MANY = 1, 25
"""Functions drawn from each family."""


def check(family: str, seed: int, compiled: bool) -> None:
    rng = np.random.default_rng((zlib.crc32(family.encode()), seed))
    function, arrays = FAMILIES[family](rng)

    def scalar(*xs: Tensor) -> Tensor:
        y = function(*xs)
        return (y * (burn.arange(y.size, dtype="float64").reshape(y.shape) * 0.7 + 1.0).sin()).sum()

    def all_of(*xs: Any) -> Any:
        return burn.value_and_grad(scalar, tuple(range(len(arrays))))(*xs)

    run = burn.jit(all_of) if compiled else lambda *xs: all_of(*map(burn.constant, xs))
    direction = [rng.standard_normal(a.shape) for a in arrays]
    _, grads = run(*arrays)
    found = sum(float((np.asarray(g) * d).sum()) for g, d in zip(grads, direction, strict=True))
    ahead, back = (float(run(*(a + s * d for a, d in zip(arrays, direction, strict=True)))[0]) for s in (STEP, -STEP))
    assert [tuple(g.shape) for g in grads] == [a.shape for a in arrays]
    assert found == pytest.approx((ahead - back) / (2 * STEP), rel=3e-5, abs=3e-6), f"{family}, seed {seed}"


@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives(family: str) -> None:
    for seed in range(QUICK):
        check(family, seed, compiled=bool(seed % 2))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_many_derivatives(family: str) -> None:
    for seed in range(QUICK, MANY):
        check(family, seed, compiled=bool(seed % 2))
