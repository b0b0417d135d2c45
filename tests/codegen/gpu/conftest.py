"""`card`: a simulated one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.simulation import simulation


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """`device="cuda"` is the simulated one in a test that asks for this; kernels run in Triton's interpreter."""
    from burn.codegen.triton import backend, tuning
    from tests.codegen.gpu.cards import Card

    driver = simulation()
    made = Card(driver.reach)
    monkeypatch.setenv("BURN_CUDA_DRIVER", driver.path)
    monkeypatch.setattr(backend, "compile_all", made.compile_all)
    monkeypatch.setattr(tuning, "compile_each", made.compile_each)
    driver.on_launch(made.launch)
    yield made
    driver.check()
