"""Named sizes in a traced function: conditions that they decide, and errors for those that they do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import BurnError, Dim, RunError, Tensor, TypeMismatch

X = ("float32[n, 2]",)


def _traced(function: Callable[[Tensor], Any]) -> Any:
    """The result of `function` for a tensor with a named size, n."""
    found: list[Any] = []

    def run(x: Tensor) -> Tensor:
        found.append(function(x))
        return x

    burn.compile(run, X)
    return found[0]


UNDECIDED: dict[str, Callable[[Tensor], Any]] = {
    "n == 3": lambda x: x.shape[0] == 3,
    "n != 3": lambda x: x.shape[0] != 3,
    "n == 0": lambda x: x.shape[0] == 0,
    "n > 3": lambda x: x.shape[0] > 3,
    "n < 3": lambda x: x.shape[0] < 3,
    "n >= 1": lambda x: x.shape[0] >= 1,
    "n <= 3": lambda x: x.shape[0] <= 3,
    "(n % 2) == 0": lambda x: x.shape[0] % 2 == 0,
    "2*n == 6": lambda x: x.size == 6,
    "n == 1": lambda x: x.shape[0] in (1, 2),
    "n == 5": lambda x: x.shape == (5, 2),
    "n != 0": lambda x: "some" if x.shape[0] else "none",
    "n + 1 == m": lambda x: x.shape[0] + 1 == Dim("m"),
    "n > 2": lambda x: max(2, x.shape[0]),
}


@pytest.mark.parametrize("text", UNDECIDED)
def test_what_sizes_do_not_decide_raises(text: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        _traced(UNDECIDED[text])
    assert f"whether {text} depends on sizes" in str(caught.value)
    assert "burn.cond" in str(caught.value) and "burn.check_size" in str(caught.value)


def test_what_sizes_decide_is_a_bool() -> None:
    def decided(x: Tensor) -> list[bool]:
        n, two = x.shape
        assert two == 2
        return [
            n == n,
            n + 1 == 1 + n,
            n != -1,
            n >= 0,
            n + 1 > n,
            bool(n + 1),
            x.shape == x.exp().shape,
            x.shape in [x.shape],
            n % 4 < 4,
            (n // 2) * 2 + n % 2 == n,
            n.__eq__("n") is NotImplemented,
        ]

    assert all(_traced(decided))
    assert _traced(lambda x: [x.shape[0] < 0, x.shape[0] == None, x.shape[0] == "n"]) == [False] * 3  # noqa: E711


VALUES: dict[str, Callable[[Tensor], Any]] = {
    "in a division with /": lambda x: 1 / x.shape[0],
    "in a division with / ": lambda x: x.shape[0] / 2,
    "as an index or in range()": lambda x: range(x.shape[0]),
    "as an index or in range() ": lambda x: [1, 2, 3][x.shape[0]],
    "as a float": lambda x: math.sqrt(x.shape[0]),
    "as a float ": lambda x: float(x.shape[0]),
    "as an int": lambda x: int(x.shape[0]),
}


@pytest.mark.parametrize("text", VALUES)
def test_a_size_has_no_value_while_tracing(text: str) -> None:
    with pytest.raises(TypeMismatch, match=r"the size n has no value while the function is traced") as caught:
        _traced(VALUES[text])
    assert text.strip() in str(caught.value)


def test_arithmetic_gives_sizes() -> None:
    def made(x: Tensor) -> list[Any]:
        n = x.shape[0]
        return [
            n + 1,
            1 + n,
            n - 1,
            3 - n,
            -n,
            n * 2,
            n * n,
            n**2,
            n // 2,
            n % 3,
            *divmod(n, 4),
            7 // n,
            7 % n,
            x.size,
            x.nbytes,
        ]

    sizes = _traced(made)
    assert all(isinstance(size, Dim) for size in sizes)
    texts = "n + 1, n + 1, n - 1, -n + 3, -n, 2*n, n*n, n*n, (n // 2), (n % 3), (n // 4), (n % 4), (7 // n), (7 % n), 2*n, 8*n"
    assert ", ".join(map(str, sizes)) == texts
    assert repr(Dim("n")) == 'Dim("n")'
    assert isinstance(Dim.max(Dim("n"), 2), Dim) and str(Dim.min(Dim("n"), 2)) == "min(2, n)"
    assert Dim("n") in {Dim("n"): 1}


def test_a_comparison_in_jit_raises_too() -> None:
    @burn.jit(dynamic={"x": {0: "n"}})
    def f(x: Tensor) -> Tensor:
        return x * 10 if x.shape[0] == 3 else -x

    with pytest.raises(TypeMismatch, match=r"burn\.cond"):
        f(np.ones((3, 2), np.float32))


def test_the_two_ways_that_the_error_names() -> None:
    def chosen(x: Tensor) -> Tensor:
        return burn.cond(burn.constant(x.shape[0]) == 3, lambda: x * 10, lambda: -x)

    def asked(x: Tensor) -> Tensor:
        burn.check_size(x.shape[0], "==", 3)
        return x * 10

    three, four = (np.ones((n, 2), np.float32) for n in (3, 4))
    f = burn.compile(chosen, X)
    assert f(three)[0, 0] == 10 and f(four)[0, 0] == -1
    f = burn.compile(asked, X)
    assert f(three)[0, 0] == 10
    with pytest.raises(RunError, match=r"n == 3 does not hold: the lhs is 4"):
        f(four)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 8])
def test_a_reshape_may_leave_a_size_to_the_run(n: int) -> None:
    f = burn.compile(lambda x: (x.reshape(-1, 4), x.unflatten(0, 2, -1), x.split(2)[1]), ("float32[n]",))
    x = np.arange(n, dtype=np.float32)
    if n % 4:
        with pytest.raises(BurnError):
            f(x)
    else:
        whole, doubled, half = f(x)
        assert np.array_equal(whole, x.reshape(-1, 4))
        assert np.array_equal(doubled, x.reshape(2, n // 2))
        assert np.array_equal(half, x[n // 2 :])


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 1), (1, 0), (1, 1), (3, 1), (1, 3), (3, 3), (3, 2), (0, 2)])
def test_named_sizes_broadcast(n: int, m: int) -> None:
    f = burn.compile(
        lambda x, y: ((x + y).exp(), (x * y).reshape(-1, 2), x[:1] + y), ("float32[n, 2]", "float32[m, 2]")
    )
    x, y = np.ones((n, 2), np.float32), np.full((m, 2), 2, np.float32)
    if n != m and 1 not in (n, m):
        with pytest.raises(RunError, match="does not fit"):
            f(x, y)
        return
    total, flat, first = f(x, y)
    assert np.allclose(total, np.exp(x + y)) and total.shape == (x + y).shape
    assert flat.shape == (x + y).shape
    assert first.shape == (x[:1] + y).shape if n else True
