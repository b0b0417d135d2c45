"""`gpu`: a simulated GPU; `processes`: Triton's compiler, with an empty cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.simulation import simulated_hip, simulation


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """`device="cuda"` is the simulated GPU in a test with this fixture; kernels run in Triton's interpreter."""
    from burn.codegen.triton import printer, tuning, workers
    from tests.codegen.gpu.simulated_gpu import SimulatedGPU

    driver = simulation()
    made = SimulatedGPU(driver.reach)
    monkeypatch.setenv("BURN_CUDA_DRIVER", driver.path)
    monkeypatch.setattr(printer, "compile_all", made.compile_all)
    monkeypatch.setattr(tuning, "compile_each", made.compile_each)
    monkeypatch.setattr(workers, "start", lambda count: None)
    driver.on_launch(made.launch)
    yield made
    driver.check()


@pytest.fixture
def amd(gpu: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """`device="hip"` is a simulated GPU of AMD's, with wavefronts of 64 threads."""
    driver = simulated_hip()
    monkeypatch.setenv("BURN_HIP_DRIVER", driver.path)
    monkeypatch.setattr(gpu, "reach", driver.reach)
    driver.on_launch(gpu.launch)  # type: ignore[attr-defined]
    yield gpu
    driver.check()


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled, and not taken from a cache."""
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path))
