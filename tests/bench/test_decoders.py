"""benchmarks/rows/decoders.py: the models that are timed are decoders, which burn and ONNX Runtime run alike."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest

import burn


@pytest.fixture
def decoders(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("rows.decoders")


@pytest.mark.parametrize(("rotary", "block"), [(False, 0), (False, 32), (True, 32)])
def test_a_step_and_a_text(decoders: ModuleType, tmp_path: Path, rotary: bool, block: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    shape = decoders.Shape(2, 64, 4, 2 if rotary else 4, 96, 70, 32, rotary, block)
    path = tmp_path / "decoder.onnx"
    decoders.write(shape, path)
    onnx.checker.check_model(path)
    model, given = burn.load(path, cache=False), decoders.feeds(shape, 5)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    ours, theirs = model.run(given), dict(zip(names, session.run(names, given), strict=True))
    assert ours.keys() == theirs.keys() and ours["present.1.key"].shape == (1, shape.shared, 6, 16)
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, atol=2e-5 * np.abs(array).max())
    assert burn.generate(model, np.array([[3]]), 4).shape == (1, 5)


def test_what_a_step_reads(decoders: ModuleType) -> None:
    """The weights of the matmuls in a whole file: all but embeddings and vectors."""
    whole = decoders.DECODERS["gpt2-small"]
    assert whole.weight_bytes == 4 * (12 * 12 * 768**2 + 50257 * 768)
    blocks = decoders.DECODERS["gpt2-small-int4"]
    assert blocks.weight_bytes == whole.weight_bytes / 4 * 5 / 8
