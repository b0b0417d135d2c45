"""Runs cases in worker processes, so that a crash or a hang fails one case and no other.

A worker is used for case after case and replaced when it dies or runs out of time. Workers are forked from a process
that has imported the engine but started no thread, which makes replacing one cheap. A process that has used JAX has threads:
its workers are spawned, because a fork may deadlock.
"""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")

MEMORY = 12 << 30  # bytes of address space for a worker: compilers reserve much, a runaway allocation exceeds it


@dataclass
class Died:
    """The report on a task whose worker did not answer."""

    reason: str  # "crash" or "timeout"
    message: str


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    log: Path
    task: int = -1
    deadline: float = 0.0


@dataclass
class Pool(Generic[Task, Answer]):
    """`run(function, tasks)` yields (index, answer or Died) as tasks end. `preload` names modules that workers need."""

    function: Callable[[Task], Answer]
    jobs: int = 2
    timeout: float = 30.0
    preload: Sequence[str] = ()
    memory: int = MEMORY
    _logs: Any = field(init=False)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Answer | Died]]:
        for name in self.preload:
            with suppress(ImportError):  # a worker will report it, case by case
                importlib.import_module(name)
        waiting = iter(range(len(tasks)))
        with tempfile.TemporaryDirectory() as self._logs:
            workers = [self._start(number) for number in range(min(self.jobs, max(1, len(tasks))))]
            try:
                busy = [worker for worker in workers if self._give(worker, tasks, waiting)]
                while busy:
                    yield from self._collect(busy, workers, tasks, waiting)
            finally:
                for worker in workers:
                    worker.process.kill()
                    worker.process.join()

    def _collect(
        self, busy: list[_Worker], workers: list[_Worker], tasks: Sequence[Task], waiting: Iterator[int]
    ) -> Iterator[tuple[int, Answer | Died]]:
        """Waits for at least one worker to answer, die or run out of time."""
        first = min(worker.deadline for worker in busy)
        ready = wait([worker.pipe for worker in busy], max(0.0, first - time.monotonic()))
        for worker in list(busy):
            if worker.pipe in ready:
                try:
                    answer = worker.pipe.recv()
                except (EOFError, OSError):
                    worker.process.join()
                    answer = Died("crash", _how_it_died(worker))
            elif time.monotonic() >= worker.deadline:
                answer = Died("timeout", f"no answer after {self.timeout:g} seconds")
            else:
                continue
            yield worker.task, answer
            busy.remove(worker)
            if isinstance(answer, Died):
                worker.process.kill()
                worker.process.join()
                number = workers.index(worker)
                worker = workers[number] = self._start(number)
            if self._give(worker, tasks, waiting):
                busy.append(worker)

    def _start(self, number: int) -> _Worker:
        forks = "fork" in multiprocessing.get_all_start_methods() and not jax_was_used()
        context: Any = multiprocessing.get_context("fork" if forks else "spawn")
        ours, theirs = context.Pipe()
        log = Path(self._logs) / f"worker{number}.log"
        process = context.Process(target=_work, args=(self.function, theirs, log, self.memory), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, log)

    def _give(self, worker: _Worker, tasks: Sequence[Task], waiting: Iterator[int]) -> bool:
        worker.task = next(waiting, -1)
        if worker.task < 0:
            return False
        worker.deadline = time.monotonic() + self.timeout
        with suppress(OSError):  # it died while idle: the next wait says so
            worker.pipe.send(tasks[worker.task])
        return True


def jax_was_used() -> bool:
    """True if this process has a back end of JAX, whose threads a forked process lacks."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())


def _work(function: Callable[[Any], Any], pipe: Connection, log: Path, memory: int) -> None:
    """The main loop of a worker. Its output goes to a log, whose end explains a crash."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError, ValueError, OSError):
        import resource

        if memory:  # 0: as much as there is
            resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    faulthandler.enable(output)
    os.dup2(output, 1)
    os.dup2(output, 2)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        os.ftruncate(output, 0)
        try:
            answer = function(task)
        except BaseException:
            answer = Died("crash", traceback.format_exc())
        pipe.send(answer)


def _how_it_died(worker: _Worker) -> str:
    code = worker.process.exitcode
    how = f"exit code {code}"
    if code is not None and code < 0:
        with suppress(ValueError):
            how = signal.Signals(-code).name
    text = worker.log.read_text(errors="replace").strip() if worker.log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = ("Assert", "error", "Error", "LLVM", "terminate")
    telling = next((line for line in lines if any(word in line for word in words)), lines[0] if lines else "")
    frame = next((line for line in lines if line.startswith("File ")), "")  # the innermost comes first
    return ": ".join(part for part in (how, telling, frame) if part)
