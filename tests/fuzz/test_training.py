"""Random trainings beside PyTorch in float64: two in every test run.

BURN_SWEEP=150 adds so many new ones (20 steps each) from BURN_SWEEP_SEED on, in worker processes."""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("torch")

from tests.fuzz.runner import outcomes
from tests.fuzz.training.cases import case

FRESH = int(os.environ.get("BURN_SWEEP_SEED", str(random.SystemRandom().randrange(1 << 40))))


@pytest.mark.parametrize("seed", [1])
def test_trainings_follow_torch(seed: int) -> None:
    outcome = case(seed)
    assert not outcome.failed, f"seed {seed}: {outcome.kind}\n{outcome.detail}"


@pytest.mark.skipif("BURN_SWEEP" not in os.environ, reason="BURN_SWEEP says how many")
def test_more_trainings() -> None:
    seeds = range(FRESH, FRESH + int(os.environ["BURN_SWEEP"]))
    found = outcomes(case, seeds, os.cpu_count() or 1, 600, ("torch", "burn"))
    failed = {seed: o for seed, o in found if o.failed}
    assert not failed, "\n".join(f"--- seed {seed}: {o.kind}\n{o.detail}" for seed, o in sorted(failed.items()))
