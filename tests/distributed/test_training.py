"""Shakespeare on 1, 2 and 4 processes (CPUs, gloo on loopback): equal losses, also after a process was killed and the training
resumed with another number of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.train import checkpoints

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STEPS = 12
PATIENCE = 400.0
"""Seconds that a command may take on a busy machine."""


def start(folder: Path, *options: Any, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "burn.cli.main", "train", "tests/distributed/letters.py:Letters", "--dir", folder]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    quick = {"XLA_FLAGS": "--xla_backend_optimization_level=0", "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    return subprocess.Popen(
        [*map(str, command), *map(str, options)],
        cwd=ROOT, env={**os.environ, **quick, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def trained(folder: Path, *options: Any, status: int = 0) -> str:
    """The output of a training that ends with an exit status."""
    with start(folder, "--epochs", 2, *options) as command:
        output, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == status, output
    return output


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    found = {line["step"]: line["values"]["loss"] for line in lines if line["event"] == "step"}
    return [found[step] for step in sorted(found)]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training on one device, by burn's own kernels."""
    folder = tmp_path_factory.mktemp("one")
    trained(folder)
    assert len(losses(folder)) == STEPS
    return folder


def agree(folder: Path, one: Path) -> None:
    np.testing.assert_allclose(losses(folder), losses(one), rtol=0, atol=1e-5)
    ours, other = (checkpoints.read(checkpoints.path_of(f, STEPS)) for f in (folder, one))
    assert ours.tensors.keys() == other.tensors.keys()
    for name, weight in ours.tensors.items():
        if not name.endswith("key.bias"):  # softmax cancels it, and Adam scales up a gradient of rounding errors
            want = other.tensors[name].array()
            np.testing.assert_allclose(weight.array(), want, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("count", "sharded"), [(2, True), (4, True), (2, False)])
def test_losses_of_one_process(count: int, sharded: bool, one: Path, tmp_path: Path) -> None:
    trained(tmp_path, "--processes", count, "--set", f"sharded={sharded}")
    agree(tmp_path, one)
    assert len(checkpoints.parts_of(checkpoints.path_of(tmp_path, STEPS))) == count * sharded


def test_killed_and_resumed_with_other_numbers(one: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    output = trained(tmp_path, "--processes", 2, "--timeout", 8, "--set", "stops=5", "--set", "rank=1", status=1)
    assert "rank 1 of 2 failed" in output and "it was ended by SIGKILL" in output
    assert "rank 0 of 2 cannot go on" in output and "rank 1 of 2 has ended" in output
    assert time.monotonic() - began < PATIENCE
    assert list(checkpoints.found(tmp_path)) == [3]
    output = trained(
        tmp_path, "--processes", 4, "--timeout", 60, "--set", "stops=8", "--set", "rank=0", "--resume", status=1
    )
    assert "rank 0 of 4 failed" in output and "it was ended by SIGKILL" in output
    assert list(checkpoints.found(tmp_path)) == [3, 6]
    trained(
        tmp_path, "--resume", "--set", "stops=0", "--epochs", 1
    )  # the rest of the first epoch is done: nothing to do
    trained(tmp_path, "--processes", 2, "--resume", "--set", "stops=0", "--set", "sharded=false")
    agree(tmp_path, one)


def test_resumed_by_one_process(one: Path, tmp_path: Path) -> None:
    trained(tmp_path, "--processes", 2, "--set", "stops=7", "--set", "rank=0", "--set", "by=SIGTERM", status=130)
    assert max(checkpoints.found(tmp_path)) == 8  # all processes ended after the step that followed the signal
    trained(tmp_path, "--resume", "--set", "stops=0")
    agree(tmp_path, one)


def test_a_process_that_hangs_ends_the_others(tmp_path: Path) -> None:
    began = time.monotonic()
    options = ("--processes", 2, "--timeout", 10, "--set", "stops=4", "--set", "rank=1", "--set", "by=SIGSTOP")
    output = trained(tmp_path, *options, status=1)
    assert "rank 1 of 2 has not answered for 10 s" in output, output
    assert list(checkpoints.found(tmp_path)) == [3]
    assert time.monotonic() - began < PATIENCE


def test_a_host_that_does_not_come_up(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()},other"
    output = trained(tmp_path, "--hosts", address, "--host", 0, "--timeout", 15, status=1)
    assert "rank 1 of 2 did not come up within 15 s" in output
    assert not checkpoints.found(tmp_path)


def test_two_hosts(one: Path, tmp_path: Path) -> None:
    names = f"127.0.0.1:{free_port()},other"
    with (
        start(tmp_path, "--epochs", 2, "--hosts", names, "--host", 0) as first,
        start(tmp_path, "--epochs", 2, "--hosts", names, "--host", 1) as second,
    ):
        texts = [command.communicate(timeout=PATIENCE)[0] for command in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), texts
    agree(tmp_path, one)


def test_ctrl_c_ends_all_processes_at_one_step(tmp_path: Path) -> None:
    options = ("--processes", 2, "--set", "stops=4", "--set", "rank=1", "--set", "by=SIGINT")
    trained(tmp_path, *options, status=130)
    assert max(checkpoints.found(tmp_path)) == 5


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
