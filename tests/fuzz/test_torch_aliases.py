"""Random programs of views, in-place writes and graph breaks in every test run.

BURN_SWEEP=3000 adds so many in worker processes, from BURN_SWEEP_SEED on (a new one by default)."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.fuzz.runner import check, sweep
from tests.fuzz.torch_aliases.case import case
from tests.fuzz.torch_aliases.program import drawn

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_memory_is_as_in_torch(seed: int) -> None:
    check(case, seed)


test_more_programs = sweep(case, 300, ("torch", "burn"))


def test_a_seed_is_a_program() -> None:
    assert drawn(7).text == drawn(7).text
