"""The ONNX conformance suites: nothing fails that failing.txt does not list, and nothing that it lists passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = 5
"""So that the processes of a test run share the suite, and none of them ends with minutes of it."""


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_outcomes_are_those_listed(part: int, tmp_path: Path) -> None:
    """In a process of its own, as the worker is forked from it."""
    command = [sys.executable, "-m", "tests.onnx_suite.sweep", "--json", str(tmp_path / "outcomes.json")]
    command += ["-j", "1", "--part", f"{part}/{PARTS}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-60:])
    assert (tmp_path / "outcomes.json").exists()
