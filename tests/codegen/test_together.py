"""Variants of a program in one object: each computes what it computes alone, and the same functions are compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.artefact import artefact_of
from burn.codegen.cpu.backend import CPU
from burn.codegen.host import parts
from burn.codegen.host.together import together
from burn.codegen.tuning.choices import Choices
from burn.compiler import backend_for
from burn.errors import RunError
from burn.runtime.executable import Executable
from tests.codegen.test_autotuning import TYPES
from tests.codegen.test_autotuning_forms import close, fused, random, traced
from tests.codegen.test_split_entry import everything, inputs
from tests.custom.table import C

pytestmark = pytest.mark.untuned

SEEDS = (0, 1, 2)


def made(function: Any, types: list[str], target: str | None = None) -> tuple[list[Executable], list[Executable]]:
    """The program with drawn variants: in one object, and each alone."""
    backend = backend_for()
    assert isinstance(backend, CPU)
    program = fused(traced(function, types), backend)
    drawn = [Choices(seed=seed) for seed in SEEDS]
    alone = [backend.drawn(seed).printer.build(program) for seed in SEEDS]
    beside = backend.printer.build_each(program, drawn)
    assert len({bytes(built.code) for built in beside}) == 1
    return tuple([Executable(artefact_of(program, built, backend)) for built in each] for each in (beside, alone))  # type: ignore[return-value]


@pytest.mark.parametrize("lines", [50, 2000])
def test_variants_compute_what_they_compute_alone(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With texts of errors, loops, branches, and entry functions of several parts."""
    monkeypatch.setattr(parts, "LINES", lines)
    beside, alone = made(everything, ["float32[n, m]", "float32[k, 3]", "int64[n]"])
    x, table, at = inputs(37, 41)
    for run, other in zip(beside, alone, strict=True):
        for got, wanted in zip(run(x, table, at), other(x, table, at), strict=True):
            np.testing.assert_array_equal(got, wanted)
        with pytest.raises(RunError, match="index"):
            run(x, table, at + 5)


def test_launches_in_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burn.codegen.cpu.printer.is_long", lambda program: True)
    beside, alone = made(lambda x, w: burn.softmax(burn.tanh(x @ w), axis=-1), TYPES)
    x, w = random(90, 150), random(150, 80)
    for run, other in zip(beside, alone, strict=True):
        np.testing.assert_array_equal(run(x, w), other(x, w))


def test_ops_in_c() -> None:
    op = burn.custom_op("together::squared", types="T[...] -> T[...]", attributes={"gain": 2.0})
    op.c(C, "square")
    beside, _ = made(lambda x, w: op(x @ w), TYPES)
    x, w = random(90, 150), random(150, 80)
    for run in beside:
        close(run(x, w), 2.0 * (x.astype(np.float64) @ w) ** 2)


def test_the_same_functions_are_one() -> None:
    """The programs name them differently; a function that calls another one of its program stays apart."""
    kernel, other = (
        "llvm.func internal @{}() {{\n  llvm.return\n}}",
        "llvm.func internal @{}(%a: i64) {{\n  llvm.return\n}}",
    )
    entry = "llvm.func @burn_entry() {{\n  llvm.call @{}() : () -> ()\n  llvm.call @burn_custom_1() : () -> ()\n}}"
    declared = "llvm.func @burn_custom_1()"
    first = [kernel.format("kernel0"), other.format("kernel1"), entry.format("kernel0"), declared]
    second = [other.format("kernel0"), kernel.format("kernel1"), entry.format("kernel1"), declared]
    assert together([first, second]) == [
        kernel.format("shared0_0"),
        other.format("shared1_0"),
        entry.format("shared0_0").replace("burn_entry", "burn_entry_0"),
        declared,
        entry.format("shared0_0").replace("burn_entry", "burn_entry_1"),
    ]
