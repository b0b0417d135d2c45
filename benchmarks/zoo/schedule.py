"""Many models in processes of their own: they compile at once, and on each GPU one is timed while that GPU's others are stopped.

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
from collections.abc import Iterator, Mapping, Sequence, Set
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
SLICE = 8
"""Cores of a process that compiles: more of them shorten one compilation little, and each starts a process that takes memory."""
MEMORY = ("out of memory", "OutOfMemory", "RESOURCE_EXHAUSTED")
"""In errors of engines that found the memory of the GPU taken."""

Work = tuple[Mapping[str, str], Setting]


@dataclass(eq=False)
class Job:
    """A process with a model: `process` compiles it, says READY, and times it after a line of input. alone: no other process
    uses its GPU meanwhile. steps: the lines that it has printed besides."""

    entry: Mapping[str, str]
    setting: Setting
    errors: IO[str]
    process: subprocess.Popen[str]
    alone: bool
    started: float = field(default_factory=time.monotonic)
    row: str | None = None
    steps: list[str] = field(default_factory=list)

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        self._signal(signal.SIGKILL)

    def move(self, cores: Set[int]) -> None:
        """Its threads run on these cores from now on."""
        for process in descendants(self.process.pid):
            with suppress(OSError):  # it has ended
                for thread in os.listdir(f"/proc/{process}/task"):
                    with suppress(ProcessLookupError):
                        os.sched_setaffinity(int(thread), cores)

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


def has_no_memory(row: Mapping[str, Any]) -> bool:
    """True if an engine failed because other processes had taken the GPU's memory, or its own engines together did."""
    return any(sign in value for key, value in row.items() if key.endswith("failed") for sign in MEMORY)


@dataclass(eq=False)
class Lane:
    """A GPU. timing: the cores on which its model is timed; no process that compiles uses them."""

    gpu: str | None
    timing: Set[int]
    running: list[Job] = field(default_factory=list)
    ready: list[Job] = field(default_factory=list)
    timed: Job | None = None

    @property
    def weight(self) -> int:
        return sum(job.setting.weight for job in self.running)

    @property
    def is_taken(self) -> bool:
        return any(job.alone for job in self.running)


