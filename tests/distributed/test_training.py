"""Shakespeare on 1, 2 and 4 processes (CPUs, gloo on loopback): equal losses, also after a process was killed and the training
resumed with another number of processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from burn.train import checkpoints
from tests.distributed.trainings import PATIENCE, STEPS, agree, free_port, losses, start, trained

pytest.importorskip("jax")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training on one device, by burn's own kernels."""
    folder = tmp_path_factory.mktemp("one")
    trained(folder)
    assert len(losses(folder)) == STEPS
    return folder


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
