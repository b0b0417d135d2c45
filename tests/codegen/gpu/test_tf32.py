"""float32 multiplications on tensor cores: `precision="tf32"` and `"tf32x3"`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.compiler import backend_for, compile_program, listing
from burn.errors import CompileError, TypeMismatch
from burn.options import Options
from burn.tracing.trace import trace
from tests.codegen.gpu.simulated_gpu import SimulatedGPU

pytest.importorskip("triton")

X = np.random.default_rng(0).standard_normal((17, 40)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((40, 33)).astype(np.float32)


def matmul(x: burn.Tensor, w: burn.Tensor) -> burn.Tensor:
    return x @ w


def convolved(x: burn.Tensor, w: burn.Tensor) -> burn.Tensor:
    return nn.Conv2d(16, 32, 3)(x) + w.sum()


def attended(x: burn.Tensor, w: burn.Tensor) -> burn.Tensor:
    return burn.scaled_dot_product_attention(x, w, w)


PROGRAMS: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (matmul, ("float32[17, 40]", "float32[40, 33]")),
    (matmul, ("float32[m, k]", "float32[k, n]")),
    (convolved, ("float32[2, 16, 9, 9]", "float32[32, 16, 3, 3]")),
    (attended, ("float32[1, 2, 70, 32]", "float32[1, 2, 90, 32]")),
]


def printed(function: Callable[..., Any], types: tuple[str, ...], **options: Any) -> str:
    program = trace(function, dict(zip("xw", types, strict=True)))
    return listing(program, Options.of(device="cuda", architecture="sm_90", **options))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
@pytest.mark.parametrize(("function", "types"), PROGRAMS)
def test_kernels_say_how_they_multiply(function: Callable[..., Any], types: tuple[str, ...], precision: str) -> None:
    assert f'input_precision="{precision}"' in printed(function, types, precision=precision)
    assert 'input_precision="ieee"' in printed(function, types)


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_results(gpu: SimulatedGPU, precision: str) -> None:
    run = burn.compile(matmul, ("float32[17, 40]", "float32[40, 33]"), device="cuda", precision=precision, cache=False)
    np.testing.assert_allclose(run(X, W), X @ W, rtol=1e-5, atol=1e-5)


def test_machine_code_multiplies_on_tensor_cores(tmp_path: Path) -> None:
    counts = []
    for precision in ("fp32", "tf32", "tf32x3"):
        options = Options.of(device="cuda", architecture="sm_90", precision=precision, cache=False)
        artefact = compile_program(trace(matmul, {"x": "float32[256, 256]", "w": "float32[256, 256]"}), options)
        counts.append(sum(_multiplications(image.data, tmp_path / "kernel.cubin") for image in artefact.images))
    assert counts[0] == 0 and counts[1] > 0 and counts[2] == 3 * counts[1]


def _multiplications(code: Any, path: Path) -> int:
    """Instructions of tensor cores with TF32 operands."""
    from triton import knobs

    path.write_bytes(code)
    tool = knobs.nvidia.cuobjdump.path
    text = subprocess.run([tool, "-sass", path], check=True, capture_output=True, text=True).stdout
    return sum("MMA" in line and "TF32" in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": "cpu"}, "there is no precision tf32 for cpu.*NVIDIA"),
        ({"device": "hip", "architecture": "gfx942"}, "there is no precision tf32 for hip.*NVIDIA"),
        ({"device": "cuda", "architecture": "sm_75"}, "there is no precision tf32 for cuda.*sm_75.*sm_80"),
    ],
)
def test_refusals(options: dict[str, Any], text: str) -> None:
    with pytest.raises(CompileError, match=f"(?s){text}"):
        backend_for(Options.of(precision="tf32", **options))
    with pytest.raises(TypeMismatch, match="tf32x3"):
        Options.of(precision="tf23")


@pytest.mark.parametrize(
    ("setting", "architecture", "rounds"),
    [("highest", "sm_90", False), ("high", "sm_90", True), ("medium", "sm_80", True), ("high", "sm_75", False)],
)
def test_torch_s_setting(setting: str, architecture: str, rounds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from burn.adapters.torch import dynamo

    monkeypatch.setattr(dynamo, "as_burn", lambda device: SimpleNamespace(architecture=architecture))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(setting)
        assert dynamo.rounds_float32(torch.device("cuda")) == rounds
    finally:
        torch.set_float32_matmul_precision(before)
