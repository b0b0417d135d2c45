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
from burn.distributed.layout import REPLICATED
from burn.distributed.spmd.engine import engine
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


DEFAULT = ("collectives", "fully_sharded", "refused", "apart", "mixed_up", "gathered")


def test_two_processes() -> None:
    found = ran(2, *DEFAULT)
    assert found["collectives"]["checked"] == 2 * (4 * 2 + 2) and found["fully_sharded"]["apart"] <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("mixed", *DEFAULT)])
def test_case(name: str) -> None:
    assert ran(2, name).keys() == {name}


@pytest.mark.slow
def test_four_processes() -> None:
    assert len(ran(4, "mixed", "tensor_parallel", "sharded_state", "collectives", "refused")) == 5


def test_a_tensor_is_of_one_order_of_axes() -> None:
    """The order of a mesh's axes says which block a device has."""
    mesh, turned = burn.Mesh({"a": 1, "b": 1}, engine="burn"), burn.Mesh({"b": 1, "a": 1}, engine="burn")
    held = engine().put(np.zeros((4, 4), np.float32), "float32", mesh, REPLICATED)
    assert held.is_of(burn.Mesh({"a": 1, "b": 1}, engine="burn"), REPLICATED) and not held.is_of(turned, REPLICATED)


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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--devices", "2", "--processes", "2"), "--devices has a process for each GPU"),
        (("--devices", "2", "--engine", "xla"), "--devices has a process for each GPU"),
        (("--engine", "burn"), "--engine go with --processes, --devices or --hosts"),
    ],
)
def test_options_that_exclude_each_other(options: tuple[str, ...], text: str) -> None:
    from click.testing import CliRunner

    from burn.cli.train import main

    found = CliRunner().invoke(main, ["experiment.py:Name", *options])
    assert found.exit_code == 2 and text in found.output


def test_engines_and_local_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    from burn.distributed import processes

    for name in ("BURN_ENGINE", *processes.LOCAL):
        monkeypatch.delenv(name, raising=False)
    assert processes.engine() in ("burn", "xla") and processes.local_rank() == 0
    monkeypatch.setenv("BURN_ENGINE", "burn")
    assert processes.engine() == "burn" and processes.chosen_engine("xla") == "xla"
    monkeypatch.setenv("BURN_ENGINE", "gloo")
    with pytest.raises(burn.errors.DistributedError, match="there is no engine 'gloo'"):
        processes.engine()
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert processes.local_rank() == 3
    monkeypatch.setenv("BURN_LOCAL_RANK", "x")
    with pytest.raises(burn.errors.DistributedError, match="BURN_LOCAL_RANK is 'x', not a number"):
        processes.local_rank()


def test_devices_of_a_mesh() -> None:
    with pytest.raises(burn.TypeMismatch, match="chooses its devices itself"):
        burn.Mesh({"data": 2}, engine="xla", device="cuda")
    assert burn.Mesh({"data": 2}).on("cuda").device == "cuda" and "device='cuda'" in repr(
        burn.Mesh({"data": 2}).on("cuda")
    )
