"""Transforms outside of compiled functions, of loops and branches whose sizes and trips are found out by running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn

X = np.random.default_rng(4).standard_normal(3)


def shrink(e: Any) -> Any:
    return burn.while_loop(lambda e: e.sum() > 1.0, lambda e: e * 0.5, e)


def repeat(x: Any) -> Any:
    """Four iterations of a loop that tests a condition."""
    return burn.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, burn.sin(c[1]) * x), (0, x))[1]


def nested(x: Any) -> Any:
    """Each iteration of the outer loop runs another number of iterations of the inner one."""
    body = lambda i, c: burn.sin(burn.fori_loop(0, i + 1, lambda j, d: d * x + j, c)) + shrink(c)  # noqa: E731
    return burn.fori_loop(0, burn.constant(3), body, x)


def chosen(x: Any) -> Any:
    """The branches have different sizes."""
    return burn.cond(x[0] > 0, lambda: x[:2] ** 3, lambda: x**2).sum()


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "jacrev": burn.jacrev,
    "jacfwd": burn.jacfwd,
    "jvp": lambda f: lambda x: burn.jvp(f, (x,), (np.cos(x),))[1],
    "hessian": lambda f: burn.hessian(lambda x: f(x).sum()),
    "jvp of grad": lambda f: lambda x: burn.jvp(burn.grad(lambda x: f(x).sum()), (x,), (np.cos(x),))[1],
    "grad of linearize": lambda f: burn.grad(lambda x: burn.linearize(f, x)[1](x).sum()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("function", [repeat, shrink, chosen])
def test_equals_the_compiled_one(function: Callable[[Any], Any], name: str) -> None:
    transformed = TRANSFORMS[name](function)
    for x in (X, -X, X * 9):
        np.testing.assert_allclose(transformed(x), burn.jit(transformed)(x), rtol=1e-9, atol=1e-12)


def test_trips_that_differ_between_iterations() -> None:
    np.testing.assert_allclose(burn.jacrev(nested)(X), burn.jit(burn.jacrev(nested))(X), rtol=1e-9, atol=1e-12)
