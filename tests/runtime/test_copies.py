"""Executables in pickles, copies and files; models in memory."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import burn
from burn import nn
from burn.errors import InputError, TypeMismatch


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(6).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> burn.Executable:
    return burn.compile(nn.Linear(40, 30), ("float32[n, 40]",))


def test_pickles_and_copies_run(model: burn.Executable, tmp_path: Path) -> None:
    x = draw(3, 40)
    model.save(tmp_path / "m.burn")
    loaded = burn.load(tmp_path / "m.burn")
    for other in (
        pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy([model])[0], loaded, copy.copy(loaded),
        pickle.loads(pickle.dumps(loaded)),
    ):  # fmt: skip
        np.testing.assert_array_equal(other(x), model(x))


def test_compiled_functions_in_pickles() -> None:
    run = burn.compile(_swapped, ({"a": "float32[n]", "b": "float32[n]"},))
    x = draw(4)
    back = pickle.loads(pickle.dumps(run))({"a": x, "b": x + 1})
    np.testing.assert_allclose(back["b"][0], x * 2)


def _swapped(pair: dict) -> dict:
    return {"a": pair["b"], "b": [pair["a"] * 2.0]}


def test_a_compiled_program_is_called_so(model: burn.Executable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in \.burn"):
        model.save(tmp_path / "m.onnx")


def test_models_in_memory() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["n"])],
        [value("y", TensorProto.FLOAT, ["n"])],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    x = draw(5)
    for source in (proto, proto.SerializeToString(), bytearray(proto.SerializeToString())):
        np.testing.assert_array_equal(burn.load(source)(x), x * 2)
    np.testing.assert_array_equal(burn.load(proto, dims={"n": 5}, cache=False)(x), x * 2)
    with pytest.raises(TypeMismatch, match="not a int"):
        burn.load(3)  # type: ignore[arg-type]
    with pytest.raises(burn.ModelError):
        burn.load(b"not a model")
    assert isinstance(proto, onnx.ModelProto)
