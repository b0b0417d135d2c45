"""Kernels that read memory with a stride are found, and training steps have none."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from burn.codegen.triton import loops, workers
from burn.codegen.triton.blocks import Layout
from burn.kernels.body import LoopKernel
from tests.accesses.__main__ import strided_kernels
from tests.accesses.layers import layers
from tests.runtime.simulation import simulation


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_CUDA_DRIVER", simulation().path)
    monkeypatch.setattr(workers, "start", lambda count: None)


@pytest.mark.parametrize("name", ["layer scale", "scale of heads"])
def test_none(name: str) -> None:
    assert not strided_kernels(layers()[name])


def test_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(kernel: LoopKernel) -> Layout:
        return Layout(tuple(range(len(kernel.parallel))))

    monkeypatch.setattr(loops, "layout", flat)
    assert strided_kernels(layers()["layer scale"])
