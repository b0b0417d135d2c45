"""Runs of a program while autotuning times it: they have no effects outside, keep to limits, and end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.codegen.tuning import clock
from burn.codegen.tuning.modes import mode_of
from burn.compiler import compile_program
from burn.dialect.program import Program
from burn.dialect.text import parse_text
from burn.errors import BudgetExceeded, CompileError, RunError
from burn.options import Options
from tests.codegen.test_autotuning_forms import close, random

pytestmark = pytest.mark.untuned

W = random(40, 33)
TYPES = ["float32[20, 40]"]


@pytest.fixture(autouse=True)
def short(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known from earlier searches, and each program runs once or twice."""
    monkeypatch.setattr(clock, "RUNS", 1)
    monkeypatch.setattr(clock, "LONG", 0.0)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of programs of each measurement."""
    counts: list[int] = []
    seconds = clock.seconds

    def counted(program: Any, artefacts: Any, device: Any) -> Any:
        counts.append(len(artefacts))
        return seconds(program, artefacts, device)

    monkeypatch.setattr(clock, "seconds", counted)
    return counts


def test_prints_and_callbacks_do_not_run(timed: list[int], capfd: pytest.CaptureFixture[str]) -> None:
    calls: list[float] = []

    def function(x: Any) -> Any:
        y = x @ burn.constant(W)
        burn.debug.print("the sum {}", y.sum())
        burn.debug.callback(lambda total: calls.append(float(total)), y.sum())
        return y

    run = burn.compile(function, TYPES, autotune="fast")
    assert timed and not calls and "the sum" not in capfd.readouterr().out
    run(np.zeros((20, 40), np.float32))
    assert calls == [0.0] and "the sum 0.0" in capfd.readouterr().out


def test_random_numbers_are_those_of_other_compilations(timed: list[int]) -> None:
    def function(x: Any) -> Any:
        return x @ burn.constant(W) * 0.0 + burn.random.uniform((20, 33))

    found = []
    for mode in ("off", "fast"):
        burn.manual_seed(5)
        found.append(burn.compile(function, TYPES, autotune=mode)(random(20, 40)))
    assert timed
    np.testing.assert_array_equal(*found)


def test_donated_inputs_stay_donated(timed: list[int]) -> None:
    """The result takes over the state's memory, which must be aligned."""

    def function(state: Any, x: Any) -> Any:
        return burn.tanh(state) + x @ burn.constant(W)

    run = burn.compile(function, ["float32[20, 33]", *TYPES], donate=("state",), autotune="fast", cache=False)
    assert timed and [spec.donated_to for spec in run.inputs] == [0, None]
    x, given = random(20, 40), random(20, 33)
    state = np.empty(20 * 33 + 16, np.float32)
    state = state[-state.ctypes.data // 4 % 16 :][: 20 * 33].reshape(20, 33)
    state[:] = given
    got = run(state, x)
    assert got.ctypes.data == state.ctypes.data
    close(got, np.tanh(given.astype(np.float64)) + x.astype(np.float64) @ W)


def test_state_of_modules_is_as_without(timed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Timed runs of a training step do not advance the statistics and moments that the step renews."""
    x, found = random(20, 40), []
    for mode in ("off", "fast"):
        monkeypatch.setenv("BURN_AUTOTUNE", mode)
        burn.manual_seed(5)
        model = nn.Sequential(nn.Linear(40, 33), nn.BatchNorm1d(33))
        step = burn.train.step(
            model, lambda model, x: burn.square(model(x)).mean(), optim.SGD(model, 0.1, momentum=0.9)
        )
        for _ in range(3):
            step(x)
        found.append({name: np.asarray(value) for name, value in model.state_dict().items()})
    assert timed
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-3, atol=1e-4)


def test_checks_for_nan_do_not_end_the_search() -> None:
    """Half of the generated inputs are negative."""
    with burn.debug.nans():
        run = burn.compile(lambda x: burn.log(x @ burn.constant(np.abs(W))), TYPES, autotune="fast")
    x = np.abs(random(20, 40))
    close(run(x), np.log(x.astype(np.float64) @ np.abs(W)))
    with pytest.raises(RunError, match="NaN"):
        run(-x)


def endless(x: Any) -> Any:
    """Ends for inputs without positive elements, which generated ones have."""
    halved = burn.while_loop(lambda y: y.max() > 0.0, lambda y: burn.maximum(y * 0.5, y), x)
    return halved @ burn.constant(W)


def test_programs_that_do_not_end_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LONGEST", 0.2)
    with pytest.raises(CompileError, match="made-up inputs"):
        burn.compile(endless, TYPES, autotune="fast")
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")
    x = -np.abs(random(20, 40))
    close(burn.compile(endless, TYPES)(x), x.astype(np.float64) @ W)


@pytest.mark.parametrize("mode", ["given", "environment"])
def test_a_budget_holds_for_timed_runs(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "endless.mlir"
    burn.export(endless, path, TYPES)
    given: dict[str, Any] = {"autotune": "fast"} if mode == "given" else {}
    if mode == "environment":
        monkeypatch.setenv("BURN_AUTOTUNE", "fast")
    start = time.monotonic()
    with pytest.raises(BudgetExceeded, match="1 s"):
        burn.load(path, max_seconds=1.0, cache=False, **given)
    assert time.monotonic() - start < clock.LONGEST


REDUCED = """
func.func @main(%arg0: tensor<40x40xf32, ["40", "40"]>) -> tensor<40x40xf32, ["40", "40"]> {
  %0 = "burn.dot_general"(%arg0, %arg0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} :
    (tensor<40x40xf32, ["40", "40"]>, tensor<40x40xf32, ["40", "40"]>) -> tensor<40x40xf32, ["40", "40"]>
  %1 = "burn.all_reduce"(%0) {groups = array<i64: 0>, size = 1 : i64, reduction = "sum"} :
    (tensor<40x40xf32, ["40", "40"]>) -> tensor<40x40xf32, ["40", "40"]>
  "burn.return"(%1) : (tensor<40x40xf32, ["40", "40"]>) -> ()
}
"""


def test_programs_of_several_processes_are_not_timed(timed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process decides by its own clock how often a program runs, but collectives run in all of them."""

    def program() -> Program:
        return parse_text(REDUCED, file="reduced.mlir")

    with pytest.raises(CompileError, match="several processes"):
        compile_program(program(), Options(autotune=mode_of("fast")))
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")
    compile_program(program(), Options())
    assert not timed


def failing(x: Any) -> Any:
    raise ValueError("an input that the op does not take")


@pytest.mark.parametrize("body", [failing], ids=["raises"])
def test_errors_of_custom_ops_end_the_search(body: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    op = burn.custom_op("timed::failing", types="T[...] -> T[...]")
    op.python(body)

    def function(x: Any) -> Any:
        return op(x @ burn.constant(W))

    with pytest.raises(CompileError, match="an input that the op does not take"):
        burn.compile(function, TYPES, autotune="fast")
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")
    run = burn.compile(function, TYPES)
    with pytest.raises(ValueError, match="does not take"):
        run(random(20, 40))


def test_memory_of_timed_runs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of generated inputs is no part of the model: it may compile without being timed."""
    path, first, second = tmp_path / "wide.mlir", random(40, 500), random(500, 20)
    burn.export(lambda x: burn.tanh(x @ burn.constant(first)) @ burn.constant(second), path, ["float32[n, 40]"])
    monkeypatch.setattr(clock, "TYPICAL", 1 << 17)
    with pytest.raises(CompileError, match="limit"):
        burn.load(path, max_memory="200MB", cache=False, autotune="fast")
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")
    x = random(2, 40)
    close(burn.load(path, max_memory="200MB", cache=False)(x), np.tanh(x.astype(np.float64) @ first) @ second, 1e-5)
