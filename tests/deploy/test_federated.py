"""The example of federated averaging: devices that train a compiled network, without burn."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.test_commands import succeeds

EXAMPLE = Path(__file__).parents[2] / "examples" / "federated"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its library."""
    made = tmp_path_factory.mktemp("examples") / "federated"
    shutil.copytree(EXAMPLE, made, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    shutil.copytree(EXAMPLE.parent / "digits", made.parent / "digits")
    types = ["--input", "images=float32[batch,64]", "--input", "labels=int64[batch]"]
    succeeds("compile", f"{made / 'network.py'}:step", *types, "--emit", "shared", "--name", "net", "-o", made / "lib")
    return made


def _accuracies(folder: Path, *words: str) -> list[float]:
    script = [sys.executable, "run.py", "lib/libnet.so", *words]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [float(line.split(": ")[1]) for line in done.stdout.splitlines() if line.startswith("round ")]


def test_devices_of_one_process(folder: Path) -> None:
    found = _accuracies(folder, "--plain")
    assert len(found) == 20 and found[0] < 0.6 and found[-1] > 0.85


def test_with_flwr(folder: Path) -> None:
    if find_spec("flwr") is None:
        pytest.skip("flwr is not here")
    found = _accuracies(folder, "--rounds", "12")
    assert len(found) == 12 and found[-1] > 0.8
