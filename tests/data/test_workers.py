"""Worker processes: the same batches as without, errors that say what happened, and nothing left behind.

A pool takes its time to start, so most tests share one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn import data
from burn.data import workers
from burn.data.workers import WorkerTraceback
from burn.errors import DataError


class Odd(data.Dataset):
    """Rows; one can be unreadable, and one can kill the reading process."""

    def __init__(self, rows: int, broken: int = -1, deadly: int = -1) -> None:
        self.rows, self.broken, self.deadly = rows, broken, deadly

    def __len__(self) -> int:
        return self.rows

    def row(self, index: int) -> tuple[np.ndarray, str]:
        if index == self.broken:
            raise ValueError("it is broken")
        if index == self.deadly:
            os._exit(3)
        return np.full(5, index, np.float32), f"row {index}"


def noisy(row: Any, generator: np.random.Generator) -> Any:
    return row[0] + generator.random(5, np.float32), row[1]


def as_bytes(batches: Any) -> list[tuple[bytes, list[str]]]:
    return [(x.tobytes(), words) for x, words in batches]


def pids(loader: data.Loader) -> list[int]:
    assert loader._pool is not None
    return [worker.process.pid or 0 for worker in loader._pool.workers]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def new(workers: int = 0, **arguments: Any) -> data.Loader:
    return data.Loader(Odd(50, **arguments), 4, shuffle=True, seed=5, augment=noisy, workers=workers)


@pytest.fixture(scope="module")
def pooled() -> Iterator[data.Loader]:
    with new(2) as loader:
        yield loader


def test_batches_are_those_without_workers(pooled: data.Loader) -> None:
    alone = new()
    pooled.load_state_dict(alone.state_dict())
    assert [as_bytes(pooled), as_bytes(pooled)] == [as_bytes(alone), as_bytes(alone)]
    processes = pids(pooled)
    list(pooled)
    assert pids(pooled) == processes, "an epoch takes the processes of the last"


def test_going_on_in_the_middle_with_another_number_of_workers(pooled: data.Loader) -> None:
    started = iter(pooled)
    for _ in range(3):
        next(started)
    state = pooled.state_dict()
    rest = as_bytes(started)
    alone = new()
    alone.load_state_dict(state)
    assert as_bytes(alone) == rest
    pooled.load_state_dict(state)
    assert as_bytes(pooled) == rest


def test_a_run_that_was_left_does_not_disturb_the_next(pooled: data.Loader) -> None:
    first = next(iter(pooled))
    batches = as_bytes(pooled)
    assert batches[0] == as_bytes([first])[0] and len(batches) == len(pooled)
    older = iter(pooled)
    next(older)
    newer = iter(pooled)
    next(newer)
    with pytest.raises(DataError, match="one loop at a time"):  # and does not wait for what will not come
        next(older)
    assert len(list(newer)) == len(pooled) - 1


def test_a_killed_worker_is_an_error(pooled: data.Loader) -> None:
    processes = []
    with pytest.raises(DataError, match=r"worker . of the loader has ended(.|\n)*killed by SIGKILL(.|\n)*memory"):
        for number, _ in enumerate(pooled):
            if number == 1:
                processes = pids(pooled)
                os.kill(processes[1], signal.SIGKILL)
    assert len(processes) == 2 and all(map(gone, processes))
    assert len(list(pooled)) == 13, "new processes go on"


def test_rows_that_workers_cannot_read() -> None:
    with new(1, broken=7) as loader:
        with pytest.raises(DataError, match=r"row 7 of Odd cannot be read(.|\n)*ValueError: it is broken") as error:
            list(loader)
        assert isinstance(error.value.__cause__, WorkerTraceback) and "in row" in str(error.value.__cause__)
        assert loader._pool is None
    with pytest.raises(DataError, match=r"worker 0 of the loader has ended(.|\n)*exit code 3"):
        list(new(1, deadly=7))


def test_closing_in_the_middle() -> None:
    loader = new(1)
    batches = iter(loader)
    next(batches)
    processes = pids(loader)
    loader.close()
    assert all(map(gone, processes))
    with pytest.raises(DataError, match="closed while it was gone over"):
        next(batches)


def test_what_cannot_be_sent() -> None:
    with pytest.raises(DataError, match=r"cannot be sent to worker processes(.|\n)*not lambdas"):
        list(data.Loader(data.Memory([1]).map(lambda row: row), workers=1))


ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

SCRIPT = """
import os, signal, sys, time
import numpy as np
from burn import data

def main(how):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # runs in the background ignore it
    loader = data.Loader(np.zeros((40, 50_000), np.float32), 4, workers=2)
    for batch in loader:
        print(*[w.process.pid for w in loader._pool.workers], flush=True)
        if how == "leave":
            return
        if how == "interrupt":
            os.kill(0, signal.SIGINT)  # as a terminal does, to workers too
        time.sleep(60)

if __name__ == "__main__":
    main(sys.argv[1])
"""


def started(tmp_path: Path, how: str) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), how],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=ENV,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["leave", "interrupt", "kill"])
def test_nothing_is_left(tmp_path: Path, how: str) -> None:
    process = started(tmp_path, how)
    assert process.stdout is not None
    workers = list(map(int, process.stdout.readline().split()))
    assert len(workers) == 2
    if how == "kill":
        process.kill()
    _, errors = process.communicate(timeout=600)  # of a machine that is busy; a hang is ended
    assert process.returncode == {"leave": 0, "interrupt": -signal.SIGINT, "kill": -signal.SIGKILL}[how]
    assert errors.count("Traceback") == (how == "interrupt"), errors
    deadline = time.monotonic() + 300
    while not all(map(gone, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert all(map(gone, workers))


def test_a_script_without_a_guard_is_told(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from burn import data\nprint(list(data.Loader([1, 2], workers=1)))\n")
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env=ENV,
    )
    assert done.returncode == 1 and "worker 0 of the loader has ended" in done.stderr
    assert 'needs `if __name__ == "__main__":`' in done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say what is stopped")
def test_a_worker_that_was_stopped_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_LOOK", 0.2)
    loader = data.Loader(list(range(100)), 1, workers=1)
    batches = iter(loader)
    next(batches)
    assert loader._pool is not None
    process = loader._pool.workers[0].process
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(DataError, match=rf"(?s)does not go on.*process {process.pid} was stopped.*kill -CONT"):
        list(batches)
    loader.close()
