"""Processes that the launcher starts, and the error that names the one that failed first."""

from __future__ import annotations

import sys
import time

import pytest

from burn.distributed.launch import launch
from burn.errors import DistributedError

SCRIPT = """
import os, signal, sys, time
from burn.distributed import processes
from burn.errors import DistributedError
own = processes.initialize(engine=None)
assert own.gather("rank", own.rank) == list(range(own.count))
how, rank = sys.argv[1], int(sys.argv[2])
try:
    if own.rank == rank:
        if how == "exit": os._exit(3)
        if how != "good": os.kill(os.getpid(), getattr(signal, how))
    own.gather("next", None)
except DistributedError as error:
    print(error, file=sys.stderr)
    sys.exit(processes.EXIT)
"""


def started(how: str, rank: int, timeout: float = 120.0) -> int:
    return launch([sys.executable, "-c", SCRIPT, how, str(rank)], 2, timeout=timeout, engine=None)


def test_all_end() -> None:
    assert started("good", 0) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "rank", "text"),
    [
        ("exit", 1, "its exit status is 3"),
        ("SIGKILL", 0, "it was ended by SIGKILL"),
        ("SIGSTOP", 1, "it does not answer"),
    ],
)
def test_the_first_failure_is_named(how: str, rank: int, text: str) -> None:
    began = time.monotonic()
    with pytest.raises(DistributedError) as caught:
        started(how, rank, timeout=12.0 if how == "SIGSTOP" else 120.0)
    assert f"rank {rank} of 2 failed" in str(caught.value) and text in str(caught.value)
    assert time.monotonic() - began < 100  # not after the time limit


@pytest.mark.slow
def test_a_command_that_does_not_start() -> None:
    with pytest.raises(DistributedError, match="its exit status is 1"):
        launch([sys.executable, "-c", "raise SystemExit(1)"], 1, timeout=120.0, engine=None)
