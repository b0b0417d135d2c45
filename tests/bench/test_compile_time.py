"""benchmarks/compile_time.py runs: it calls the compiler stage by stage, and so breaks where a stage is renamed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from burn.codegen.cpu import printer
from burn.compiler import compile_program
from burn.importers.onnx import import_onnx

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compile_time.py"


@pytest.fixture(scope="module")
def compile_time() -> Any:
    spec = importlib.util.spec_from_file_location("compile_time", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", ["chain", "wide"])
def test_each_stage_is_timed(compile_time: Any, shape: str) -> None:
    row = compile_time.measure(shape, 12)
    assert row["nodes"] >= 10
    assert {"import", "simplify", "fuse", "code"} <= row.keys()
    assert row["total"] >= row["code"] > 0


def test_a_model_is_loaded_cold_and_warm(compile_time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_time, "WARM", 1)
    cold, warm = compile_time.starts("small")
    assert "cold" in cold and "warm" in warm


def test_equal_layers_share_their_kernels(compile_time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of 12 layers are those of 3: the first and the last differ from those between."""
    compiled: list[list[str]] = []
    compile_object = printer.compile_object

    def counted(functions: list[str], optimized: bool = True) -> bytes:
        compiled.append([f for f in functions if f.startswith("llvm.func internal @kernel") and "@kernel_of" not in f])
        return compile_object(functions, optimized)

    monkeypatch.setattr(printer, "compile_object", counted)
    kernels = []
    for layers in (3, 12):
        model = compile_time.encoder(layers, width=32, heads=2, words=11)
        compiled.clear()
        compile_program(import_onnx(model))
        kernels.append([re.sub(r"@kernel\d+", "@kernel", function) for function in compiled[-1]])
    few, many = kernels
    assert few and len(set(many)) == len(many)
    assert set(many) == set(few)
