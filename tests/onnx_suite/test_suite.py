"""The ONNX conformance suites: nothing fails that failing.txt does not list, and nothing that it lists passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_outcomes_are_those_listed(tmp_path: Path) -> None:
    """In a process of its own, as the workers are forked from it. BURN_SUITE_JOBS: worker processes (2)."""
    command = [sys.executable, "-m", "tests.onnx_suite.sweep", "--json", str(tmp_path / "outcomes.json")]
    command += ["-j", os.environ.get("BURN_SUITE_JOBS", "2")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-60:])
    assert (tmp_path / "outcomes.json").exists()
