"""Terms that a compiler of shaders would cancel: infinities and NaN stay, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn

pytestmark = [pytest.mark.usefixtures("webgpu"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]

VALUES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 2.5]

EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x - x": lambda x, y: x - x,
    "x + -x": lambda x, y: x + (-x),
    "-x + x": lambda x, y: (-x) + x,
    "(x + y) - y": lambda x, y: (x + y) - y,
    "y - (y - x)": lambda x, y: y - (y - x),
    "(x - y) + (y - x)": lambda x, y: (x - y) + (y - x),
    "x + y - x - y": lambda x, y: x + y - x - y,
    "x * y - x * y": lambda x, y: x * y - x * y,
    "exp(x) - exp(x)": lambda x, y: burn.exp(x) - burn.exp(x),
    "x * 0": lambda x, y: x * 0.0,
    "x * -0": lambda x, y: x * -0.0,
    "0 / x": lambda x, y: 0.0 / x,
    "x * x * 0": lambda x, y: (x * x) * 0.0,
    "0 * x + y": lambda x, y: 0.0 * x + y,
    "x * (y - y)": lambda x, y: x * (y - y),
    "(y > 0) * x": lambda x, y: burn.astype(y > 0, x.dtype) * x,
    "(1 - (y > 0)) * x": lambda x, y: (1.0 - burn.astype(y > 0, x.dtype)) * x,
    "where(y > 0, 1, 0) * x": lambda x, y: burn.where(y > 0, 1.0, 0.0) * x,
    "where(y > 0, y, 0) * x": lambda x, y: burn.where(y > 0, y, 0.0) * x,
    "maximum(x * 0, y)": lambda x, y: burn.maximum(x * 0.0, y),
    "0 - x": lambda x, y: 0.0 - x,
    "x + -0": lambda x, y: x + -0.0,
    "x / x": lambda x, y: x / x,
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_infinities_and_nan_are_not_cancelled(dtype: str) -> None:
    x, y = (np.asarray(a.ravel(), np.float32).astype(dtype) for a in np.meshgrid(VALUES, VALUES))

    def function(x: Any, y: Any) -> tuple[Any, ...]:
        return tuple(expression(x, y) for expression in EXPRESSIONS.values())

    got, want = (burn.compile(function, (x, y), cache=False, device=where)(x, y) for where in ("wgpu", "cpu"))
    for name, a, b in zip(EXPRESSIONS, got, want, strict=True):
        same = (np.isnan(a) & np.isnan(b)) | (np.signbit(a) == np.signbit(b)) & np.isclose(a, b, rtol=1e-3, atol=0)
        # a sum from which a term is subtracted again may be more exact
        same |= np.isfinite(a) & np.isfinite(b) & (np.abs(a.astype(float) - b) <= 1e-3 * np.abs(y.astype(float)))
        assert same.all(), (name, x[~same], y[~same], a[~same], b[~same])
