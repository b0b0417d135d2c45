"""Random programs on simulated devices. BURN_SWEEP=1000 adds so many new ones, in worker processes."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import check, sweep
from tests.fuzz.sharding.case import case

SEEDS = (*range(6), 103, 194, 198, 883, 897, 1436)
"""The last six had a collective that one device alone erased, or merged with another."""


@pytest.mark.parametrize("seed", SEEDS)
def test_devices_compute_what_the_program_does(seed: int) -> None:
    check(case, seed)


test_more_programs = sweep(case)
