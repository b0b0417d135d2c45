"""benchmarks/int8.py: networks get scores that are decided, files of both quantisers run in both engines, figures are kept."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from tests.quantization.models import residual_network

pytest.importorskip("onnxruntime")


@pytest.fixture
def int8(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("int8")


@pytest.fixture
def decided(int8: ModuleType) -> ModuleType:
    return importlib.import_module("rows.decided")


def pictures(decided: ModuleType, folder: Path) -> Any:
    """A small residual network over pictures of 4 classes."""
    path = folder / "network.onnx"
    onnx.save(residual_network(), path)
    draw = decided.images("x", size=20, coarse=5)
    return decided.Decided(lambda: path, "flat", False, draw, classes=4, examples=6)


def texts(decided: ModuleType, folder: Path) -> Any:
    """Embeddings and a layer over sentences of 3 classes."""
    rng = np.random.default_rng(0)
    names = ("input_ids", "attention_mask", "token_type_ids")
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["embedded"]),
        helper.make_node("MatMul", ["embedded", "weight"], ["inner"], "layer"),
        helper.make_node("Tanh", ["inner"], ["hidden"]),
    ]
    constants = {"words": rng.normal(0, 1, (70, 16)), "weight": rng.normal(0, 0.3, (16, 24))}
    graph = helper.make_graph(
        nodes,
        "texts",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ("batch", "seq")) for name in names],
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ("batch", "seq", 24))],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()],
    )
    path = folder / "texts.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    draw = decided.sentences(words=70, length=13, own=5, share=0.7)
    return decided.Decided(lambda: path, "hidden", True, draw, classes=3, examples=8)


def test_norms_get_the_statistics_of_the_inputs(decided: ModuleType, tmp_path: Path) -> None:
    it = pictures(decided, tmp_path)
    model = decided.modern(onnx.load(it.network()))
    samples = [sample for sample, _ in it.inputs(0, 8)]
    decided.calibrate(model, samples)
    norm = [node for node in model.graph.node if node.op_type == "BatchNormalization"][-1]
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name=norm.output[0]))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8
    made = np.asarray(burn.load(model, cache=False)(np.concatenate([sample["x"] for sample in samples])))
    np.testing.assert_allclose(made.mean((0, 2, 3)), known[norm.input[2]], atol=1e-4)
    np.testing.assert_allclose(made.std((0, 2, 3)), known[norm.input[1]], rtol=1e-3)


@pytest.mark.parametrize("kind", [pictures, texts])
def test_scores_are_decided(decided: ModuleType, tmp_path: Path, kind: Callable[[ModuleType, Path], Any]) -> None:
    it = kind(decided, tmp_path)
    model = decided.make(it)
    onnx.checker.check_model(model)
    run = burn.load(model, cache=False).run
    right = [run(sample)["scores"].argmax() == label for sample, label in it.inputs(3, 40)]
    assert np.mean(right) > 0.8
    again = decided.make(it)
    assert again.SerializeToString() == model.SerializeToString()


@pytest.mark.slow  # quantises two networks in every way, and compares both engines on each
def test_a_part_is_added_to_the_figures(
    int8: ModuleType, decided: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        int8, "DECIDED", {"resnet50": pictures(decided, tmp_path), "bert_base": texts(decided, tmp_path)}
    )
    monkeypatch.setattr(int8, "CALIBRATED", 4)
    monkeypatch.setattr(int8, "bind", lambda threads: threads)  # this process runs other tests
    files, figures, page = tmp_path / "files", tmp_path / "figures.json", tmp_path / "int8.md"

    def run(rest: str) -> None:
        monkeypatch.setattr(sys, "argv", f"int8.py --files {files} --figures {figures} --target generic {rest}".split())
        int8.main()

    run("--threads 0 --samples 20")
    times, accuracies = int8.read(figures)
    assert not times
    assert [(a.model, a.maker) for a in accuracies] == [(m, k) for m, makers in int8.MAKERS.items() for k in makers]
    for found in accuracies:
        assert found.samples == 20 and found.right["float"] > 0.7
        assert all(found.same[e] >= 0.8 and found.noise[e] > 3 for e in int8.ENGINES), found
    kinds = {path.name: {n.op_type for n in onnx.load(path).graph.node} for path in files.iterdir()}
    assert "QLinearConv" in kinds["resnet50.onnxruntime-QOperator-uint8.onnx"]
    assert "DynamicQuantizeLinear" in kinds["bert_base.onnxruntime-dynamic.onnx"]

    run("--threads 1 --samples 0 --models bert_base --makers dynamic --runs 2")
    times, kept = int8.read(figures)
    assert kept == accuracies and {time.maker for time in times} == {"burn dynamic", "onnxruntime dynamic"}
    assert all(t.burn > 0 and t.theirs > 0 and t.floats > 0 and t.ratio > 0 for t in times)
    run(f"--write {page}")
    text = page.read_text()
    assert "## generic, 1 thread\n" in text and text.count("| bert_base") == 2
    run(f"--write {page}")
    assert page.read_text() == text


def test_tables(int8: ModuleType) -> None:
    one = int8.Time("resnet50", "burn static", "amx", 2, "1", 0.01, 0.02, 0.5, 0.03, False, "2026-01-02", "A (amx)")
    other = replace(one, maker="onnxruntime QDQ int8", disturbed=True, day="2026-01-04")
    same = {"burn": 0.998, "onnxruntime": 0.99}
    right = {"burn": 0.9, "onnxruntime": 0.91, "float": 0.92}
    found = int8.Accuracy("resnet50", "burn static", "amx", 500, same, right, {"burn": 20.04, "onnxruntime": 19.0})
    page = int8.document([other, one, replace(one, threads=1)], [found])
    wide, narrow = page.split("## ")[1:]
    assert wide.startswith("amx, 2 threads\n") and narrow.startswith("amx, 1 thread\n")
    row = "| resnet50 | burn static | 10.00 ms | 20.00 ms | 0.50 | 30.00 ms | 99.8% | 90.0% | 20.0 dB | 99.0% | 91.0% | 19.0 dB |"
    assert row in wide and wide.index("| burn static") < wide.index("| resnet50* | onnxruntime QDQ int8 |")
    assert "A (amx); 2026-01-02 to 2026-01-04; onnxruntime 1; right are 92.0% of 500 in float32 (resnet50)." in wide
    assert "took part of the machine" in wide and "took part of the machine" not in narrow
    assert int8.document([], [], page) == page
