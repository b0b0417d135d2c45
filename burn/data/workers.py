"""Worker processes of a loader. Worker w of n makes the batches w, w + n ... of the rest of an epoch.

Each worker has its own pipe and shares nothing: no locks that it could hold when it dies, no shared memory. It makes `prefetch`
batches, and one more for each batch that was consumed; a thread here reads its pipe. When a process ends, for any reason, its
pipe closes. Then the loader raises an error, and a worker exits.

Processes are spawned, not forked, because burn's threads do not survive a fork. So a script that makes workers needs the guard
`if __name__ == "__main__":`, and the workers' arguments must be picklable.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from burn.data.plan import Plan
from burn.errors import BurnError, DataError, Problem

_LOOK = 5.0
"""Seconds without an answer after which a worker is looked at."""
_PATIENCE = 2.0  # seconds that workers have to leave by themselves
_EXIT = 30.0  # seconds that a process may take to exit after its pipe was closed, on a busy machine


@dataclass(frozen=True)
class Begin:
    """An epoch, or what is left of it."""

    run: int
    epoch: int
    start: int
    step: int
    ahead: int


@dataclass(frozen=True)
class Batch:
    """A worker's answer."""

    run: int
    value: Any


@dataclass(frozen=True)
class Done:
    """There are no more batches of this worker's."""

    run: int


@dataclass(frozen=True)
class Failed:
    """An exception of a worker in a picklable form."""

    run: int
    summary: str
    problems: tuple[Problem, ...]
    trace: str


class Ended:
    """The worker is gone."""


class WorkerTraceback(Exception):
    """Where it was in the worker; the cause of the error that is raised here."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class Pool:
    """The worker processes of one plan. Raises DataError where the plan cannot be sent."""

    def __init__(self, plan: Plan, count: int, ahead: int) -> None:
        try:
            job = pickle.dumps(plan, protocol=5)
        except Exception as error:
            raise DataError(
                "the dataset cannot be sent to worker processes",
                [
                    Problem(
                        f"{type(error).__name__}: {error}",
                        hint="functions given to map, collate and augment are those of a module, not lambdas",
                    )
                ],
            ) from error
        self.ahead, self._run = ahead, 0
        self.workers = []
        try:
            for number in range(count):
                self.workers.append(Worker(number))
            for worker in self.workers:  # all of them are starting by now
                worker.tell(job)
        except BaseException:
            self.close()
            raise

    def batches(self, epoch: int, start: int) -> Iterator[Any]:
        """The batches of an epoch from `start` on, in order. Raises DataError for a row that cannot be read and for a worker
        that has ended."""
        self._run += 1
        step = len(self.workers)
        for worker in self.workers:
            worker.tell(Begin(self._run, epoch, start + worker.number, step, self.ahead))
        turn = 0
        while True:
            if not self.workers:
                raise DataError("a loader has been closed while it was gone over")
            worker = self.workers[turn % step]
            answer = worker.answer(self._run)
            if isinstance(answer, Done):
                return
            worker.tell(self._run)
            yield answer.value
            turn += 1

    def close(self) -> None:
        """Ends the processes and waits until they have."""
        for worker in self.workers:
            with contextlib.suppress(DataError):
                worker.tell(None)
        deadline = time.monotonic() + _PATIENCE
        for worker in self.workers:
            worker.end(deadline)
        self.workers = []


class Worker:
    """One process, seen from here."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._heard = False
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), name=f"burn-data-{number}", daemon=True)
        try:
            with _uninterrupted():
                self.process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            theirs.close()
        self._reader = threading.Thread(target=self._read, name=self.process.name, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while True:
                self._answers.put(pickle.loads(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            self._answers.put(Ended())
        except BaseException as error:
            self._answers.put(error)

    def tell(self, message: bytes | Begin | int | None) -> None:
        with contextlib.suppress(OSError):  # one that has ended is found by its answer
            self._pipe.send(message)

    def answer(self, run: int) -> Batch | Done:
        """The next message of a run."""
        stopped = False
        while True:
            try:
                answer = self._answers.get(timeout=_LOOK)
            except queue.Empty:
                stopped, before = _is_stopped(self.process.pid), stopped
                if stopped and before:
                    hint = f"kill -CONT {self.process.pid} has it go on"
                    problem = Problem(f"process {self.process.pid} was stopped by a signal", hint=hint)
                    raise DataError(f"worker {self.number} of the loader does not go on", [problem]) from None
                continue
            if isinstance(answer, Ended):
                self._answers.put(answer)  # for later calls
                raise self._ended()
            if isinstance(answer, BaseException):
                raise DataError(f"worker {self.number} sent what cannot be read", [str(answer)]) from answer
            self._heard = True
            if answer.run != run:  # of a run that was left
                continue
            if isinstance(answer, Failed):
                raise DataError(answer.summary, answer.problems) from WorkerTraceback(answer.trace)
            return answer

    def _ended(self) -> DataError:
        self.process.join(_EXIT)
        code = self.process.exitcode
        how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        hint = ""
        if not self._heard:
            hint = 'a script that makes workers needs `if __name__ == "__main__":`; what the process wrote says more'
        elif code == -signal.SIGKILL:
            hint = "the system kills processes when memory runs out"
        return DataError(
            f"worker {self.number} of the loader has ended",
            [Problem(f"process {self.process.pid}: {how}", hint=hint)],
        )

    def end(self, deadline: float) -> None:
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._reader.join(_PATIENCE)
        self._pipe.close()
        self.process.close()


def _is_stopped(pid: int | None) -> bool:
    """True if a process is stopped, as by SIGSTOP; False if the system has no such information."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is for the program, not for its workers: they are started with it blocked."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the worker -------------------------------------------------------------------------------------------------------
def work(pipe: Connection) -> None:
    """The main function of a worker: runs until it receives a stop message, or until its pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        _work(pipe)


def _work(pipe: Connection) -> None:
    job = pipe.recv()
    plan = functools.cache(lambda: pickle.loads(job))
    begin, allowed = Begin(0, 0, 0, 1, 0), 0
    batches: Iterator[Any] = iter(())
    while True:
        while not allowed or pipe.poll():
            message = pipe.recv()
            if message is None:
                return
            if isinstance(message, Begin):
                begin, allowed, batches = message, message.ahead, _batches(plan, message)
            elif message == begin.run:
                allowed += 1
        answer = _next(begin.run, batches)
        pipe.send_bytes(_packed(answer))
        allowed = allowed - 1 if isinstance(answer, Batch) else 0


def _batches(plan: Callable[[], Plan], begin: Begin) -> Iterator[Any]:
    yield from plan().batches(begin.epoch, begin.start, begin.step)


def _next(run: int, batches: Iterator[Any]) -> Batch | Done | Failed:
    try:
        for batch in batches:
            return Batch(run, batch)
        return Done(run)
    except Exception as error:
        return _failure(run, error)


def _packed(answer: Batch | Done | Failed) -> bytes:
    try:
        return pickle.dumps(answer, protocol=5)
    except Exception as error:  # a collation's results are anything
        return pickle.dumps(_failure(answer.run, error), protocol=5)


def _failure(run: int, error: Exception) -> Failed:
    trace = traceback.format_exc()
    if isinstance(error, DataError):
        return Failed(run, error.summary, error.problems, trace)
    problems = error.problems if isinstance(error, BurnError) else (Problem(f"{type(error).__name__}: {error}"),)
    return Failed(run, "a batch cannot be made", problems, trace)
