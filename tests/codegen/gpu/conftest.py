"""`gpu`: a simulated GPU; `processes`: Triton's compiler in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.simulation import simulation


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """`device="cuda"` is the simulated GPU in a test with this fixture; kernels run in Triton's interpreter."""
    from burn.codegen.triton import printer, tuning
    from tests.codegen.gpu.simulated_gpu import SimulatedGPU

    driver = simulation()
    made = SimulatedGPU(driver.reach)
    monkeypatch.setenv("BURN_CUDA_DRIVER", driver.path)
    monkeypatch.setattr(printer, "compile_all", made.compile_all)
    monkeypatch.setattr(tuning, "compile_each", made.compile_each)
    driver.on_launch(made.launch)
    yield made
    driver.check()


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's compiler does not work any more in a process that has interpreted kernels."""
    from burn.codegen.triton import images

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(images, "ALONE", 0)
