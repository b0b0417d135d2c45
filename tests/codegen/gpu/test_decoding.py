"""A language model's step with kept keys and values, as benchmarks/rows/decoding.py times it: torch's scores, and every step
writes over what the last one kept."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch

from burn.runtime.device_array import DeviceArray, to_device
from tests.codegen.gpu.simulated_gpu import SimulatedGPU


@pytest.fixture
def decoding(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    return importlib.import_module("rows.decoding")


@pytest.mark.parametrize("rotary", [False, True], ids=["learned places", "rotary"])
def test_steps(gpu: SimulatedGPU, decoding: Any, rotary: bool) -> None:
    torch.manual_seed(0)
    shape = decoding.Shape(2, 32, 4, 2 if rotary else 4, 48, 301, 24, rotary)
    with torch.no_grad():
        model = decoding.Decoder(shape).eval()
        kept, steps = decoding.Kept(model), decoding.Steps(model, "cuda")
        addresses = [array.address for array in steps.kept]
        for i, token in enumerate((3, 300)):
            got = steps(to_device(np.array([token]), "cuda"), to_device(np.array([i]), "cuda"))
            want = kept(torch.tensor([token]), torch.tensor([i]))
            assert isinstance(got, DeviceArray)
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)
        assert [array.address for array in steps.kept] == addresses
        for array, tensor in zip(steps.kept, kept.buffers(), strict=True):
            np.testing.assert_allclose(array.numpy(), tensor.numpy(), rtol=1e-5, atol=1e-5)
