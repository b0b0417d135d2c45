"""Random trainings beside PyTorch in float64: two in every test run.

BURN_SWEEP=150 adds so many new ones (20 steps each) from BURN_SWEEP_SEED on, in worker processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.fuzz.runner import check, sweep
from tests.fuzz.training.cases import case


@pytest.mark.parametrize("seed", [1])
def test_trainings_follow_torch(seed: int) -> None:
    check(case, seed)


test_more_trainings = sweep(case, 600, ("torch", "burn"))
