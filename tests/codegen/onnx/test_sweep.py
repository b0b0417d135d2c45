"""The conformance suite out through ONNX Runtime: nothing fails that failing.txt does not list, nothing listed passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_outcomes_are_those_listed() -> None:
    """In a process of its own, as the workers are forked from it."""
    command = [sys.executable, "-m", "tests.codegen.onnx.sweep", "-j", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-60:])
