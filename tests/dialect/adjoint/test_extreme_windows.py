"""The derivative of maxima and minima over windows: one window's gradient goes to its first extreme, for every padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.dialect.adjoint.extreme_windows import OPTIONS, expected, infinite, pulled_back


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["sizes", "named sizes"])
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_first_extreme(options: dict[str, Any], dynamic: bool, kind: str) -> None:
    drawn = np.random.default_rng(0)
    x = drawn.integers(-3, 4, (2, 8, 7, 3)).astype(np.float32)  # ties
    x[1, 2, 3, 1] = np.nan
    found, g = pulled_back(x, options, kind, drawn, dynamic)
    np.testing.assert_allclose(found, expected(x, g, kind, options), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["sizes", "named sizes"])
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_windows_without_a_number(options: dict[str, Any], dynamic: bool, kind: str) -> None:
    """A window of infinities that equal its padding passes its cotangent to its first element, never to padding."""
    drawn = np.random.default_rng(1)
    x = infinite(kind, drawn)
    found, g = pulled_back(x, options, kind, drawn, dynamic)
    np.testing.assert_array_equal(found, expected(x, g, kind, options))
