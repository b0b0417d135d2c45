"""Random torch modules in every test run.

BURN_FUZZ_MODULES=500 adds so many new ones, in worker processes."""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("torch")

from tests.fuzz.runner import outcomes
from tests.fuzz.torch.case import case
from tests.fuzz.torch.program import drawn

FRESH = random.SystemRandom().randrange(1 << 40)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", [2, 4, 6])
def test_modules_agree_with_torch(seed: int) -> None:
    outcome = case(seed)
    assert not outcome.failed, f"seed {seed}: {outcome.kind}\n{outcome.detail}"


@pytest.mark.skipif("BURN_FUZZ_MODULES" not in os.environ, reason="BURN_FUZZ_MODULES says how many")
def test_more_modules() -> None:
    seeds = range(FRESH, FRESH + int(os.environ["BURN_FUZZ_MODULES"]))
    found = outcomes(case, seeds, os.cpu_count() or 1, 300, ("torch", "burn"))
    failed = {seed: o for seed, o in found if o.failed}
    assert not failed, "\n".join(f"--- seed {seed}: {o.kind}\n{o.detail}" for seed, o in sorted(failed.items()))


def test_a_seed_is_a_module() -> None:
    assert drawn(7).text == drawn(7).text
