"""Processes of the engine "burn" give the losses of one, within 1e-6 where the order of sums differs (ranks.py). No case needs
JAX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from tests.distributed.ranks import CASES

ROOT = Path(__file__).parents[2]
LAUNCH = (
    "import sys; from burn.distributed.launch import launch;"
    "sys.exit(launch([sys.executable, '-m', 'tests.distributed.ranks', *sys.argv[2:]], int(sys.argv[1]),"
    " timeout=120.0, engine='burn'))"
)


def ran(count: int, *cases: str) -> dict[str, Any]:
    environment = {**os.environ, "BURN_NUM_THREADS": "1", "BURN_OPTIMIZE": "none"}
    command = [sys.executable, "-c", LAUNCH, str(count), *cases]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return {found["case"]: found for found in map(json.loads, done.stdout.splitlines())}


def test_two_processes() -> None:
    found = ran(2, "collectives", "derivatives", "fully_sharded", "refused")
    assert found["collectives"]["checked"] >= 36 and found["fully_sharded"]["apart"] <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("mixed", "fully_sharded", "refused")])
def test_case(name: str) -> None:
    assert ran(2, name).keys() == {name}


@pytest.mark.slow
def test_four_processes() -> None:
    assert len(ran(4, "mixed", "tensor_parallel", "sharded_state", "collectives", "refused")) == 5


def test_a_mesh_that_is_not_there_is_priced() -> None:
    """Collectives are counted by one process, which has no simulated devices."""
    model = nn.Linear(64, 32)
    count = sum(p.count for p in model.parameters())
    for options, kind in (({}, "all-reduce"), ({"fully_sharded": "host"}, "reduce-scatter")):
        mesh = burn.Mesh({"host": 32}, engine="burn", **options)  # type: ignore[arg-type]
        step = burn.train.step(model, lambda m, x: (m(x) ** 2).mean(), optim.AdamW(model), mesh=mesh)
        told = step.communication("float32[64, 64]")
        assert 4 * count <= told.bytes[kind] <= 4 * count + 64
        assert all(p.on_mesh is None for p in model.parameters())


def test_a_mesh_needs_a_process_for_each_device() -> None:
    model = nn.Linear(4, 4)
    step = burn.train.step(
        model, lambda m, x: m(x).sum(), optim.SGD(model, lr=0.1), mesh=burn.Mesh({"data": 2}, engine="burn")
    )
    with pytest.raises(burn.TypeMismatch, match="data=2 takes 2 processes, there are 1"):
        step(np.ones((4, 4), np.float32))
