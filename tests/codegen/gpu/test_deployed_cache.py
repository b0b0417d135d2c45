"""An imported cache has all that programs of GPUs need: a new container compiles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("triton")

from onnx import TensorProto, helper  # noqa: E402

from tests.runtime.simulation import another_driver  # noqa: E402

ROOT = Path(__file__).parents[3]
OWN = ("model_file", "compiled_function", "jitted_function", "lazy_tensors", "training_step")
TORCH = ("torch_inference", "torch_training")


def model(path: Path) -> Path:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "one op", [x], [y])), path)
    return path


def with_cache(folder: Path) -> dict[str, str]:
    return {**os.environ, "BURN_CACHE_DIR": str(folder), "BURN_CACHE_SIZE": "1GB"}


def cases(names: Sequence[str], cache: Path, environment: dict[str, str], seed: str) -> list[dict[str, Any]]:
    """The lines that cases of deployed_programs.py print in a process of their own."""
    command = [sys.executable, "-m", "tests.codegen.gpu.deployed_programs", *names]
    done = subprocess.run(
        command,
        env={**with_cache(cache), **environment, "PYTHONHASHSEED": seed},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def burn_cache(cache: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "burn.cli.main", "cache", *words],
        env=with_cache(cache),
        cwd=ROOT,
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("names", [OWN, pytest.param(TORCH, marks=pytest.mark.slow)], ids=["burn", "torch"])
def test_a_container_with_an_imported_cache_compiles_nothing(tmp_path: Path, names: Sequence[str]) -> None:
    environment = {"BURN_CUDA_DRIVER": another_driver(tmp_path), "MODEL": str(model(tmp_path / "op.onnx"))}
    built = cases(names, tmp_path / "built", environment, "1")
    assert [each["case"] for each in built] == list(names)
    assert all(each["programs"] and each["kernels"] for each in built)
    burn_cache(tmp_path / "built", "export", str(tmp_path / "file"))
    burn_cache(tmp_path / "deployed", "import", str(tmp_path / "file"))
    deployed = cases(names, tmp_path / "deployed", environment, "2")
    assert [each["case"] for each in deployed] == list(names)
    for each in deployed:
        assert (each["programs"], each["kernels"]) == (0, 0), each
        assert "burn.compiler" not in each["imported"], each
        assert "triton" not in each["imported"] or "torch" in each["imported"], each
    if names is OWN:
        assert deployed[0]["imported"] == []
