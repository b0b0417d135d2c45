"""Shakespeare on processes of the engine "burn": the losses of one process, also after one was killed and another number of
processes went on. Nothing needs JAX."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from burn.train import checkpoints
from tests.distributed.trainings import PATIENCE, STEPS, agree, losses, trained

pytestmark = pytest.mark.slow

TWO = ("--processes", 2, "--engine", "burn")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training of one process."""
    folder = tmp_path_factory.mktemp("one")
    trained(folder)
    assert len(losses(folder)) == STEPS
    return folder


@pytest.mark.parametrize("sharded", [True, False])
def test_losses_of_one_process(sharded: bool, one: Path, tmp_path: Path) -> None:
    trained(tmp_path, *TWO, "--set", f"sharded={sharded}")
    agree(tmp_path, one)
    assert len(checkpoints.parts_of(checkpoints.path_of(tmp_path, STEPS))) == 2 * sharded


def test_killed_and_resumed_by_one_and_by_two(one: Path, tmp_path: Path) -> None:
    output = trained(tmp_path, *TWO, "--timeout", 20, "--set", "stops=5", "--set", "rank=1", status=1)
    assert "rank 1 of 2 failed" in output and "it was ended by SIGKILL" in output
    assert "rank 0 of 2 cannot go on" in output and "rank 1 of 2 has ended" in output
    assert list(checkpoints.found(tmp_path)) == [3]
    output = trained(tmp_path, *TWO, "--timeout", 20, "--set", "stops=8", "--set", "rank=0", "--resume", status=1)
    assert "rank 0 of 2 failed" in output and list(checkpoints.found(tmp_path)) == [3, 6]
    trained(tmp_path, "--resume", "--set", "stops=0")
    agree(tmp_path, one)


def test_a_process_that_hangs_ends_the_others(tmp_path: Path) -> None:
    began = time.monotonic()
    options = (*TWO, "--timeout", 10, "--set", "stops=4", "--set", "rank=1", "--set", "by=SIGSTOP")
    output = trained(tmp_path, *options, status=1)
    assert "rank 1 of 2 has not answered for 10 s" in output, output
    assert list(checkpoints.found(tmp_path)) == [3] and time.monotonic() - began < PATIENCE
