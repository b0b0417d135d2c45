"""benchmarks/compile_time.py runs: it calls the compiler stage by stage, and so breaks where a stage is renamed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compile_time.py"


@pytest.mark.parametrize("shape", ["chain", "wide"])
def test_each_stage_is_timed(shape: str) -> None:
    spec = importlib.util.spec_from_file_location("compile_time", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    row = module.measure(shape, 12)
    assert row["nodes"] >= 10
    assert {"import", "simplify", "fuse", "code"} <= row.keys()
    assert row["total"] >= row["code"] > 0
