"""Random programs over jax.numpy and jax.lax: a few here; BURN_SWEEP=3000 draws more (programs.py says how)."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import check, sweep
from tests.jax.programs import run


@pytest.mark.parametrize("seed", [0, 4, 5, 10])
def test_program(seed: int) -> None:
    check(run, seed)


test_more = sweep(run, timeout=240.0, preload=("burn", "jax"))
