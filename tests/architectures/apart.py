"""A function in a process of its own, which may crash, hang or run out of memory.

Enter at `apart`; `Apart` is for several at once."""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from tests.onnx_suite.pool import Died

Send = Callable[[Any], None]
PR_SET_PDEATHSIG = 1  # of Linux's prctl


class Ended(Exception):
    """The process has ended by itself."""


class Apart:
    """A forked process that runs a function, and what the function sends.

    timeout: seconds between two messages; `deadline` is that of the next one."""

    def __init__(self, function: Callable[[Send], None], timeout: float) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe(duplex=False)
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed in `end`
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self._process = context.Process(target=_child, args=(function, theirs, self._log.fileno()))
        self._process.start()
        theirs.close()

    def take(self) -> Any:
        """The next message, waited for; `Died` after a crash, or at the deadline. Raises Ended."""
        if not self.pipe.poll(max(0.0, self.deadline - time.monotonic())):
            self.end()
            return Died("timeout", f"no answer after {self.timeout:g} seconds")
        try:
            message = self.pipe.recv()
            self.deadline = time.monotonic() + self.timeout
            return message
        except (EOFError, OSError):
            self._process.join()
            code, why = self._process.exitcode, _reason(self._process.exitcode, self._log)
            self.end()
            if code:
                return Died("crash", why)
            raise Ended from None

    def end(self) -> None:
        """Ends the process if it still runs."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        self._log.close()


def apart(function: Callable[[Send], None], timeout: float) -> Iterator[Any]:
    """The values that a function sends from a process of its own, as they come; `Died` last if the process crashed."""
    process = Apart(function, timeout)
    try:
        while True:
            message = process.take()
            yield message
            if isinstance(message, Died):
                return
    except Ended:
        return
    finally:
        process.end()


def _child(function: Callable[[Send], None], pipe: Connection, log: int) -> None:
    """The output of the process explains a crash. The process dies with its parent."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(log)
    function(pipe.send)
    pipe.close()


def _reason(code: int, log: Any) -> str:
    how = f"exit code {code}"
    with suppress(ValueError):
        how = signal.Signals(-code).name if code < 0 else how
    log.seek(0)
    lines = [line.strip() for line in log.read()[-20_000:].splitlines() if line.strip()]
    words = ("Assert", "rror", "LLVM", "terminate")
    telling = [line for line in lines if any(word in line for word in words)]
    told = next(
        (line for line in reversed(telling) if not line.startswith("Fatal Python error")), "".join(telling[-1:])
    )
    frame = next((line for line in lines if line.startswith("File ")), "")  # the innermost comes first
    return ": ".join(part for part in (how, told or "".join(lines[-1:]), frame) if part)


class limited:
    """Raises TimeoutError in a block that takes more than so many seconds of CPU time. In a process's main thread only."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGPROF, self._raise)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _raise(self, *_: object) -> None:
        raise TimeoutError(f"no end after {self.seconds:g} seconds of CPU time")
