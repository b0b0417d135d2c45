"""Many models in processes of their own: they compile at once, and one at a time is timed while the others are stopped.

Enter at `rows`.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from zoo.settings import READY, Setting

TIMING = 60.0
"""Seconds after which the others go on although a model is still being timed: it may wait for one of them."""
LAST = 12.0
"""Seconds before the end at which models that are not compiled are given up."""
QUIET = 0.1
"""Seconds in which the kernels of stopped processes end."""


@dataclass(eq=False)
class Job:
    """A process with a model: `process` compiles it, says READY, and times it after a line of input."""

    entry: Mapping[str, str]
    setting: Setting
    errors: IO[str]
    process: subprocess.Popen[str]
    started: float = field(default_factory=time.monotonic)
    row: str | None = None

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        self._signal(signal.SIGKILL)

    def result(self, why: str = "") -> dict[str, Any]:
        """The row, or a row that says why there is none."""
        if self.row is not None:
            return json.loads(self.row)
        self.errors.seek(0)
        return {**self.entry, **self.setting.row(), "failed": why or self.errors.read()[-600:]}

    def _signal(self, number: int) -> None:
        for process in descendants(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, number)


def descendants(root: int) -> list[int]:
    """A process and those that it started, and they in turn."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()  # a name may have spaces and parentheses
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


class Schedule:
    def __init__(self, script: Path, jobs: int, seconds: float, timeout: float) -> None:
        """script: run as `script one ENTRY SETTING`. jobs: processes at a time. seconds: until no model runs any more. timeout:
        seconds for one to compile."""
        self.script, self.jobs, self.timeout = script, jobs, timeout
        self.end = time.monotonic() + seconds
        self.running: list[Job] = []
        self.ready: list[Job] = []
        self.timed: Job | None = None
        self.news: queue.Queue[tuple[Job, str | None]] = queue.Queue()

    def rows(self, work: Sequence[tuple[Mapping[str, str], Setting]]) -> Iterator[dict[str, Any]]:
        """Results as they come. Models that the time does not suffice for have no row."""
        waiting = list(work)
        while True:
            late = time.monotonic() > self.end - LAST
            while not late and waiting and len(self.running) < self.jobs:
                self.running.append(self._start(*waiting.pop(0)))
            if not self.running:
                break
            if late:
                self._give_up([job for job in self.running if job not in (*self.ready, self.timed)])
            self._time_next()
            yield from self._hear()
            yield from self._overdue()
        print(f"{len(waiting)} models are left", flush=True)

    def _start(self, entry: Mapping[str, str], setting: Setting) -> Job:
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # the job reads it later
        command = [sys.executable, str(self.script), "one", json.dumps(entry), setting.text()]
        pipe = subprocess.PIPE
        job = Job(entry, setting, errors, subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True))

        def read() -> None:
            assert job.process.stdout is not None
            for line in job.process.stdout:
                self.news.put((job, line))
            self.news.put((job, None))

        threading.Thread(target=read, daemon=True).start()
        return job

    def _time_next(self) -> None:
        if self.timed is not None or not self.ready:
            return
        self.timed = self.ready.pop(0)
        for job in self.running:
            if job is not self.timed:
                job.stop()
        time.sleep(QUIET)
        self.timed.started = time.monotonic()
        assert self.timed.process.stdin is not None
        with suppress(BrokenPipeError):
            self.timed.process.stdin.write("\n")
            self.timed.process.stdin.flush()

    def _hear(self) -> Iterator[dict[str, Any]]:
        try:
            job, line = self.news.get(timeout=1)
        except queue.Empty:
            return
        if line is None:
            job.process.wait()
            if job in self.running:  # else it was given up
                yield job.result()
            self._forget(job)
        elif line.strip() == READY:
            self.ready.append(job)
        elif line.startswith("{"):
            job.row = line

    def _overdue(self) -> Iterator[dict[str, Any]]:
        now = time.monotonic()
        if self.timed is not None and now > self.timed.started + TIMING:
            self._go_on()
        for job in list(self.running):
            if now > job.started + self.timeout:
                yield job.result(f"took more than {self.timeout:g} s")
                self._give_up([job])

    def _give_up(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.end()
            self._forget(job)

    def _forget(self, job: Job) -> None:
        for jobs in (self.running, self.ready):
            if job in jobs:
                jobs.remove(job)
        if job is self.timed:
            self._go_on()
            self.timed = None

    def _go_on(self) -> None:
        for job in self.running:
            job.go_on()
