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
