"""Cases on a process that is its group alone, with a simulated GPU and a stand-in for NCCL: `python -m tests.distributed.one_gpu
CASE ...`, with the environment of simulated_gpus.prepared. A case that fails raises."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.distributed import processes
from burn.distributed.spmd.communicators import Communicator
from burn.errors import DistributedError
from burn.options import Options
from burn.runtime import _native
from burn.runtime.device import Device
from burn.runtime.device import device as as_device
from burn.runtime.device_array import to_device
from tests.distributed.simulated_gpus import simulate

CASES: dict[str, Callable[[Any], None]] = {}
COUNT = 1000


def case(function: Callable[[Any], None]) -> Callable[[Any], None]:
    CASES[function.__name__] = function
    return function


def connected() -> tuple[Communicator, Any]:
    """A communicator, and a program that sums a vector over its group of one."""
    own = processes.current()
    assert own is not None
    made = Communicator.open(own, as_device("cuda:0"))
    made.connect([((0,), 1)])
    program = Program.create([("x", TensorType("float32", (COUNT,)))])
    with program.building():
        (x,) = program.inputs
        y = ops.all_reduce([x], groups=(0,), size=1)
        result = ops.collective_wait(y, [x])
    program.finish([("y", result)])
    return made, executable(program, Options(device=as_device("cuda:0")))


def sent(seed: int) -> tuple[np.ndarray, Any]:
    x = np.random.default_rng(seed).standard_normal(COUNT).astype("f4")
    return x, to_device(x, as_device("cuda:0"))


def meanwhile(slow: Callable[[], Any], act: Callable[[], Any]) -> None:
    """Calls a function while another thread's is in NCCL. NCCL gets no communicator that has ended."""
    library = ctypes.CDLL(os.environ["BURN_NCCL"])
    library.burn_fake_nccl_slow(300)
    running = threading.Thread(target=slow)
    running.start()
    deadline = time.monotonic() + 20
    while not library.burn_fake_nccl_waiting():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    act()
    running.join()
    library.burn_fake_nccl_slow(0)
    assert "ended" not in Path(os.environ["BURN_FAKE_NCCL_LOG"]).read_text()


@case
def recorded(driver: Any) -> None:
    """Of six runs three at most call NCCL: the first, and those that record. The others replay."""
    made, compiled = connected()
    want, x = sent(1)
    for _ in range(6):
        np.testing.assert_array_equal(compiled(x).numpy(), want)
    assert 2 <= len(Path(os.environ["BURN_FAKE_NCCL_LOG"]).read_text().split()) <= 3
    made.close()


@case
def failed_runs(driver: Any) -> None:
    """A run that fails between a collective and its wait: memory that it wrote to is used again after the collective has ended.
    Run, and recorded."""
    made, compiled = connected()
    for calls in range(3):
        with driver.lazy():
            _, x = sent(1)
            kept = [compiled(x) for _ in range(calls)]
            driver.fail("cuStreamWaitEvent", 719, after=1)  # of the second: the first lets NCCL wait for the program
            with pytest.raises(burn.RunError):
                compiled(x)
            others = [sent(seed) for seed in range(2, 6)]
            found = [y.numpy() for _, y in others]
        for (want, y), before in zip(others, found, strict=True):
            np.testing.assert_array_equal(before, want)
            np.testing.assert_array_equal(y.numpy(), want)
        for y in kept:
            np.testing.assert_array_equal(y.numpy(), x.numpy())
        want, x = sent(7)
        np.testing.assert_array_equal(compiled(x).numpy(), want)
    made.close()


@case
def aborted(driver: Any) -> None:
    """While a thread is between its check and NCCL's call. The communicator that NCCL frees is passed to it no more."""
    made, compiled = connected()
    _, x = sent(1)
    meanwhile(lambda: compiled(x), lambda: made.native.abort("rank 1 is lost"))
    with pytest.raises(DistributedError, match="rank 1 is lost"):
        compiled(x)
    assert _native.communicator_error() == "rank 1 is lost"
    with pytest.raises(RuntimeError, match="rank 1 is lost"):
        made.native.connect([0], 1, bytes(128))
    made.close()


@case
def closed(driver: Any) -> None:
    """Streams and events are given back, also by an opening that fails, and while another thread aborts."""
    as_device("cuda:0").wait()  # it is open, and has its own streams
    before = {kind: driver.alive(kind) for kind in ("event", "stream")}
    made, _ = connected()
    assert driver.alive("stream") == before["stream"] + 1
    meanwhile(made.close, lambda: made.native.abort("closed before"))
    assert made.native.look() is None
    with pytest.raises(RuntimeError, match="is closed"):
        made.native.connect([0], 1, bytes(128))
    for function in ("cuStreamCreate", "cuEventCreate"):
        driver.fail(function, 2)
        with pytest.raises(RuntimeError, match="opening a communicator: out of memory"):
            _native.nccl_communicator(as_device("cuda:0").native, 0, 1)
    driver.fail("cuEventCreate", 2, after=5)
    with pytest.raises(RuntimeError, match="opening a communicator: out of memory"):
        _native.nccl_communicator(as_device("cuda:0").native, 0, 1)
    assert {kind: driver.alive(kind) for kind in before} == before


@case
def other_kinds(driver: Any) -> None:
    """NCCL's handles are CUDA's."""
    own = processes.current()
    assert own is not None
    for kind in ("hip", "wgpu"):
        with pytest.raises(DistributedError, match=f"its devices are {kind}[^;]*") as raised:
            Communicator.open(own, Device(kind))
        assert "RCCL" in str(raised.value)
    from tests.runtime.simulation import simulated_hip

    device = _native.Device("hip", 0, simulated_hip().path)
    with pytest.raises(RuntimeError, match="NCCL connects devices of the kind cuda, and hip:0 is none"):
        _native.nccl_communicator(device, 0, 1)


@case
def broken(driver: Any) -> None:
    """A transport error with all processes alive: every process gets it. The last case: this process is lost."""
    _, compiled = connected()
    own = processes.current()
    assert own is not None
    _, x = sent(1)
    compiled(x).numpy()
    ctypes.CDLL(os.environ["BURN_NCCL"]).burn_fake_nccl_break(2)
    with own._changed:
        assert own._changed.wait_for(lambda: own._lost is not None, 20)
    text = "rank 0 of 1 has a failed collective: NCCL: a collective: unhandled system error"
    with pytest.raises(DistributedError, match=text), own.operation():
        compiled(x)


if __name__ == "__main__":
    driver = simulate()
    _, address = processes.start_coordinator("127.0.0.1:0", 1, engine="burn")
    processes.initialize(address, 1, 0, timeout=2.0, engine="burn")
    for name in sys.argv[1:]:
        CASES[name](driver)
        driver.check()
        print(name, flush=True)
