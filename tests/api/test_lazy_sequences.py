"""Sequences of tensors and sizes read from elements, outside of traced functions: as in source that burn-import wrote."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn import ops
from burn.errors import OutOfRange, TypeMismatch
from burn.exporters.python.generate import generate
from burn.loading import read_program


def split(x: Any) -> Any:
    return ops.list_split(burn.constant(x), burn.constant(2))


def test_readers_of_a_recorded_sequence_are_computed() -> None:
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    parts = split(x)
    last = ops.list_at(parts, burn.constant(-1), dtype="float32", sizes=(-1, 4), symbols=("rows",))
    parts = ops.list_insert(ops.list_erase(parts, burn.constant(0)), last)
    assert np.array_equal(last.numpy(), x[4:])
    assert ops.list_length(parts).item() == 3
    joined = ops.list_concat(parts, axis=0, dtype="float32", sizes=(-1, 4), symbols=("all",))
    assert np.array_equal(joined.numpy(), x[[2, 3, 4, 4]])


def test_a_sequence_has_no_elements() -> None:
    with pytest.raises(TypeMismatch, match="a sequence has no elements"):
        split(np.ones((4, 1), np.float32)).numpy()


def test_a_sequence_is_shown_by_its_type_and_is_no_argument() -> None:
    parts = split(np.ones((4, 1), np.float32))
    assert repr(parts) == f"{parts}" == "Tensor(list[])" and "list[]" in parts._repr_html_()
    with pytest.raises(TypeMismatch, match="'parts' is a sequence"):
        burn.jit(lambda parts: ops.list_length(parts))(parts)


def test_a_size_is_read_at_once_outside_of_traced_functions() -> None:
    x = burn.constant(np.array([[3, -1], [7, 0]]))
    assert burn.read_dim(x, "n") == 3 and burn.read_dim(x, "n", position=2) == 7
    with pytest.raises(OutOfRange, match="the size 'n' is -1"):
        burn.read_dim(x, "n", position=1)
    with pytest.raises(OutOfRange, match="there is no element 4"):
        burn.read_dim(x, "n", position=4)
    with pytest.raises(TypeMismatch, match="read from integers"):
        burn.read_dim(x.astype("float32"), "n")


def graph(name: str) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    x = info("x", TensorProto.FLOAT, ["n", 4])
    if name == "sequence in a loop":
        body = helper.make_graph(
            [
                helper.make_node("Gather", ["x", "i"], ["row"]),
                helper.make_node("CumSum", ["row", "zero"], ["sum"]),
                helper.make_node("SequenceInsert", ["s", "sum"], ["t"]),
                helper.make_node("Identity", ["c"], ["d"]),
            ],
            "body",
            [
                info("i", TensorProto.INT64, []),
                info("c", TensorProto.BOOL, []),
                helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [4]),
            ],
            [info("d", TensorProto.BOOL, []), helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, [4])],
        )
        nodes = [
            helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
            helper.make_node("Squeeze", ["rows", "axis"], ["trips"]),
            helper.make_node("SequenceEmpty", [], ["empty"]),
            helper.make_node("Loop", ["trips", "", "empty"], ["all"], body=body),
            helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1),
        ]
        numbers = {"zero": np.int64(0), "axis": np.array([0])}
        result = info("y", TensorProto.FLOAT, ["n", 4])
    else:
        nodes = [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["count"], to=TensorProto.INT64),
            helper.make_node("Range", ["zero", "count", "one"], ["y"]),
        ]
        numbers = {"zero": np.int64(0), "one": np.int64(1)}
        result = info("y", TensorProto.INT64, ["k"])
    tensors = [numpy_helper.from_array(np.asarray(value), key) for key, value in numbers.items()]
    made = helper.make_graph(nodes, "g", [x], [result], tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("name", ["sequence in a loop", "size from elements"])
def test_source_of_an_imported_model_runs_without_compiling_it(name: str, tmp_path: Path) -> None:
    onnx.save(graph(name), tmp_path / "model.onnx")
    source = generate(read_program(tmp_path / "model.onnx", {}), "Model", "model.onnx")
    (tmp_path / "model.py").write_text(source.text)
    found = importlib.util.spec_from_file_location("imported_model", tmp_path / "model.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    for rows in (1, 3):
        x = np.random.default_rng(rows).uniform(0, 9, (rows, 4)).astype(np.float32)
        want = np.cumsum(x, 1) if "sequence" in name else np.arange(int(x.max()))
        got = module.Model()(burn.constant(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-6)
