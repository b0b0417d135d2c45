"""benchmarks/starting.py runs, on the simulated GPU: it names parts of the compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "starting.py"


@pytest.mark.slow  # four processes
def test_the_states_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.delenv("BURN_CACHE_SIZE")
    command = [sys.executable, str(SCRIPT), "--simulated", "--models", "one op"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    assert [line.split()[2] for line in lines] == ["empty", "kernels", "warm"]
    compiling = [float(line.split("+")[1].split()[0]) for line in lines]
    assert compiling[0] > 0.1 and compiling[2] == 0
    assert all(line.endswith("2 kernels") for line in lines)
