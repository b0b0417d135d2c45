"""Donated inputs: results reuse their memory once it has no readers left, and are right in either case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import InputError, TypeMismatch

SHAPE = (64, 64)


def aligned(seed: int) -> np.ndarray:
    """An array with burn's alignment."""
    values = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
    return np.asarray(burn.compile(lambda x: x + 0.0, (values,))(values))


def shares(a: np.ndarray, b: np.ndarray) -> bool:
    return a.ctypes.data == b.ctypes.data


FUNCTIONS: dict[str, tuple[Callable[..., Any], bool]] = {
    "pointwise": (lambda x, y: x * y + x, True),
    "turned": (lambda x, y: x.T + x, False),
    "row by row": (lambda x, y: x - x.max(1, keepdims=True), False),
    "read before": (lambda x, y: (x @ y) @ y, True),
    "the product itself": (lambda x, y: x @ y, False),
    "read later": (lambda x, y: (y * 2.0 + (x @ y), x.cumsum(0)), False),
    "returned": (lambda x, y: (x * 2.0, x), False),
    "in two kernels": (lambda x, y: burn.concat([x[1:], x[:1]], 0) * y, True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_right_whether_or_not_memory_is_taken(name: str) -> None:
    function, taken = FUNCTIONS[name]
    x, y = aligned(1), aligned(2)
    plain = burn.compile(function, (x, y))
    giving = burn.compile(function, (x, y), donate=(0,))
    want = plain(x, y)
    given = aligned(1)
    got = giving(given, y)
    pairs = list(zip(got, want, strict=True)) if isinstance(want, tuple) else [(got, want)]
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)
    assert any(shares(a, given) for a, _ in pairs) == taken
    np.testing.assert_array_equal(y, aligned(2))


def test_a_step_of_an_optimiser_needs_no_new_memory() -> None:
    @burn.jit(donate=("weights",))
    def step(weights: dict[str, Any], gradient: Any) -> dict[str, Any]:
        return {name: w - gradient * 0.1 for name, w in weights.items()}

    weights, gradient = {"a": aligned(1), "b": aligned(2)}, aligned(3)
    want = {name: w - gradient * np.float32(0.1) for name, w in weights.items()}
    got = step(weights, gradient)
    for name, w in weights.items():
        np.testing.assert_allclose(got[name], want[name], rtol=1e-6)
        assert shares(got[name], w)


def test_what_is_given_up_must_be_writable_and_alone() -> None:
    double = burn.compile(lambda x, y: x * 2.0 + y, (f"float32{list(SHAPE)}",) * 2, donate=("x",))
    x, y = aligned(1), aligned(2)
    for other in (x, x[::-1][::-1]):
        with pytest.raises(InputError, match="'x' is donated but shares memory"):
            double(x, other)
    x.flags.writeable = False
    with pytest.raises(InputError, match="'x' is read-only"):
        double(x, y)
    many = burn.compile(lambda *xs: sum(xs[1:], xs[0]), ("float32[2]",) * 60, donate=range(60))
    row = np.zeros((60, 2), np.float32)
    many(*row)
    with pytest.raises(InputError, match="shares memory"):
        many(*row[:59], row[7])


def test_what_cannot_be_given_up_is_named() -> None:
    with pytest.raises(TypeMismatch, match="the arguments are x"):
        burn.compile(lambda x: x, ("float32[2]",), donate=(1,))
    with pytest.raises(TypeMismatch, match="'z'"):
        burn.compile(lambda x: x, ("float32[2]",), donate=("z",))
