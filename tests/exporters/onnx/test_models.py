"""Real models: imported, exported and run in ONNX Runtime they give what their own files give, and so they do in burn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.adapters.onnx import load_onnx
from burn.cli.verify import compare
from burn.exporters.onnx import write
from burn.loading import read_program
from tests.exporters.onnx.sweep import ort_session
from tests.models import MODELS, Unavailable, model_path, random_inputs

SMALL = ("mnist", "magika", "ultraface", "silero_vad")
LARGE = ("gpt2_tiny", "lstm", "mobilenet", "unet", "vit_tiny", "minilm", "seeded_resnet50", "seeded_inception_v2")
TOLERANCE = 1e-5  # relative to the largest value


def _small() -> list[Any]:
    """The largest in the opset that is written by default alone; the others are quick."""
    marked = {("ultraface", 18): pytest.mark.slow}
    return [pytest.param(n, o, marks=marked.get((n, o), ())) for n in SMALL for o in (18, 21)]


@pytest.mark.parametrize(("name", "opset"), _small())
def test_small(name: str, opset: int, tmp_path: Path) -> None:
    _round_trip(name, opset, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize("name", LARGE)
def test_large(name: str, opset: int, tmp_path: Path) -> None:
    _round_trip(name, opset, tmp_path)


def _round_trip(name: str, opset: int, folder: Path) -> None:
    import onnx

    try:
        original = Path(model_path(name))
    except Unavailable as reason:
        pytest.skip(str(reason))
    path = folder / "model.onnx"
    write(read_program(original), path, opset)
    feeds = random_inputs(MODELS[name], seed=opset)
    session = ort_session(onnx.load(original))
    names = [o.name for o in session.get_outputs()]
    expected = dict(zip(names, session.run(names, feeds), strict=True))
    peer = ort_session(onnx.load(path))
    for results in (dict(zip(names, peer.run(names, feeds), strict=True)), load_onnx(path).run(feeds)):
        rows = [compare(n, np.asarray(results[n]), np.asarray(expected[n]), TOLERANCE) for n in names]
        assert all(row["same"] for row in rows), rows
