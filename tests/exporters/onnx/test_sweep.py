"""The conformance suite out through ONNX Runtime: nothing fails that failing.txt does not list, nothing listed passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_outcomes_are_those_listed(every: int) -> None:
    """In a process of its own, as the workers are forked from it."""
    command = [sys.executable, "-m", "tests.exporters.onnx.sweep", "-j", "2", "--every", str(every)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-60:])
