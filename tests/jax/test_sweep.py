"""Functions of JAX drawn at random: a few of each family here; BURN_SWEEP=3000 draws more (sweep.py says how)."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import check, sweep
from tests.jax.case import together
from tests.jax.sweep import drawn, names, one, run

COUNT = len(names())
CHOSEN = {order: range(first, COUNT, step) for order, first, step in ((0, 3, 47), (1, 5, 181), (2, 11, 421))}
"""Order of the derivative -> seeds: every 47th function forward, and so on."""
TOGETHER = 20


@pytest.mark.parametrize("start", range(0, len(CHOSEN[0]), TOGETHER))
@pytest.mark.parametrize("x64", [False, True])
def test_functions(start: int, x64: bool) -> None:
    cases = [case for seed in CHOSEN[0][start : start + TOGETHER] if (case := drawn(seed)) and case.x64 is x64]
    results = together(cases)
    failed = [
        f"{case!r}: {r.kind}: {r.detail}"
        for case, r in zip(cases, results, strict=True)
        if r.kind in FAILURES and not (r.kind == "refused" and ABSENT in r.detail)
    ]
    assert not failed, "\n".join(failed)


FAILURES = ("wrong", "error", "refused")
ABSENT = "burn.linalg does not have this decomposition"
"""The reason why eig and schur are refused."""


@pytest.mark.parametrize(("order", "seed"), [(order, seed) for order in (1, 2) for seed in CHOSEN[order]])
def test_derivative(order: int, seed: int) -> None:
    check(lambda seed: one(seed, order), seed)


test_more = sweep(run, timeout=240.0, preload=("burn", "jax"))
