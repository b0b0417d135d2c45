"""Random programs of views, in-place writes and graph breaks in every test run.

BURN_SWEEP=3000 adds so many in worker processes, from BURN_SWEEP_SEED on (a new one by default)."""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("torch")

from tests.fuzz.runner import outcomes
from tests.fuzz.torch_aliases.case import case
from tests.fuzz.torch_aliases.program import drawn

SEED = int(os.environ.get("BURN_SWEEP_SEED") or random.SystemRandom().randrange(1 << 40))
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_memory_is_as_in_torch(seed: int) -> None:
    outcome = case(seed)
    assert not outcome.failed, f"seed {seed}: {outcome.kind}\n{outcome.detail}"


@pytest.mark.skipif("BURN_SWEEP" not in os.environ, reason="BURN_SWEEP says how many")
def test_more_programs() -> None:
    seeds = range(SEED, SEED + int(os.environ["BURN_SWEEP"]))
    failed = {s: o for s, o in outcomes(case, seeds, os.cpu_count() or 1, 300, ("torch", "burn")) if o.failed}
    assert not failed, "\n".join(f"--- seed {seed}: {o.kind}\n{o.detail}" for seed, o in sorted(failed.items()))


def test_a_seed_is_a_program() -> None:
    assert drawn(7).text == drawn(7).text
