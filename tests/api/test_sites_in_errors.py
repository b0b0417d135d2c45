"""Errors name an op, and the line of the user's code or the node of the model that it is from; nothing is called "program"."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import burn
from burn import nn, ops, optim, train
from burn.errors import BurnError

ROW, ONE = ("float32[n]",), np.ones(3, np.float32)
FAR = np.array([1, 7])


def line(function: Callable[..., object], text: str) -> str:
    """As in "test_sites_in_errors.py:17": the line of a function that has this text."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [number for number, line in enumerate(lines, first) if text in line]
    return f"{Path(__file__).name}:{found}"


def message(call: Callable[[], object]) -> str:
    with pytest.raises(BurnError) as caught:
        call()
    assert "program'" not in str(caught.value)
    return str(caught.value)


def cut(x: burn.Tensor) -> burn.Tensor:
    return x.astype("int2")


def trips(x: burn.Tensor) -> burn.Tensor:
    steps = lambda i, c: burn.fori_loop(0, i + 1, lambda j, d: burn.sin(d) * x, c)  # noqa: E731
    return burn.fori_loop(0, burn.constant(3), steps, x).sum()


def test_an_index_of_a_layer_without_a_line() -> None:
    text = message(lambda: burn.compile(nn.Embedding(5, 2), ("int64[n]",))(FAR))
    assert "'gather': index 7" in text
    text = message(lambda: burn.compile(burn.take, ("float32[n]", "int64[k]"))(ONE, FAR))
    assert "'gather': index 7" in text


def test_an_index_of_a_loss() -> None:
    layer = nn.Linear(3, 4)
    learner = train.Learner(layer, nn.CrossEntropyLoss(), optim.SGD(layer), progress=False)
    text = message(lambda: learner.fit([(ONE[None], np.array([9]))], epochs=1))
    assert "epoch 1, batch 1" in text and "'gather_elements': index 9" in text
    assert "'gather_elements': index 9" in message(lambda: learner.evaluate([(ONE[None], np.array([9]))]))


def test_export_names_the_line(tmp_path: Path) -> None:
    text = message(lambda: burn.export(cut, tmp_path / "cut.onnx", ROW))
    assert f"cast (opset 21), node 'cast ({line(cut, 'int2')})'" in text


def test_a_derivative_that_is_refused_names_the_line() -> None:
    text = message(lambda: burn.jit(burn.hessian(trips))(ONE))
    assert line(trips, "lambda i, c") in text or line(trips, "burn.constant(3)") in text


def test_a_wrong_operand_is_said_once() -> None:
    text = message(lambda: burn.compile(lambda x: ops.add(x, x.astype("float64")), ROW))
    assert text.count("element type") == 1
