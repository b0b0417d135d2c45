"""Processes that compile kernels: `compiled` distributes sources over them, and `start` starts some before there are any sources.

Importing Triton takes as long as compiling a kernel. So the first processes start when the cache lacks a program, beside the
import of burn's compiler, and others beside the passes. They serve later compilations of this process too, and end when they have
been idle for some time.
"""

from __future__ import annotations

import atexit
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from burn.codegen.triton import worker
from burn.codegen.triton.sources import Machine, Source
from burn.codegen.triton.worker import Image
from burn.errors import CompileError

FIRST = 2
"""The processes that start before a program is read."""

_OPTIONS = "TRITON_"
"""Begins the environment variables that Triton's compiler reads."""

_WITHOUT_EFFECT = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_INTERPRET")
"""Those of them that do not change its code."""


def usable_cores() -> int:
    """Cores that this process may use, which can be fewer than the machine has: in containers, under taskset."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def variables() -> list[tuple[str, str]]:
    """The environment variables that Triton's code depends on, sorted."""
    return sorted((k, v) for k, v in os.environ.items() if k.startswith(_OPTIONS) and k not in _WITHOUT_EFFECT)


class _Worker:
    """variables: those of the environment at its start. Triton reads some of them only once."""

    def __init__(self) -> None:
        self.variables = variables()
        self.folder = tempfile.mkdtemp(prefix="burn-triton-")  # either process removes it, as the other may be killed
        load = f"import sys; sys.path[:] = {sys.path!r}; from burn.codegen.triton.worker import main"
        command = [sys.executable, "-c", f"{load}; main({self.folder!r})"]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def compiled(self, source: Source, machine: Machine) -> Image | str:
        """Raises EOFError or OSError if the process has ended."""
        given, answers = self.process.stdin, self.process.stdout
        assert given is not None and answers is not None
        worker.write(given, (source, machine))  # type: ignore[arg-type]
        return worker.read(answers)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        for file in (self.process.stdin, self.process.stdout):
            if file is not None:
                with suppress(OSError):
                    file.close()


class _Pool:
    """The idle processes. A forked child does not own those of its parent."""

    def __init__(self) -> None:
        self.lock, self.owner = threading.Lock(), os.getpid()
        self.idle: list[_Worker] = []

    def take(self) -> _Worker | None:
        """An idle process with the environment of now, None if there is none."""
        with self.lock:
            self._keep_fit()
            return self.idle.pop() if self.idle else None

    def give(self, found: _Worker) -> None:
        with self.lock:
            self._forget()
            self.idle.append(found)

    def start(self, count: int) -> None:
        """At least so many processes are idle then."""
        with self.lock:
            self._keep_fit()
            while len(self.idle) < count:
                self.idle.append(_Worker())

    def stop(self) -> None:
        with self.lock:
            self._forget()
            while self.idle:
                self.idle.pop().stop()

    def _keep_fit(self) -> None:
        """Ends the processes that cannot be used any more."""
        self._forget()
        wanted = variables()
        for found in [each for each in self.idle if not each.is_alive or each.variables != wanted]:
            self.idle.remove(found)
            found.stop()

    def _forget(self) -> None:
        if self.owner != os.getpid():
            self.owner, self.idle = os.getpid(), []


_pool = _Pool()
os.register_at_fork(after_in_child=lambda: setattr(_pool, "lock", threading.Lock()))


def start(count: int) -> None:
    """Starts processes, so that `count` are ready or on their way. A process that cannot start is reported by `compiled`."""
    with suppress(OSError):
        _pool.start(min(count, usable_cores()))


def begin() -> None:
    """Starts the processes for a small program, before there is one: a kernel, and often its variant for 64-bit indices."""
    if find_spec("triton") is not None:
        start(FIRST)


def stop() -> None:
    """Ends the idle processes."""
    _pool.stop()


atexit.register(stop)


def compiled(sources: Iterable[Source], machine: Machine) -> list[Image | str]:
    """The images in order, or for each kernel that fails the reason. A kernel is compiled while later sources are printed. Of
    those that wait, the one with the longest text is next. Raises CompileError if no process can compile."""
    todo: queue.PriorityQueue[tuple[int, int, Source | None]] = queue.PriorityQueue()
    made: dict[int, Image | str] = {}
    failures: list[BaseException] = []
    threads: list[threading.Thread] = []

    def serve() -> None:
        try:
            while not failures:
                _, number, source = todo.get()
                if source is None:
                    return
                made[number] = _one(source, machine)
        except BaseException as error:
            failures.append(error)

    count = 0
    try:
        for source in sources:
            todo.put((-len(source.text), count, source))
            count += 1
            if len(threads) < usable_cores():
                threads.append(threading.Thread(target=serve, daemon=True))
                threads[-1].start()
    finally:
        for number in range(len(threads)):
            todo.put((1, count + number, None))  # behind all sources
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return [made[number] for number in range(count)]


def _one(source: Source, machine: Machine) -> Image | str:
    """Idle processes end at the moment at which they get a source if they have waited too long, all of them together. So the
    second attempt starts a new process. Raises CompileError if that ends too, or cannot start."""
    problem: Any = None
    for is_second in (False, True):
        try:
            found = (None if is_second else _pool.take()) or _Worker()
        except OSError as error:
            raise CompileError("no process that compiles kernels can be started", [str(error)]) from error
        try:
            made = found.compiled(source, machine)
        except (EOFError, OSError) as error:
            found.stop()
            problem = f"it ended with status {found.process.returncode}"
            del error
            continue
        except BaseException:
            found.stop()
            raise
        _pool.give(found)
        return made
    raise CompileError("a process that compiles kernels failed", [f"{source.name}: {problem}"])
