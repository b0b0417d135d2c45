"""A reduction's result meets the rows it belongs to, also where the shapes alone would fit another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, a: x - x.sum(a),
    "mean": lambda x, a: x / x.mean(a),
    "max, then a function": lambda x, a: burn.exp(x - x.max(a)) if isinstance(x, burn.Tensor) else np.exp(x - x.max(a)),
    "written out": lambda x, a: x * 2 - x.sum(a)[None] * 3 + x.max(a),
    "of a product": lambda x, a: x @ x - (x @ x).sum(a),
    "kept": lambda x, a: x - x.sum(a, keepdims=True),
    "kept, dropped, kept": lambda x, a: x - x.sum(a, keepdims=True).reshape(x.sum(a).shape),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("rank", "axes"), [(2, 0), (2, 1), (3, 2), (3, 1), (3, (0, 2)), (3, (1, 2)), (3, (0, 1))])
def test_squares(name: str, rank: int, axes: Any) -> None:
    function = FUNCTIONS[name]
    x = np.random.default_rng(len(name)).random((7,) * rank) + 0.5
    want = function(x, axes)
    for sizes in (", ".join("7" * rank), ", ".join("n" * rank)):
        run = burn.compile(lambda x: function(x, axes), (f"float64[{sizes}]",))
        np.testing.assert_allclose(run(x), want, rtol=1e-9, atol=1e-9)


def test_rows_that_fit_are_one_kernel() -> None:
    for function in (lambda x: x - x.sum(1, keepdims=True), lambda x: x - x.sum(0)):
        assert len(burn.explain(burn.compile(function, ("float32[64, 64]",)))) == 1
