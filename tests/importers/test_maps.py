"""ai.onnx.ml as converters write it by default: maps of probabilities, categories that must be known."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import burn
from burn.adapters.onnx import load_onnx
from burn.dialect.text import parse_text, to_text
from burn.errors import ModelError, RunError
from burn.exporters.onnx import export
from burn.importers.onnx import import_onnx
from tests.importers.models import model, node, value

ML = {"ai.onnx.ml": 1}
INT64, STRING = TensorProto.INT64, TensorProto.STRING
RNG = np.random.default_rng(5)


def _outputs(session: Any, feed: dict[str, Any]) -> list[Any]:
    return session.run(None, feed)


def zip_map(shape: list[int | str] | None = None, **labels: Any) -> onnx.ModelProto:
    key = STRING if "classlabels_strings" in labels else INT64
    element = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    output = helper.make_value_info("y", helper.make_sequence_type_proto(element))
    nodes = [node("Softmax", "x", "p", axis=-1), node("ZipMap", "p", "y", domain="ai.onnx.ml", **labels)]
    plain = value("p", shape or ["n", 3])
    return model(nodes, [value("x", shape or ["n", 3])], [output, plain], opset=13, domains=ML)


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [5, -1, 2]}, {"classlabels_strings": ["a", "ü", ""]}])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_rows_are_dicts(labels: dict[str, Any], rows: int) -> None:
    proto = zip_map(**labels)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = RNG.standard_normal((rows, 3)).astype(np.float32)
    executable = load_onnx(proto.SerializeToString())
    want: Any = session.run(None, {"x": x})
    got = list(executable.run({"x": x}).values())
    assert [list(row) for row in got[0]] == [list(row) for row in want[0]]
    assert all(isinstance(v, float) for row in got[0] for v in row.values())
    for mine, theirs in zip(got[0], want[0], strict=True):
        np.testing.assert_allclose(list(mine.values()), list(theirs.values()), rtol=1e-5)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5)
    called = executable(x)
    assert called[0] == got[0]


def test_maps_survive_text_packages_and_pickles(tmp_path: Any) -> None:
    proto = zip_map(classlabels_strings=["a", "b", "c"])
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    executable = load_onnx(proto.SerializeToString())
    want = executable(x)[0]
    program = import_onnx(proto.SerializeToString())
    assert parse_text(to_text(program)).output_keys == {0: ("a", "b", "c")}
    executable.save(tmp_path / "m.burn")
    assert burn.load(tmp_path / "m.burn")(x)[0] == want
    assert pickle.loads(pickle.dumps(executable))(x)[0] == want
    assert "sequence of maps from 3 str to float32" in repr(executable)


def test_a_vector_is_one_row() -> None:
    proto = zip_map(["n"], classlabels_int64s=[0, 1, 2])
    x = np.array([1, 2, 3], np.float32)
    got = load_onnx(proto.SerializeToString()).run({"x": x})["y"]
    assert list(got[0]) == [0, 1, 2] and sum(got[0].values()) == pytest.approx(1)


def test_labels_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match="2 labels do not name 3 columns"):
        load_onnx(zip_map(classlabels_int64s=[0, 1]).SerializeToString())
    open_ = load_onnx(zip_map(["n", "c"], classlabels_int64s=[0, 1]).SerializeToString())
    assert len(open_.run({"x": np.ones((2, 2), np.float32)})["y"]) == 2
    with pytest.raises(RunError, match="so many labels"):
        open_.run({"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_categories_that_must_be_known(kind: str) -> None:
    cats: dict[str, Any] = {"cats_int64s": [1, 2, 3]} if kind == "int64" else {"cats_strings": ["a", "b"]}
    nodes = [node("OneHotEncoder", "x", "y", domain="ai.onnx.ml", zeros=0, **cats)]
    inputs = [value("x", ["n", 1], INT64 if kind == "int64" else STRING)]
    proto = model(nodes, inputs, [value("y", None)], domains=ML)
    executable = load_onnx(proto.SerializeToString())
    known, unknown = ([[1], [3]], [[9]]) if kind == "int64" else ([["a"], ["b"]], [["c"]])
    dtype: Any = np.int64 if kind == "int64" else object
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {"x": np.array(known, dtype)}
    np.testing.assert_array_equal(executable.run(feed)["y"], session.run(None, feed)[0])
    with pytest.raises(RunError, match="of no category"):
        executable.run({"x": np.array(unknown, dtype)})


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [5, -1, 2]}, {"classlabels_strings": ["a", "b", "c"]}])
def test_maps_are_exported(labels: dict[str, Any]) -> None:
    proto = zip_map(**labels)
    exported = export(import_onnx(proto.SerializeToString()))
    x = {"x": RNG.standard_normal((2, 3)).astype(np.float32)}
    sessions = [
        onnxruntime.InferenceSession(p.SerializeToString(), providers=["CPUExecutionProvider"])
        for p in (proto, exported)
    ]
    want, got = (_outputs(session, x) for session in sessions)
    for a, b in zip(got[0], want[0], strict=True):
        assert list(a) == list(b)
        np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-5)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("names", [True, False])
def test_calibrated_probabilities(classes: int, names: bool) -> None:
    """SVMClassifier with probabilities: libsvm's iteration, against ONNX Runtime."""
    rng = np.random.default_rng(classes)
    pairs, per_class = classes * (classes - 1) // 2, [3] * classes
    labels = {"classlabels_strings": [f"c{i}" for i in range(classes)]} if names else {}
    attributes: dict[str, Any] = {
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.0, 3.0],
        "support_vectors": rng.standard_normal(3 * classes * 4).tolist(),
        "coefficients": rng.standard_normal((classes - 1) * 3 * classes).tolist(),
        "rho": rng.standard_normal(pairs).tolist(),
        "prob_a": (-1 - rng.random(pairs)).tolist(),
        "prob_b": (rng.standard_normal(pairs) * 0.3).tolist(),
        "vectors_per_class": per_class,
        "post_transform": "NONE",
        **(labels or {"classlabels_ints": list(range(classes))}),
    }
    nodes = [node("SVMClassifier", "x", "label p", domain="ai.onnx.ml", **attributes)]
    outputs = [value("label", ["n"], STRING if names else INT64), value("p", ["n", classes])]
    proto = model(nodes, [value("x", ["n", 4])], outputs, domains=ML)
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    executable = load_onnx(proto.SerializeToString())
    for rows in (1, 7, 50):
        x = rng.standard_normal((rows, 4)).astype(np.float32)
        label, p = session.run(None, {"x": x})
        got = executable.run({"x": x})
        np.testing.assert_array_equal(got["label"], label)
        np.testing.assert_allclose(got["p"], p, rtol=1e-4, atol=2e-6)
        np.testing.assert_allclose(np.asarray(got["p"]).sum(1), 1, rtol=1e-5)


def test_the_command_shows_maps_as_a_table(tmp_path: Any) -> None:
    from click.testing import CliRunner

    from burn.cli.run import main

    path = tmp_path / "m.onnx"
    path.write_bytes(zip_map(classlabels_strings=["b", "a", "c"]).SerializeToString())
    done = CliRunner().invoke(
        main, [str(path), "--dim", "n=3", "--verify", "onnxruntime", "--save", str(tmp_path / "out.npz")]
    )
    assert done.exit_code == 0, done.output
    assert "same" in done.output and np.load(tmp_path / "out.npz")["y"].shape == (3, 3)
