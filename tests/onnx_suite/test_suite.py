"""The ONNX conformance suites: nothing fails that failing.txt does not list, and nothing that it lists passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.onnx_suite.cases import SUITES
from tests.onnx_suite.sweep import read_failing

ROOT = Path(__file__).parents[2]
PARTS = 4
"""So that the processes of a test run share the suite, and none of them ends with minutes of it."""
SMALL = [suite for suite in SUITES if suite != "light"]
"""tests/e2e compares twins of the light models with ONNX Runtime, with weights that tell more."""


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_outcomes_are_those_listed(part: int, tmp_path: Path) -> None:
    """A covering subset of every operator's cases. tests/importers evaluates all of them by the reference evaluator."""
    sweep(tmp_path, "--without-repeats", "--part", f"{part}/{PARTS}", "--suite", *SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_all_outcomes_are_those_listed(part: int, tmp_path: Path) -> None:
    sweep(tmp_path, "--part", f"{part}/{PARTS}")


def sweep(folder: Path, *options: str) -> None:
    """In a process of its own, as the worker is forked from it."""
    options = ("--timeout", "300", *options)  # the machine may be busy
    command = [sys.executable, "-m", "tests.onnx_suite.sweep", "--json", str(folder / "outcomes.json"), "-j", "1"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-60:])
    assert (folder / "outcomes.json").exists()


def test_some_run_on_the_reference_device(tmp_path: Path) -> None:
    """A few node tests of all kinds; BURN_SWEEP runs that many more parts of 1 / 150."""
    parts = [31, *range(1, 1 + min(150, int(os.environ.get("BURN_SWEEP", "0"))))]
    outcomes = [o for part in parts for o in on_reference(tmp_path, f"{part}/150")]
    known = read_failing()
    assert [o["name"] for o in outcomes if o["category"] and o["name"] not in known] == []
    assert sum(not o["category"] for o in outcomes) >= 10


ON_REFERENCE = {
    "test_attention_4d_causal_fp16_expanded": "sums in higher precision round to a neighbour of the expected float16",
    "test_averagepool_3d_default": "32 x 32 x 32 windows take the interpreter minutes",
}
"""Node tests that fail on the reference device alone, and why."""


@pytest.mark.slow
def test_the_reference_device_runs_the_node_suite(tmp_path: Path) -> None:
    outcomes = [o for part in range(1, 13) for o in on_reference(tmp_path, f"{part}/12")]
    known = {*read_failing(), *ON_REFERENCE}
    failed = {o["name"]: o["messages"] for o in outcomes if o["category"] and o["name"] not in known}
    assert not failed and sum(not o["category"] for o in outcomes) >= 1800


def on_reference(folder: Path, part: str) -> list[dict[str, Any]]:
    options = ["--backend", "burn-reference", "--suite", "node", "--timeout", "300", "--part", part]
    sweep(folder, *options)
    return json.loads((folder / "outcomes.json").read_text())
