"""Special functions of elementary ones, near their zeros, against mpmath."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn.dialect import special

mpmath = pytest.importorskip("mpmath")


def test_lgamma_near_its_zeros() -> None:
    near = 10.0 ** -np.arange(1, 16, 2)
    x = np.concatenate(
        [[1.0, 2.0], 1 + near, 1 - near, 2 + near, 2 - near, np.linspace(0.5, 2.5, 41), [1e-9, 2.5, 3.0, 9.5]]
    )
    found = burn.compile(lambda x: burn.Tensor(special.lgamma(x.value)), {"x": "float64[n]"})(x)
    with mpmath.workdps(40):
        want = np.array([float(mpmath.loggamma(mpmath.mpf(float(each)))) for each in x])
    assert found[0] == 0 and found[1] == 0
    np.testing.assert_allclose(found, want, rtol=1e-14)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 2e-14), ("float32", 0.51 * 2**-23)])
def test_lgamma_from_below_zero_to_large_numbers(dtype: str, bound: float) -> None:
    """Errors are relative to the value, or to 1 if it is less. 1e307 times its logarithm overflows, as in C."""
    rng = np.random.default_rng(0)
    large = [
        0.5,
        1.5,
        2.5,
        1e6,
        1.1e6,
        1e30,
        -0.25,
        -1e-6,
        1e-30,
        -170.5,
        -2.4570247382208,
        *(1e300, 1e-310)[: dtype == "float64"],
    ]
    x = np.concatenate([rng.uniform(-30, 30, 300), rng.uniform(0.4, 2.6, 200), 10 ** rng.uniform(-9, 9, 100), large])
    x = x.astype(dtype)
    x = x[(x > 0) | (x != np.floor(x))]
    found = burn.compile(lambda x: burn.Tensor(special.rounded(special.lgamma)(x.value)), {"x": f"{dtype}[n]"})(x)
    with mpmath.workdps(40):
        want = np.array([float(mpmath.loggamma(mpmath.mpf(float(each))).real) for each in x])
    error = np.abs(found.astype(np.float64) - want) / np.maximum(1.0, np.abs(want))
    assert error.max() < bound, (error.max(), x[error.argmax()])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_poles_of_lgamma(dtype: str) -> None:
    x = burn.tensor([0.0, -0.0, -1.0, -2.0, -500.0, np.inf, -np.inf, np.nan, 1.0, 2.0]).astype(dtype)
    np.testing.assert_array_equal(burn.lgamma(x).numpy(), [np.inf] * 7 + [np.nan, 0.0, 0.0])
