"""Functions of JAX drawn at random: a few of each family here; BURN_SWEEP=3000 draws more (sweep.py says how)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.fuzz.runner import check, sweep
from tests.jax.accuracy import Reference, agreement
from tests.jax.case import Case, together
from tests.jax.faults import fault
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
"""The reason why schur is refused."""


@pytest.mark.parametrize(("order", "seed"), [(order, seed) for order in (1, 2) for seed in CHOSEN[order]])
def test_derivative(order: int, seed: int) -> None:
    check(lambda seed: one(seed, order), seed)


def test_what_the_judge_takes() -> None:
    """Of float64: 64 ulps, or those of float32 if JAX computes in it; nothing else unless a rule says why."""
    x = np.linspace(0.5, 2, 5)

    def takes(function: Any, error: float) -> bool:
        with jax.enable_x64(True):
            want = np.asarray(jax.jit(function)(x))
        return bool(np.all(agreement(want, want * (1 + error), 0, Reference(function, (x,), True), 1.0, True)))

    def through_float32(x: Any) -> Any:
        return jnp.exp(x.astype(jnp.float32)).astype(jnp.float64)

    assert takes(jnp.exp, 1e-14) and not takes(jnp.exp, 1e-12)
    assert takes(through_float32, 1e-6) and not takes(through_float32, 1e-4)

    root = Case("jnp.sqrt", jnp.sqrt, (np.array([complex(np.nan, np.inf)], np.complex64),))
    want, right = np.full(1, np.nan, np.complex64), np.zeros(1, bool)
    assert fault(root, want, np.array([complex(np.inf, np.inf)], np.complex64), right)
    assert not fault(root, want, np.array([1j], np.complex64), right)
    least = Case("jnp.min", jnp.min, (np.array([1j, np.nan, 2], np.complex64),))
    assert fault(least, want[0], np.complex64(1j), np.False_)
    assert not fault(replace(least, operands=(np.array([1j, 2], np.complex64),)), want[0], np.complex64(2), np.False_)


test_more = sweep(run, timeout=240.0, preload=("burn", "jax"))
