"""Drawn ops against XLA. `BURN_SWEEP=n` draws n cases instead of a few, `BURN_SWEEP_SEED` other ones."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("jax")
from tests.importers.stablehlo.cases import FAMILIES
from tests.importers.stablehlo.sweep import draw, run, together

COUNT = int(os.environ.get("BURN_SWEEP", "12"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))


def test_drawn_ops_give_the_numbers_of_xla() -> None:
    step = max(1, len(FAMILIES) // COUNT)
    families = list(FAMILIES)[::step] if len(FAMILIES) > COUNT else ()
    found = draw(SEED, COUNT, families)
    wrong = [
        f"{found[numbers[index]].op}: {text}"
        for numbers in together(found)
        for index, text in run([found[i] for i in numbers]).items()
    ]
    assert not wrong, "\n".join(wrong)
