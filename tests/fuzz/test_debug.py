"""Random programs that `burn.debug` watches. BURN_SWEEP=1000 adds so many new ones, in worker processes."""

from __future__ import annotations

import pytest

from tests.fuzz.debug.case import case
from tests.fuzz.runner import check, sweep


@pytest.mark.parametrize("seed", range(6))
def test_what_is_seen_is_what_is_computed(seed: int) -> None:
    check(case, seed)


test_more_programs = sweep(case)
