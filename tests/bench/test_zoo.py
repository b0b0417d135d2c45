"""benchmarks/cpu_zoo.py prepares, times and tabulates a model that it has drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cpu_zoo.py"


def zoo(*arguments: object) -> str:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=500).stdout


@pytest.mark.slow
def test_a_model_becomes_a_row(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    names, rows, page = tmp_path / "names.json", tmp_path / "rows.jsonl", tmp_path / "page.md"
    sizes = {"width": 8, "taps": 2, "layers": 2, "steps": 20}
    entries = [{"list": "temporal", "name": "small", **sizes}, {"list": "timm", "name": "no_such_model"}]
    names.write_text(json.dumps(entries))
    peers = ("--peer", "burn", "--peer", "onnxruntime")
    zoo("run", "--models", names, "--results", rows, "--threads", 1, "--jobs", 1, *peers)
    good, bad = map(json.loads, rows.read_text().splitlines())
    assert set(good["seconds"]) == {"burn", "onnxruntime"} and good["differs"] < 1e-5 and good["kernels"]
    assert "error" in bad
    zoo("write", "--results", rows, "--output", page)
    assert "1 models" in page.read_text() and "temporal small" in page.read_text()
    assert "- timm no_such_model" in page.read_text()
