"""The engine "burn" on GPUs, without one: simulated devices, and a stand-in for NCCL between processes (simulated_gpus.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burn.distributed.spmd import nccl
from burn.errors import DistributedError
from tests.distributed.simulated_gpus import prepared
from tests.distributed.test_spmd import LAUNCH, ROOT

pytest.importorskip("triton")


def started(folder: Path, count: int, *cases: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **prepared(folder), "BURN_NUM_THREADS": "1", **environment}
    launch = LAUNCH.replace("tests.distributed.ranks", "tests.distributed.simulated_gpus")
    command = [sys.executable, "-c", launch, str(count), *cases]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=600)


def ran(folder: Path, count: int, *cases: str) -> dict[str, Any]:
    done = started(folder, count, *cases)
    assert done.returncode == 0, done.stdout + done.stderr
    return {found["case"]: found for found in map(json.loads, done.stdout.splitlines())}


@pytest.mark.slow
def test_collectives_are_recorded(tmp_path: Path) -> None:
    """Of six runs the first submits each collective, the next ones record it for the addresses of their outputs, and the last
    ones replay the recording: NCCL is called in three of them at most, by each of two processes."""
    assert ran(tmp_path, 2, "collectives")["collectives"]["groups"] <= 2 * 3 * 4


def test_one_process(tmp_path: Path) -> None:
    """Recorded runs, failures, and what is given back."""
    from tests.distributed.one_gpu import CASES

    command = [sys.executable, "-m", "tests.distributed.one_gpu", *CASES]
    variables = {**os.environ, **prepared(tmp_path), "BURN_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == list(CASES), done.stdout + done.stderr


@pytest.mark.slow
def test_trains(tmp_path: Path) -> None:
    assert ran(tmp_path, 2, "trains")["trains"]["apart"] <= 2e-6


@pytest.mark.slow
def test_a_lost_process_is_named(tmp_path: Path) -> None:
    done = started(tmp_path, 2, "lost")
    assert "rank 1 of 2 has ended" in done.stdout + done.stderr
    assert "rank 1 of 2 failed" in done.stderr and "its exit status is 9" in done.stderr


@pytest.mark.slow
def test_a_failure_on_one_gpu_ends_all(tmp_path: Path) -> None:
    done = started(tmp_path, 2, "failed")
    told = done.stdout + done.stderr  # of the other processes it is in stderr
    assert told.count('"case": "failed"') == 2, told


def test_a_missing_or_old_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: a library that was opened once stays."""
    environment = prepared(tmp_path)
    code = "from burn.distributed.spmd import nccl; nccl.opened()"
    for variables, text in (
        ({"BURN_NCCL": str(tmp_path / "none.so")}, "cannot open shared object"),
        ({"BURN_FAKE_NCCL_VERSION": "21003"}, "NCCL 2.10.3 is too old: 2.18 or newer"),
        ({"BURN_NCCL": environment["BURN_CUDA_DRIVER"]}, "has no function ncclGetVersion"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment, **variables}, capture_output=True, text=True
        )
        assert done.returncode and text in done.stderr and "pip install nvidia-nccl" in done.stderr
    monkeypatch.delenv("BURN_NCCL", raising=False)
    assert list(nccl.candidates())[-1] == nccl.FILE
    assert issubclass(DistributedError, Exception)
