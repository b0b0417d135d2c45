"""float32 multiplications on tensor cores: `precision="tf32"` and `"tf32x3"`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
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


def printed(function: Callable[..., Any], types: tuple[str, ...], architecture: str = "sm_90", **options: Any) -> str:
    program = trace(function, dict(zip("xw", types, strict=True)))
    return listing(program, Options.of(device="cuda", architecture=architecture, **options))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
@pytest.mark.parametrize(("function", "types"), PROGRAMS)
def test_kernels_say_how_they_multiply(function: Callable[..., Any], types: tuple[str, ...], precision: str) -> None:
    assert f'input_precision="{precision}"' in printed(function, types, precision=precision)
    assert (precision == "tf32") == ("rounded_tf32(" in printed(function, types, precision=precision))


@pytest.mark.parametrize(("function", "types"), PROGRAMS)
def test_float32_is_split_unless_exact(function: Callable[..., Any], types: tuple[str, ...]) -> None:
    assert 'input_precision="tf32x3"' in printed(function, types)
    assert 'input_precision="ieee"' in printed(function, types, exact=True)
    assert 'input_precision="ieee"' in printed(function, types, architecture="sm_75")


def rounded(x: np.ndarray) -> np.ndarray:
    """To 11 significant bits, half away from zero."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    scaled = mantissa * 2**11
    return np.ldexp(np.trunc(scaled + np.copysign(0.5, scaled)), exponent - 11)


def compiled(precision: str) -> Any:
    return burn.compile(matmul, ("float32[17, 40]", "float32[40, 33]"), device="cuda", precision=precision, cache=False)


def test_results(gpu: SimulatedGPU) -> None:
    np.testing.assert_allclose(compiled("tf32x3")(X, W), X @ W, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(compiled("tf32")(X, W), rounded(X) @ rounded(W), rtol=1e-5, atol=1e-5)


def test_rounding_keeps_special_values(gpu: SimulatedGPU) -> None:
    """NaN of any payload stays NaN: adding half a unit to its bits would carry into the sign."""
    x, w = np.zeros_like(X), np.ones_like(W)
    special = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000, 0x00000001, 0x3F801000], np.uint32)
    x[: len(special), 3] = special.view(np.float32)
    want = [np.nan, np.nan, np.nan, np.inf, -np.inf, 0, 1 + 2.0**-10]
    np.testing.assert_array_equal(compiled("tf32")(x, w)[: len(special), 0], np.array(want, np.float32))


def test_machine_code_multiplies_on_tensor_cores(tmp_path: Path) -> None:
    counts = []
    of = partial(Options.of, device="cuda", architecture="sm_90", cache=False)
    for options in (of(exact=True), of(precision="tf32"), of()):
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

    monkeypatch.setattr(dynamo, "as_burn", lambda device: SimpleNamespace(kind="cuda", architecture=architecture))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(setting)
        assert dynamo.rounds_float32(torch.device("cuda")) == rounds
    finally:
        torch.set_float32_matmul_precision(before)
