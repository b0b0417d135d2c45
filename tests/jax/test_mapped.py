"""Random programs of JAX under burn.vmap: a few here; BURN_SWEEP=3000 draws more (mapped.py says how)."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import check, sweep
from tests.jax.mapped import run


@pytest.mark.parametrize("seed", [1, 7])
def test_mapped_program(seed: int) -> None:
    check(run, seed)


test_more = sweep(run, timeout=240.0, preload=("burn", "jax"))
