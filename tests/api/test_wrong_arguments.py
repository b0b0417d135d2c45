"""Sizes, axes and numbers of wrong Python types: one error that names the function and the argument, for all functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.errors import BurnError, TypeMismatch
from tests.api.rows import ROWS, Row

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def x() -> burn.Tensor:
    return burn.tensor(X)


CASES: list[tuple[str, Callable[[], Any], str]] = [
    ("topk", lambda: x().topk("a"), "burn.topk: k is an integer or a size, not 'a'"),  # type: ignore[arg-type]
    ("topk of a fraction", lambda: x().topk(1.5), "burn.topk: k is .* not 1.5"),  # type: ignore[arg-type]
    ("pad", lambda: burn.pad(x(), "a"), "burn.pad: widths is .* not 'a'"),
    ("tile", lambda: x().tile("a"), "burn.tile: repeats is a list of sizes, not 'a'"),
    ("reshape", lambda: x().reshape(3, "a"), r"burn.reshape: shape is a list of sizes, not \(3, 'a'\)"),
    ("narrow of a fraction", lambda: x().narrow(0, 1.5, 1), "burn.narrow: start is .* not 1.5"),  # type: ignore[arg-type]
    ("sum", lambda: x().sum(axis="a"), "burn.sum: axis is an integer or a list of integers, or None, not 'a'"),  # type: ignore[arg-type]
    ("split", lambda: x().split(1.5), "burn.split: sections is .* not 1.5"),  # type: ignore[arg-type]
    ("chunk", lambda: x().chunk("a"), "burn.chunk: chunks is an integer, not 'a'"),  # type: ignore[arg-type]
    ("concat", lambda: burn.concat([x(), x()], axis=1.5), "burn.concat: axis is an integer, not 1.5"),  # type: ignore[arg-type]
    ("zeros", lambda: burn.zeros("a"), "burn.zeros: shape is a list of sizes, not 'a'"),  # type: ignore[arg-type]
    ("quantile", lambda: burn.quantile(x(), "a"), "burn.quantile: q is a number .* not 'a'"),  # type: ignore[arg-type]
    ("fft", lambda: burn.fft.fft(x(), "a"), "burn.fft.fft: n is .* not 'a'"),  # type: ignore[arg-type]
    ("normal", lambda: burn.random.normal("a"), "burn.random.normal: shape is .* not 'a'"),  # type: ignore[arg-type]
    ("power", lambda: burn.linalg.matrix_power(burn.eye(3), "a"), "burn.linalg.matrix_power: .* not 'a'"),  # type: ignore[arg-type]
    ("ops", lambda: ops.softmax(x(), axis=1.0), "burn.softmax: attribute 'axis' is int, not 1.0"),  # type: ignore[arg-type]
    (
        "ops, sizes",
        lambda: ops.reshape(x(), shape=[1.5]),  # type: ignore[arg-type]
        r"attribute 'shape' is made of integers and sizes, not \[1.5\]",
    ),
    ("ops, numbers", lambda: ops.leaky_relu(x(), alpha="a"), "attribute 'alpha' is float, not 'a'"),  # type: ignore[arg-type]
    ("ops, texts", lambda: ops.gelu(x(), approximate=3), "attribute 'approximate' is str, not 3"),  # type: ignore[arg-type]
    ("layers", lambda: burn.nn.Linear(4, 2)("a"), "Linear: x is a tensor, not 'a'"),
    ("layers of nothing", lambda: burn.nn.Linear(4, 2)(None), "Linear: x is a tensor, not None"),
]


@pytest.mark.parametrize(("call", "message"), [(c, m) for _, c, m in CASES], ids=[name for name, _, _ in CASES])
def test_the_error_names_the_function_and_the_argument(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        call()


def test_numpys_integers_are_sizes() -> None:
    size: Any = np.int64(3)
    assert burn.zeros(size).shape == (3,)
    assert burn.zeros((size, np.uint8(2))).shape == (3, 2)
    assert x().reshape(size, -1).shape == (3, 4)


def _function(row: Row) -> Callable[..., Any]:
    found: Any = burn
    for part in filter(None, row.where.split(".")):
        found = getattr(found, part)
    return getattr(found, row.name)


def _tensors(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and any(map(_tensors, value))
    return several or isinstance(value, (burn.Tensor, np.ndarray))


@pytest.mark.parametrize("wrong", ["a", ["a"], 1.5, object()], ids=["text", "texts", "fraction", "object"])
def test_no_function_fails_inside(wrong: Any) -> None:
    """Each argument of each row's calls in turn: the wrong one is taken (1.5 as a number), or an error of burn's."""
    inside = []
    for row in ROWS:
        function = _function(row)
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

        def note(*args: Any, _calls: Any = calls, _function: Any = function, **options: Any) -> Any:
            _calls.append((args, options))
            return _function(*args, **options)

        dtype = "float32" if "float32" in row.dtypes else row.dtypes[0] if row.dtypes else "float32"
        shapes = [tuple(int(c) if c.isdigit() else 3 for c in letters) for letters in row.inputs]
        with contextlib.suppress(BurnError):  # sizes that this row excludes; the calls before are there
            row.use(note, *(burn.ones(shape).astype(dtype) for shape in shapes))
        for args, options in calls:
            for key in (*range(len(args)), *options):
                given, named = list(args), dict(options)
                where: Any = given if isinstance(key, int) else named
                if _tensors(where[key]):
                    continue
                where[key] = wrong
                try:
                    function(*given, **named)
                except BurnError:
                    pass
                except Exception as error:
                    inside.append(f"{row.key}, {key}: {type(error).__name__}: {error}")
    assert not inside, "\n".join(inside)
