"""Programs that check sizes of their inputs: what they compute, where it lies, and which of them `fix_sizes` leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import RunError


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def checked(size: int, function: Callable[..., Any], *types: str, **options: Any) -> Any:
    def whole(x: Any, *more: Any) -> Any:
        burn.check_size(x.shape[0], "==", size)
        return function(x, *more)

    return burn.compile(whole, types, **options)


def test_a_donated_input_of_a_checked_size_is_reused() -> None:
    run = checked(64, lambda x, y: x * y + x, "float32[n, 64]", "float32[n, 64]", donate=(0,))
    y = drawn(64, 64)
    given = np.asarray(burn.compile(lambda x: x + 0.0, (y,))(y))  # in memory with burn's alignment
    want = given * y + given
    got = np.asarray(run(given, y))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert got.ctypes.data == given.ctypes.data


def test_inputs_that_are_returned() -> None:
    for donated in ((), (0,)):
        run = checked(4, lambda x: (x, x.T, x * 2, x), "float32[n, 2]", donate=donated)
        x = drawn(4, 2)
        want = x.copy(), x.T.copy(), x * 2, x.copy()
        for got, value in zip(run(x), want, strict=True):
            np.testing.assert_array_equal(got, value)


def test_a_branch_for_another_size_is_never_taken() -> None:
    three, four = drawn(3, 2), drawn(4, 2)

    def chosen(x: Any) -> Any:
        four_rows = burn.constant(x.shape[0]) == 4
        return burn.cond(four_rows, lambda: (x * four).sum(), lambda: (x * three).sum())

    run = checked(3, chosen, "float32[n, 2]")
    np.testing.assert_allclose(run(three), (three * three).sum(), rtol=1e-5)
    with pytest.raises(RunError, match="n == 3 does not hold: the lhs is 4"):
        run(four)


def test_two_checks_that_differ() -> None:
    four = drawn(4, 2)

    def twice(x: Any) -> Any:
        burn.check_size(x.shape[0], "==", 4)
        return x * four

    run = checked(3, twice, "float32[n, 2]")
    for n, text in ((3, "n == 4 does not hold: the lhs is 3"), (4, "n == 3 does not hold: the lhs is 4")):
        with pytest.raises(RunError, match=text):
            run(drawn(n, 2))


@pytest.mark.parametrize("size", [0, 4])
def test_a_quotient_by_zero_has_no_value(size: int) -> None:
    run = checked(size, lambda x, y: y.reshape(x.shape[0] - size, -1), "float32[n, 2]", "float32[12]")
    with pytest.raises(RunError):
        run(drawn(size, 2), drawn(12))


def test_regions_use_the_size() -> None:
    c = drawn(1, 2)

    def loops(x: Any, k: Any) -> Any:
        y = burn.fori_loop(0, k, lambda i, s: s * 0.5 + x * c, x)
        z = burn.cond(x.sum() > 0, lambda: y + x, lambda: x * c)
        return y, burn.while_loop(lambda s: s.sum() < 10, lambda s: s + burn.constant(x.shape[0]).astype("float32"), z)

    run = checked(5, loops, "float32[n, 2]", "int32[]")
    for x in (np.abs(drawn(5, 2)), -np.abs(drawn(5, 2))):
        y = x
        for _ in range(3):
            y = y * np.float32(0.5) + x * c
        z = y + x if x.sum() > 0 else x * c
        while z.sum() < 10:
            z = z + np.float32(5)
        got = run(x, np.int32(3))
        np.testing.assert_allclose(got[0], y, rtol=1e-5)
        np.testing.assert_allclose(got[1], z, rtol=1e-5)
