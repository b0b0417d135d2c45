"""Error messages name the mistake, and the usual `except` clauses catch the errors."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import InputError, RunError, TypeMismatch

TWICE = lambda x: x * 2.0  # noqa: E731


@pytest.mark.parametrize(("text", "says"), [
    ("float32[batch", "is not a type"),
    ("float32", r"of a number it is float32\[\]"),
    ("float32[-1]", "-1 is no size"),
    ("float31[2]", "no element type 'float31'"),
])  # fmt: skip
def test_types_as_text(text: str, says: str) -> None:
    with pytest.raises(TypeMismatch, match=says):
        burn.compile(TWICE, (text,))


def test_sizes_in_expressions() -> None:
    alone = burn.compile(TWICE, ("float32[4*n]",))
    np.testing.assert_allclose(alone(np.ones(8, np.float32)), np.full(8, 2.0))
    with pytest.raises(InputError):
        alone(np.ones(7, np.float32))
    run = burn.compile(lambda x, y: (x * 2.0, y.sum()), ("float32[4*n]", "float32[n]"))
    np.testing.assert_allclose(run(np.ones(8, np.float32), np.ones(2, np.float32))[0], np.full(8, 2.0))


def test_names_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"no target 'foo'(.|\n)*avx2"):
        burn.compile(TWICE, ("float32[2]",), target="foo")
    with pytest.raises(TypeError, match=r"an opset is a number(.|\n)*'18'"):
        burn.export(TWICE, "/tmp/never.onnx", ("float32[2]",), opset="18")  # type: ignore[arg-type]


def test_numbers_beyond_what_there_is() -> None:
    for shape in ((2**63,), (2**40, 2**40)):
        with pytest.raises(ValueError, match="no memory holds such a tensor"):
            burn.zeros(*shape)
    with pytest.raises(ValueError, match=f"{2**70} is no int64"):
        burn.constant(2**70)
    with pytest.raises(ValueError, match=f"{-(2**70)} is no int64"):
        burn.constant([1, -(2**70)])


def test_layers_called_with_lists() -> None:
    with pytest.raises(TypeMismatch, match=r"Linear takes tensors(.|\n)*burn\.tensor"):
        nn.Linear(2, 3)([[1.0, 2.0]])  # type: ignore[arg-type]


def test_errors_are_pythons_own_kinds() -> None:
    x = burn.constant(np.ones((2, 3), np.float32))
    for use in (lambda: x[5], lambda: x[:, -4], lambda: x.sum(4), lambda: x[0, 0, 0], lambda: x[np.ones(3, bool)]):
        with pytest.raises(IndexError):
            use()
    for kind in (TypeError, ValueError):
        with pytest.raises(kind):
            _ = x + burn.ones(4)
        with pytest.raises(kind):
            burn.compile(TWICE, ("float32[2]",))(np.ones(3, np.float32))
    assert issubclass(InputError, ValueError) and issubclass(TypeMismatch, burn.BurnError)
    taken = burn.compile(lambda x, i: x.take(i), ("float32[n]", "int64[]"))
    with pytest.raises(IndexError, match="out of range") as caught:
        taken(np.ones(3, np.float32), np.int64(7))
    assert isinstance(caught.value, RunError)
