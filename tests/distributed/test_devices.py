"""Steps on simulated devices give the losses and parameters of one device. XLA has as many devices as its process began with, so
the cases run in processes of their own (simulated.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.simulated import CASES

pytest.importorskip("jax")

ROOT = Path(__file__).parents[2]
QUICK = "--xla_backend_optimization_level=0"  # XLA's CPU code is compiled in half of the time


def ran(devices: int, *cases: str) -> dict[str, Any]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": QUICK}
    command = [sys.executable, "-m", "tests.distributed.simulated", str(devices), *cases]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return {found["case"]: found for found in map(json.loads, done.stdout.splitlines())}


def test_tensor_parallel_and_fully_sharded() -> None:
    assert ran(4, "mixed")["mixed"]["apart"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("mixed", "hosts")])
def test_case(name: str) -> None:
    assert ran(4, name).keys() == {name}


@pytest.mark.slow
def test_64_hosts_are_priced() -> None:
    found = ran(64, "hosts")["hosts"]
    assert found["fully sharded"]["arguments"] < found["data parallel"]["arguments"] / 16
