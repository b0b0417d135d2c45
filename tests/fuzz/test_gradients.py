"""Derivatives of random programs in every test run: a few that are always the same.

BURN_SWEEP=3000 adds so many in worker processes, from BURN_SWEEP_SEED on (a new one by default)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from burn.dialect import ops
from burn.dialect.adjoint import rules as table
from tests.fuzz.gradients.case import Plan, attempt, case, planned
from tests.fuzz.gradients.cut import cut_down
from tests.fuzz.gradients.program import Line, Program
from tests.fuzz.runner import check, sweep

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", [2, 5])
def test_derivatives_agree_with_torch(seed: int) -> None:
    check(case, seed)


test_more_programs = sweep(case, 300, ("torch", "burn"))


# ---- the harness itself ------------------------------------------------------------------------------------------------
def test_a_seed_is_a_program() -> None:
    assert str(planned(11)) == str(planned(11))


def _same(name: str, text: str) -> Line:
    return Line((name,), text, text)


def test_a_wrong_rule_is_seen_and_the_program_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    lines = [_same("v0", "x0.exp()"), _same("v1", "v0.sin()"), _same("v2", "v1 * x1 + v0")]
    plan = Plan(Program("float32", {"x0": x, "x1": x[:1]}, lines), ("v2",), ("x0", "x1"), "first", "jit")
    assert attempt(plan).kind == "ok"
    table.rules()
    monkeypatch.setitem(
        table._rules, "sin", lambda g, y, x: ops.mul(g, ops.mul(ops.cos(x), table.plus(ops.mul(x, x), 1.0)))
    )
    found = attempt(plan)
    assert found.kind == "different", found.detail
    assert "    v1 = x1.sin()\n    return [v1]" in cut_down(plan, found).detail


def test_a_wrong_rule_is_seen_where_torch_has_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).standard_normal(4)
    plan = Plan(Program("float64", {"x0": x}, [Line(("v0",), "x0.sin()", None)]), ("v0",), ("x0",), "second", "jit")
    assert attempt(plan).kind == "ok"
    table.rules()
    monkeypatch.setitem(table._rules, "cos", lambda g, y, x: ops.mul(g, ops.sin(x)))
    assert "second derivative" in attempt(plan).detail
