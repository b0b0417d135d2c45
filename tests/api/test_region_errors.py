"""Errors in and after the regions of control flow: an error that is kept does not keep values of the program that it refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import burn
from burn.errors import TypeMismatch


def wrong_condition(x: Any) -> Any:
    return burn.loop(lambda i, going, c: (x > 0, c + x), (x,), condition=True)


def different_branches(x: Any) -> Any:
    return burn.cond(x.sum() > 0, lambda: x * 2, lambda: x.astype("int32"))


def different_structures(x: Any) -> Any:
    return burn.cond(x.sum() > 0, lambda: (x, x), lambda: x)


def error_of_the_user(x: Any) -> Any:
    return burn.cond(x.sum() > 0, lambda: x + 1, lambda: {}["missing"])


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (wrong_condition, TypeMismatch),
        (different_branches, TypeMismatch),
        (different_structures, TypeMismatch),
        (error_of_the_user, KeyError),
    ],
)
def test_kept_errors(function: Callable[[Any], Any], error: type[Exception]) -> None:
    kept = []
    for _ in range(2):
        with pytest.raises(error) as caught:
            burn.compile(function, ("float32[3]",))
        kept.append(caught.value)
    gc.collect()  # MLIR ends the process for a value that is destroyed while it is in use
    kept.clear()
    gc.collect()
    assert burn.compile(lambda x: x + 1, ("float32[3]",)) is not None
