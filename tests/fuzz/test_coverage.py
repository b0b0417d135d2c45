"""Every reader's fuzzer for a number of files, always the same ones; or for BURN_FUZZ_SECONDS, from a new seed each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.coverage.targets import TARGETS, checked

RUNS = 2000
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_answers_or_refuses(name: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    seconds = os.environ.get("BURN_FUZZ_SECONDS")
    length = ["--runs", str(RUNS), "--seconds", "0", "--seed", "1"] if seconds is None else ["--seconds", seconds]
    command = [sys.executable, "-m", "tests.fuzz.coverage", name, *length]
    environment = os.environ | {"BURN_FUZZ_FOUND": str(tmp_path), "BURN_CACHE_SIZE": "0"}
    if seconds is None:
        environment["PYTHONHASHSEED"] = "0"
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", env=environment)
    found = [f"{path.name}: {path.read_bytes()!r}" for path in tmp_path.iterdir()]
    assert done.returncode == 0 and not found, "\n".join([done.stdout[:200], *found, done.stderr[-3000:]])
    assert "stat::number_of_executed_units" in done.stderr


def test_what_a_reader_must_not_raise_is_seen() -> None:
    for error in (ValueError("x"), RecursionError()):

        def read(data: bytes, error: Exception = error) -> None:
            raise error

        target = type(TARGETS["pickle"])(read, (), list)
        with pytest.raises(type(error)):
            checked(target, b"")
