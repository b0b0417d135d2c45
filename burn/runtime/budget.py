"""Budgets: limits on bytes and seconds of a load, a compilation or a run.

`limited` enforces a budget around a block of Python. A thread watches the clock and the memory that the process has
allocated, and ends the block with BudgetExceeded. Programs that the block runs, such as those that fold constants, have the
budget as a limit in the runtime. Native code, such as LLVM's passes over one module, is interrupted only when it returns.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from burn.errors import BudgetExceeded, Problem, TimeBudgetError, TypeMismatch
from burn.runtime.cache import parse_size

_INTERVAL = 0.01  # seconds between two looks at the memory


class Limits(NamedTuple):
    """Limits of a run: bytes of intermediate results and outputs, and seconds. 0: no limit."""

    bytes: int = 0
    seconds: float = 0.0

    @staticmethod
    def of(max_memory: int | str | None = None, max_seconds: float | None = None) -> Limits:
        """max_memory: bytes, or a text such as "2GB". Raises TypeMismatch for what is no size or no time, and BurnError for a
        malformed text."""
        given = parse_size(max_memory, "max_memory") if isinstance(max_memory, str) else max_memory
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given <= 0):
            raise TypeMismatch(
                "max_memory is a number of bytes from 1 on, or a text such as '2GB'", [f"not {max_memory!r}"]
            )
        seconds = 0.0 if max_seconds is None else max_seconds
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not is_number or not (max_seconds is None or seconds > 0) or math.isnan(seconds):
            raise TypeMismatch("max_seconds is a number above 0", [f"not {max_seconds!r}"])
        return Limits(given or 0, 0.0 if math.isinf(seconds) else float(seconds))

    def __bool__(self) -> bool:
        return bool(self.bytes or self.seconds)


class _Spent(BaseException):
    """Raised in the watched thread; none that code of a compilation handles."""


class _Budget(NamedTuple):
    limits: Limits
    began: float

    def left(self) -> Limits:
        """For a program that runs inside of the block."""
        seconds = self.limits.seconds and max(self.began + self.limits.seconds - time.monotonic(), 1e-3)
        return Limits(self.limits.bytes, seconds)


_current: ContextVar[_Budget | None] = ContextVar("budget", default=None)


def left() -> Limits:
    """The rest of the budget of the surrounding block; no limits without a budget."""
    budget = _current.get()
    return Limits() if budget is None else budget.left()


@contextmanager
def limited(limits: Limits, what: str) -> Iterator[None]:
    """Ends the block when its limits are passed. what: "loading model.onnx". Raises BudgetExceeded, which names the limit."""
    if not limits:
        yield
        return
    budget = _Budget(limits, time.monotonic())
    token = _current.set(budget)
    watch = _Watch(limits)
    try:
        with watch:
            yield
    except _Spent:
        raise BudgetExceeded(f"{what} was ended", [watch.problem()]) from None
    except TimeBudgetError:  # of a program that was run meanwhile, whose limit was the rest of this one
        raise BudgetExceeded(f"{what} was ended", [watch.problem()]) from None
    except BudgetExceeded as error:
        raise BudgetExceeded(f"{what} was ended", error.problems) from None
    finally:
        _current.reset(token)


class _Watch:
    """A thread that raises _Spent in the one that entered."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.why = ""
        self.took = 0

    def __enter__(self) -> None:
        self.target = threading.get_ident()
        self.deadline = time.monotonic() + self.limits.seconds if self.limits.seconds else math.inf
        self.before = allocated() if self.limits.bytes else 0
        self.thread = threading.Thread(target=self._run, name="burn-budget", daemon=True)
        self.thread.start()

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.done.set()
            if self.why:  # and was perhaps not delivered yet
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.target), None)
        self.thread.join()
        if self.why and error[0] is None:
            raise _Spent

    def _run(self) -> None:
        while not self.done.wait(
            min(_INTERVAL if self.limits.bytes else 60.0, max(self.deadline - time.monotonic(), 0))
        ):
            if time.monotonic() >= self.deadline:
                self._end("seconds")
            elif self.limits.bytes and (took := allocated() - self.before) > self.limits.bytes:
                self.took = took
                self._end("bytes")
            if self.why:
                return

    def _end(self, why: str) -> None:
        with self.lock:
            if not self.done.is_set():
                self.why = why
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.target), ctypes.py_object(_Spent))

    def problem(self) -> Problem:
        if self.why == "bytes":
            return Problem(
                f"it took {self.took:,} bytes of memory, and its limit (max_memory) is {self.limits.bytes:,}"
            )
        return Problem(f"it took longer than its limit (max_seconds), {self.limits.seconds:g} s")


def allocated() -> int:
    """Bytes of memory that this process has, without pages of mapped files; 0 where the system does not say."""
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return 0
