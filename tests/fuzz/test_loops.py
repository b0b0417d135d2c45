"""Random loops over all element types. BURN_SWEEP=1000 adds so many new ones."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from tests.fuzz.loops.case import attempt, case
from tests.fuzz.loops.draw import Loop, drawn
from tests.fuzz.runner import check, sweep


@pytest.mark.parametrize("seed", range(100, 104))
def test_loops_agree_with_numpy(seed: int) -> None:
    check(case, seed)


test_more_loops = sweep(case)


# ---- the harness itself ------------------------------------------------------------------------------------------------
def test_a_seed_is_a_loop() -> None:
    assert drawn(7) == drawn(7)


def test_a_wrong_iteration_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(
        "lambda m, c, k, xs, n: m.fori(0, n, lambda i, c: (c[1], c[0]), c)", "fori", ("int8",) * 2, (3,), 3, False
    )
    assert attempt(loop, "compile", 1).kind == "ok"
    real = burn.fori_loop
    monkeypatch.setattr(burn, "fori_loop", lambda start, stop, body, init: real(start + 1, stop, body, init))
    assert attempt(loop, "compile", 1).kind == "different"


def test_a_changed_input_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop("lambda m, c, k, xs, n: (c[0],)", "fori", ("int8",), (3,), 3, False)
    assert attempt(loop, "recorded", 1).kind == "ok"
    monkeypatch.setattr("tests.fuzz.loops.case.prepared", lambda loop, way, inputs: lambda given: [given[0]])
    assert attempt(loop, "recorded", 1).kind == "aliases"
    first, second = loop.inputs(1)[:2]
    assert not np.shares_memory(first, second)
