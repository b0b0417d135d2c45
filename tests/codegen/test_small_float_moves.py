"""Elements of 8 bits are moved and chosen without arithmetic."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import burn
from tests.codegen.cpus import FLOAT_TARGETS

SMALL = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("dtype", SMALL)
def test_where(dtype: str, target: str) -> None:
    rng = np.random.default_rng(3)
    mask, other = rng.random((7, 19)) < 0.5, rng.random(19) < 0.5
    a, b = (np.exp2(rng.integers(-3, 3, shape)).astype(getattr(ml_dtypes, dtype)) for shape in ((7, 19), (7, 1)))

    def function(mask: Any, other: Any, a: Any, b: Any) -> Any:
        return burn.where(mask, a, b), burn.where(other, b, a).T

    got = burn.compile(function, (mask, other, a, b), target=target, cache=False)(mask, other, a, b)
    want = np.where(mask, a, b), np.where(other, b, a).T
    for ours, theirs in zip(got, want, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.view(np.uint8), np.ascontiguousarray(theirs).view(np.uint8))


@pytest.mark.parametrize("dtype", SMALL)
def test_loops_carry_them(dtype: str) -> None:
    rng = np.random.default_rng(4)
    a, b = (np.exp2(rng.integers(-3, 3, 13)).astype(getattr(ml_dtypes, dtype)) for _ in range(2))

    def function(a: Any, b: Any) -> Any:
        return burn.fori_loop(0, 3, lambda i, c: (burn.where(i % 2 == 0, c[1], c[0]), burn.roll(c[0], 1, 0)), (a, b))

    want = a, b
    for i in range(3):
        want = (want[1] if i % 2 == 0 else want[0]), np.roll(want[0], 1)
    got = burn.compile(function, (a, b), cache=False)(a, b)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8))
