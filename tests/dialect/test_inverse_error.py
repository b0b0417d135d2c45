"""The inverse error function and the normal distribution's inverse against mpmath, with bounds of their errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import burn
from burn.dialect import inverse_error, special
from burn.dialect.deferred import Value

mpmath = pytest.importorskip("mpmath")


def run(function: Callable[[Value], Value], x: np.ndarray) -> np.ndarray:
    return burn.compile(lambda x: burn.Tensor(special.rounded(function)(x.value)), {"x": f"{x.dtype}[n]"})(x)


def drawn(dtype: str, last: float) -> np.ndarray:
    """Numbers of (-1, 1): everywhere, near the ends, near 0, and where polynomials meet (w = 6.25, 16)."""
    rng = np.random.default_rng(0)
    meeting = [np.sqrt(-np.expm1(-w)) * (1 + step) for w in (6.25, 16.0) for step in (-1e-6, 0.0, 1e-6)]
    x = np.concatenate(
        [rng.uniform(-1, 1, 400), 1 - 10 ** rng.uniform(last, 0, 300), 10 ** rng.uniform(-30, 0, 100), meeting]
    )
    x = np.concatenate([x, -x]).astype(dtype)
    return x[(np.abs(x) < 1) & (x != 0)]


def exact(x: np.ndarray, normal: bool = False) -> np.ndarray:
    """By erfc in the tails, where 1 - |x| has all digits."""
    found = []
    with mpmath.workdps(40):
        for each in map(mpmath.mpf, x.astype(np.float64).tolist()):
            p = 2 * each - 1 if normal else each
            rest = 2 * min(each, 1 - each) if normal else 1 - abs(each)
            start = mpmath.sqrt(-mpmath.log(rest * (2 - rest))) * 0.9
            if rest > 0.5:
                y = mpmath.erfinv(abs(p))
            else:
                y = mpmath.findroot(lambda y, rest=rest: mpmath.log(mpmath.erfc(y)) - mpmath.log(rest), start)
            found.append(float(mpmath.sign(p) * y * (mpmath.sqrt(2) if normal else 1)))
    return np.array(found)


@pytest.mark.parametrize(
    ("dtype", "last", "bound"), [("float32", -7.3, 3.0), ("float64", -16.0, 8.0), ("float16", -3.4, 0.52)]
)
def test_error_in_ulps(dtype: str, last: float, bound: float) -> None:
    x = drawn(dtype, last)
    want = exact(x)
    found = run(inverse_error.erfinv, x)
    assert found.dtype == dtype
    error = np.abs(found.astype(np.float64) - want) / np.spacing(np.abs(want).astype(dtype)).astype(np.float64)
    assert error.max() <= bound, (error.max(), x[error.argmax()])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_ends_zeros_and_beyond(dtype: str) -> None:
    x = burn.tensor([1.0, -1.0, 0.0, -0.0, 1.5, -np.inf, np.inf, np.nan]).astype(dtype)
    found = burn.erfinv(x).astype("float32").numpy()
    np.testing.assert_array_equal(found, [np.inf, -np.inf, 0, 0, np.nan, np.nan, np.nan, np.nan])
    assert np.signbit(found[3])
    assert not np.signbit(found[2])


def test_normal_distribution() -> None:
    p = np.concatenate(
        [np.random.default_rng(0).uniform(0, 1, 100), 10.0 ** -np.arange(1, 308, 6), 1 - 10.0 ** -np.arange(1, 16)]
    )
    found = run(inverse_error.ndtri, p)
    np.testing.assert_allclose(found, exact(p, normal=True), rtol=1e-14)
    ends = run(inverse_error.ndtri, np.array([0.0, 1.0, 0.5, -0.1, 1.1, np.nan]))
    np.testing.assert_array_equal(ends, [-np.inf, np.inf, 0, np.nan, np.nan, np.nan])


def test_normal_distribution_in_float32() -> None:
    p = np.concatenate(
        [np.random.default_rng(0).uniform(0, 1, 300), 10.0 ** -np.arange(1, 38), 1 - 10.0 ** -np.arange(1, 7)]
    )
    p = p[p != 0.5].astype(np.float32)
    found, want = run(inverse_error.ndtri, p), exact(p, normal=True)
    assert (np.abs(found - want) / np.spacing(np.abs(want).astype(np.float32))).max() <= 2
    ends = run(inverse_error.ndtri, np.array([0.0, 1.0, 0.5, -0.1, 1.1, np.nan], np.float32))
    np.testing.assert_array_equal(ends, [-np.inf, np.inf, 0, np.nan, np.nan, np.nan])
