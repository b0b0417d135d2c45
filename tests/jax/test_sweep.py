"""Functions of JAX drawn at random: a few of each family here; BURN_SWEEP=3000 draws more (sweep.py says how)."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import check, sweep
from tests.jax.families import load
from tests.jax.sweep import run

COUNT = len(load())
CHOSEN = [*range(0, COUNT, 29), *(2 * COUNT + i for i in range(7, COUNT, 41))]
"""Seeds of every 29th function forward, and of every 41st one's gradient."""


@pytest.mark.parametrize("seed", CHOSEN)
def test_function(seed: int) -> None:
    check(run, seed)


test_more = sweep(run, timeout=240.0, preload=("burn", "jax"))
