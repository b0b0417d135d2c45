"""Starting the processes of a training on this machine: `launch`. On several hosts, each host starts its own.

Each process runs the same command with its rank in the environment. When one fails, the others have `timeout` and
twice `GRACE` seconds to end with their own errors. Then they are ended, and the error names the first one that failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from burn.distributed.processes import AUTO, EXIT, GRACE, TIMEOUT, chosen_engine, start_coordinator
from burn.errors import DistributedError, Problem

LOOK = 0.05
"""Seconds between two looks at the processes."""

PORT = 17310
"""Of the coordinator, if an address of several hosts names none."""


def launch(
    command: Sequence[str],
    count: int,
    *,
    first: int = 0,
    total: int | None = None,
    coordinator: str = "127.0.0.1:0",
    timeout: float = TIMEOUT,
    engine: str | None = AUTO,
    good: Callable[[int], bool] = lambda status: status == 0,
) -> int:
    """Runs a command in `count` processes, as ranks first, first + 1 ... of `total`, and waits for them. Returns the exit status
    of the first of them. Output of rank 0 is this process's; lines of the others go to its standard error, with their rank.

    good: exit statuses that are no failure. engine: see `burn.distributed.initialize`. Raises DistributedError, which names the
    rank that failed first and how."""
    total = count if total is None else total
    engine = chosen_engine(engine)
    if first == 0:
        _, coordinator = start_coordinator(coordinator, total, timeout, engine=engine)
    environment = {
        **os.environ,
        "BURN_COORDINATOR": coordinator,
        "BURN_PROCESSES": str(total),
        "BURN_TIMEOUT": str(timeout),
        "PYTHONUNBUFFERED": "1",
        **({"BURN_ENGINE": engine} if engine is not None else {}),
    }
    started: dict[int, subprocess.Popen[str]] = {}
    with _forwarded(started):
        try:
            for rank in range(first, first + count):
                own = None if rank == 0 else subprocess.PIPE
                started[rank] = subprocess.Popen(
                    list(command),
                    env={**environment, "BURN_RANK": str(rank), "BURN_LOCAL_RANK": str(rank - first)},
                    stdout=own,
                    stderr=own,
                    text=True,
                )
                for stream in (started[rank].stdout, started[rank].stderr):
                    if stream is not None:
                        threading.Thread(target=_passed_on, args=(stream, rank), daemon=True).start()
            failed = _waited(started, good, timeout)
        finally:
            _end(started.values())
    if failed is not None:
        rank, how = failed
        others = [other for other in started if other != rank]
        rest = f"; {len(others)} others on this host were ended" if others else ""
        hint = "--resume goes on from the last checkpoint, with any number of processes"
        raise DistributedError(
            f"rank {rank} of {total} failed",
            [Problem(f"{how}{rest}", hint=hint)],
        )
    return started[first].returncode


def _waited(
    started: dict[int, subprocess.Popen[str]], good: Callable[[int], bool], timeout: float
) -> tuple[int, str] | None:
    """The rank that failed first, and how; None if none did. Ranks that only ended because another was lost come last."""
    failed: list[int] = []
    deadline = float("inf")
    while time.monotonic() < deadline:
        for rank, process in started.items():
            status = process.poll()
            if status is not None and not good(status) and rank not in failed:
                failed.append(rank)
                deadline = min(deadline, time.monotonic() + timeout + 2 * GRACE)
        if all(process.returncode is not None for process in started.values()):
            break
        time.sleep(LOOK)
    causes = [rank for rank in failed if started[rank].returncode != EXIT]
    killed = [rank for rank in causes if started[rank].returncode < 0]
    running = [rank for rank, process in started.items() if failed and process.returncode is None]
    found = next(iter([*killed, *causes, *running, *failed]), None)
    if found is None:
        return None
    return found, "it does not answer" if found in running else _how(started[found].returncode)


def _how(status: int) -> str:
    """How a process ended."""
    if status >= 0:
        return f"its exit status is {status}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-status).name}"
    return f"it was ended by signal {-status}"


def _passed_on(stream: IO[str], rank: int) -> None:
    for line in stream:
        sys.stderr.write(f"[rank {rank}] {line}")


@contextmanager
def _forwarded(started: dict[int, subprocess.Popen[str]]) -> Iterator[None]:
    """Inside, SIGTERM goes to the processes, which end in good order. A terminal's Ctrl-C reaches them by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def forward(number: int, frame: object) -> None:
        for process in list(started.values()):
            with suppress(OSError):
                process.send_signal(number)

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, forward),
        signal.SIGINT: signal.signal(signal.SIGINT, _ignored),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignored(number: int, frame: object) -> None:
    """The processes handle it; SIG_IGN would be inherited by them."""


def _end(processes: Iterable[subprocess.Popen[str]]) -> None:
    running = [p for p in processes if p.poll() is None]
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
