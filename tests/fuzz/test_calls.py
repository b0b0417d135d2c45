"""Programs compiled with drawn options and called in drawn forms. BURN_SWEEP=1000 adds so many new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from tests.fuzz.calls.case import Plan, attempt, case, same
from tests.fuzz.calls.operands import FORMS
from tests.fuzz.runner import check, sweep
from tests.fuzz.tensors.program import Line, Program


@pytest.mark.parametrize("seed", range(100, 104))
def test_calls_agree_with_numpy(seed: int) -> None:
    check(case, seed)


test_more_calls = sweep(case)


# ---- the harness itself ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5, 4, 3)])
def test_forms_keep_elements(form: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).standard_normal(shape)
    made: Any = FORMS[form](array)
    assert same(np.asarray(made), array)


def test_changed_operands_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(2).standard_normal((4, 6)).astype(np.float32)
    program = Program([array], [Line(("v0",), "m.op('+', x0, 1.0)")])
    plan = Plan("called", False, "", False, 1, "speed", "", False)
    assert attempt(program, ["v0"], plan, 3).kind == "ok"
    real = burn.Executable.__call__

    def spoiled(self: burn.Executable, *given: Any) -> Any:
        results = real(self, *given)
        if isinstance(given[0], np.ndarray) and given[0].flags.writeable:
            given[0][0, 0] = 5.0
        return results

    monkeypatch.setattr(burn.Executable, "__call__", spoiled)
    kinds = {attempt(program, ["v0"], plan, seed).kind for seed in range(8)}
    assert "aliases" in kinds
