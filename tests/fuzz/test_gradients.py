"""Derivatives of random programs in every test run: a few that are always the same.

BURN_SWEEP=3000 adds so many in worker processes, from BURN_SWEEP_SEED on (a new one by default)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from burn.dialect import ops
from burn.dialect.adjoint import rules as table
from burn.dialect.compose import plus
from tests.fuzz.gradients import cut
from tests.fuzz.gradients.case import Plan, attempt, by_xla, case, planned
from tests.fuzz.gradients.program import Line, Program
from tests.fuzz.runner import Outcome, check, sweep

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", [2, 5])
def test_derivatives_agree_with_torch(seed: int) -> None:
    check(case, seed)


def test_derivatives_agree_with_torch_by_xla() -> None:
    check(by_xla, 2)


test_more_programs = sweep(case, 300, ("torch", "burn"))
test_more_programs_by_xla = sweep(by_xla, 300, ("torch", "burn"))


# ---- the harness itself ------------------------------------------------------------------------------------------------
def test_a_seed_is_a_program() -> None:
    assert str(planned(11)) == str(planned(11))


def _same(name: str, text: str) -> Line:
    return Line((name,), text, text)


def test_a_wrong_rule_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    plan = Plan(Program("float32", {"x0": x}, [_same("v0", "x0.sin() * x0")]), ("v0",), ("x0",), "first", "jit")
    assert attempt(plan).kind == "ok"
    table.rules()
    wrong = lambda g, y, x: ops.mul(ops.mul(g, ops.cos(x)), plus(ops.mul(x, x), 1.0))  # noqa: E731
    monkeypatch.setitem(table._rules, "sin", wrong)
    assert attempt(plan).kind == "different"


def test_differences_do_not_judge_a_derivative_of_its_own() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3))
    own = "m.own(lambda a: a * a, lambda r, g: (g,), v0)"
    lines = [Line(("v0",), "ops.dft(x0)[0]", None), Line(("v1",), own, own)]
    plan = Plan(Program("float64", {"x0": x}, lines), ("v1",), ("x0",), "first", "jit")
    assert attempt(plan).kind == "skipped"


def test_second_derivatives_of_cross_entropy_are_the_exact_ones() -> None:
    """torch's own divides by denominators to which it adds 1e-12."""
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal((5, 1)) * 2 for _ in range(2))
    ours, theirs = "nn.BCELoss(reduction='sum')", "t.binary_cross_entropy"
    line = Line(("v0",), f"{ours}(x0.sigmoid(), x1.sigmoid())", f"{theirs}(x0.sigmoid(), x1.sigmoid(), 'sum')")
    assert attempt(Plan(Program("float64", {"x0": x, "x1": y}, [line]), ("v0",), ("x0",), "second", "jit")).kind == "ok"


def test_a_failing_program_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here whatever has a sine fails."""

    def judged(plan: Plan) -> Outcome:
        text = str(plan)
        return Outcome("different", text) if ".sin()" in text else Outcome("ok")

    monkeypatch.setattr(cut, "attempt", judged)
    x = np.ones((2, 3))
    lines = [_same("v0", "x0.exp()"), _same("v1", "v0.sin()"), _same("v2", "v1 * x1 + v0")]
    plan = Plan(Program("float64", {"x0": x, "x1": x[:1]}, lines), ("v1", "v2"), ("x0", "x1"), "second", "named")
    detail = cut.cut_down(plan, judged(plan)).detail
    assert detail.startswith("# first by x1, jit") and detail.endswith("    v1 = x1.sin()\n    return [v1]\n"), detail


def test_a_wrong_rule_is_seen_where_torch_has_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).standard_normal(4)
    plan = Plan(Program("float64", {"x0": x}, [Line(("v0",), "x0.sin()", None)]), ("v0",), ("x0",), "second", "jit")
    assert attempt(plan).kind == "ok"
    table.rules()
    monkeypatch.setitem(table._rules, "cos", lambda g, y, x: ops.mul(g, ops.sin(x)))
    assert "second derivative" in attempt(plan).detail
