"""The log of compilations (`BURN_LOG=compile`), and the warning about functions that compile again and again.

Each compilation, and each program taken from the cache on disk, is one record of the logger "burn.compile": the function, the
reason, the number of kernels and the time. `BURN_LOG=compile` prints the records to standard error.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from burn.variables import variable

MANY = 8
"""Compilations of one function that are worth a warning."""

_LOGGER = logging.getLogger("burn.compile")
_about: ContextVar[tuple[str, str]] = ContextVar("about", default=("", ""))
T = TypeVar("T")


class RecompileWarning(UserWarning):
    """A function was compiled many times, each time for another signature."""


@dataclass(frozen=True)
class Reason:
    """kind: equal for compilations that have one remedy, "the shape of 'x' differs". detail: of this one, "float32[3]"."""

    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@contextmanager
def about(subject: str, reason: Reason | str) -> Iterator[None]:
    """Names what is compiled inside, and why."""
    token = _about.set((subject, str(reason)))
    try:
        yield
    finally:
        _about.reset(token)


def logged(make: Callable[[], T], kernels: Callable[[T], int | None], cached: bool = False) -> T:
    """The result of `make`, with a record of its time. kernels: how many the result has; None for nothing, which is no record."""
    if not _is_on():
        return make()
    start = time.perf_counter()
    made = make()
    subject, reason = _about.get()
    if (count := kernels(made)) is None:
        return made
    took = f"{'from the cache' if cached else 'compiled'} in {(time.perf_counter() - start) * 1e3:.0f} ms"
    size = f"{count} kernel{'s' * (count != 1)}"
    _LOGGER.info(": ".join(filter(None, (subject or "a program", reason, f"{size}, {took}"))))
    return made


def _is_on() -> bool:
    if variable("BURN_LOG") == "compile" and not any(isinstance(h, _Printer) for h in _LOGGER.handlers):
        _LOGGER.addHandler(_Printer())
        _LOGGER.setLevel(logging.INFO)
    return _LOGGER.isEnabledFor(logging.INFO)


class _Printer(logging.StreamHandler):
    """Standard error, as "burn: f: ..."."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("burn: %(message)s"))


@dataclass
class History:
    """The compilations of one function: it warns once, after `MANY`."""

    reasons: list[Reason] = field(default_factory=list)
    warned: bool = False

    def add(self, subject: str, reason: Reason) -> None:
        self.reasons.append(reason)
        if len(self.reasons) < MANY or self.warned:
            return
        self.warned = True
        kind, count = Counter(each.kind for each in self.reasons[1:]).most_common(1)[0]
        last = next(each for each in reversed(self.reasons) if each.kind == kind)
        latest = f" (at last {last.detail})" if last.detail else ""
        warnings.warn(
            f"{subject} was compiled {len(self.reasons)} times, {count} of them because {kind}{latest}. Name sizes that vary "
            "with dynamic=, and pass numbers that vary as tensors; BURN_LOG=compile lists all compilations",
            RecompileWarning,
            stacklevel=4,  # the caller of the compiled function
        )
