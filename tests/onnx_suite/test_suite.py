"""The ONNX conformance suites: nothing fails that failing.txt does not list, and nothing that it lists passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.onnx_suite.cases import SUITES

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
    command = [sys.executable, "-m", "tests.onnx_suite.sweep", "--json", str(folder / "outcomes.json"), "-j", "1"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-60:])
    assert (folder / "outcomes.json").exists()