class Cores:
    """Cores to compile on, and some for each GPU to time on. Where there are few, all do both."""

    def __init__(self, gpus: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        kept = 2 if len(cores) >= 8 * gpus else 0
        self.timing = [set(cores[kept * i : kept * (i + 1)]) or set(cores) for i in range(gpus)]
        self.compiling = cores[kept * gpus :]
        self._next = 0

    def slice(self) -> set[int]:
        """Those of one process that compiles: processes overlap, and together use all."""
        start, count = self._next, min(SLICE, len(self.compiling))
        self._next += count
        return {self.compiling[(start + i) % len(self.compiling)] for i in range(count)}


class Schedule:
    def __init__(
        self, script: Path, jobs: int, seconds: float, timeout: float, gpus: Sequence[str | None] = (None,)
    ) -> None:
        """script: run as `script one ENTRY SETTING`. jobs: the most weight of processes on each GPU (`Setting.weight`). seconds:
        until no model runs any more. timeout: seconds for one to compile. gpus: as CUDA_VISIBLE_DEVICES has them; None is the
        only one."""
        self.script, self.jobs, self.timeout = script, jobs, timeout
        self.end = time.monotonic() + seconds
        self.cores = Cores(len(gpus))
        self.lanes = [Lane(gpu, timing) for gpu, timing in zip(gpus, self.cores.timing, strict=True)]
        self.waiting: list[Work] = []
        self.again: dict[int, tuple[Work, dict[str, Any]]] = {}
        self.news: queue.Queue[tuple[Lane, Job, str | None]] = queue.Queue()

    def rows(self, work: Sequence[Work]) -> Iterator[dict[str, Any]]:
        """Results as they come. Models that the time does not suffice for have no row. A model whose engine finds no memory runs
        again when its GPU is free, and keeps its first row if the time ends before."""
        self.waiting = list(work)
        while True:
            late = time.monotonic() > self.end - LAST
            for lane in self.lanes:
                if late:
                    unfinished = [job for job in lane.running if job not in (*lane.ready, lane.timed)]
                    for job in unfinished:
                        print(f"given up: {job.entry['name']} {job.setting.text()}: {', '.join(job.steps)}", flush=True)
                    self._give_up(lane, unfinished)
                else:
                    self._fill(lane)
            if not any(lane.running for lane in self.lanes):
                break
            for lane in self.lanes:
                self._time_next(lane)
            yield from self._hear()
            for lane in self.lanes:
                yield from self._overdue(lane)
        yield from (row for _, row in self.again.values())
        print(f"{len(self.waiting) + len(self.again)} models are left", flush=True)

    def _fill(self, lane: Lane) -> None:
        """Starts what fits."""
        while self.waiting and not lane.is_taken:
            entry, setting = self.waiting[0]
            if lane.running and lane.weight + setting.weight > self.jobs:
                return
            del self.waiting[0]
            lane.running.append(self._start(lane, entry, setting))
        if self.again and not lane.running:
            (entry, setting), _ = self.again.pop(next(iter(self.again)))
            lane.running.append(self._start(lane, entry, setting, alone=True))

    def _start(self, lane: Lane, entry: Mapping[str, str], setting: Setting, alone: bool = False) -> Job:
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # the job reads it later
        command = [sys.executable, str(self.script), "one", json.dumps(entry), setting.text()]
        environment = None if lane.gpu is None else {**os.environ, "CUDA_VISIBLE_DEVICES": lane.gpu}
        pipe, mine = subprocess.PIPE, os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cores.slice())  # the process inherits them
        try:
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=environment)
        finally:
            os.sched_setaffinity(0, mine)
        job = Job(entry, setting, errors, process, alone)

        def read() -> None:
            assert job.process.stdout is not None
            for line in job.process.stdout:
                self.news.put((lane, job, line))
            self.news.put((lane, job, None))

        threading.Thread(target=read, daemon=True).start()
        return job

    def _time_next(self, lane: Lane) -> None:
        if lane.timed is not None or not lane.ready:
            return
        lane.timed = lane.ready.pop(0)
        for job in lane.running:
            if job is not lane.timed:
                job.stop()
        lane.timed.move(lane.timing)
        time.sleep(QUIET)
        lane.timed.started = time.monotonic()
        assert lane.timed.process.stdin is not None
        with suppress(BrokenPipeError):
            lane.timed.process.stdin.write("\n")
            lane.timed.process.stdin.flush()

    def _hear(self) -> Iterator[dict[str, Any]]:
        try:
            lane, job, line = self.news.get(timeout=1)
        except queue.Empty:
            return
        if line is None:
            job.process.wait()
            if job in lane.running:  # else it was given up
                yield from self._finished(job)
            self._forget(lane, job)
        elif line.strip() == READY:
            lane.ready.append(job)
        elif line.startswith("{"):
            job.row = line
        else:
            job.steps.append(line.strip())

    def _finished(self, job: Job) -> Iterator[dict[str, Any]]:
        row = job.result()
        if has_no_memory(row) and not job.alone:
            self.again[id(job)] = ((job.entry, job.setting), row)
        else:
            yield row

    def _overdue(self, lane: Lane) -> Iterator[dict[str, Any]]:
        now = time.monotonic()
        if lane.timed is not None and now > lane.timed.started + TIMING:
            self._go_on(lane)
        for job in list(lane.running):
            if job not in lane.ready and now > job.started + self.timeout:
                yield job.result(f"took more than {self.timeout:g} s; {', '.join(job.steps)}")
                self._give_up(lane, [job])

    def _give_up(self, lane: Lane, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.end()
            self._forget(lane, job)

    def _forget(self, lane: Lane, job: Job) -> None:
        for jobs in (lane.running, lane.ready):
            if job in jobs:
                jobs.remove(job)
        if job is lane.timed:
            self._go_on(lane)
            lane.timed = None

    def _go_on(self, lane: Lane) -> None:
        for job in lane.running:
            job.go_on()
