"""The log of compilations (`BURN_LOG=compile`), and the warning about functions that compile again and again.

Each compilation, and each program taken from the cache on disk, is one record of the logger "burn.compile": the function, the
reason, the number of kernels and the time. `BURN_LOG=compile` prints the records to standard error.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from burn.variables import variable

if TYPE_CHECKING:
    import logging

MANY = 8
"""Compilations of one function that are worth a warning."""

_NAME = "burn.compile"
_about: ContextVar[tuple[str, str]] = ContextVar("about", default=("", ""))
T = TypeVar("T")


class RecompileWarning(UserWarning):
    """A function was compiled many times, each time for another signature."""


class Reason(NamedTuple):
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
    logger = _logger()
    if logger is None:
        return make()
    start = time.perf_counter()
    made = make()
    subject, reason = _about.get()
    if (count := kernels(made)) is None:
        return made
    took = f"{'from the cache' if cached else 'compiled'} in {(time.perf_counter() - start) * 1e3:.0f} ms"
    size = f"{count} kernel{'s' * (count != 1)}"
    logger.info(": ".join(filter(None, (subject or "a program", reason, f"{size}, {took}"))))
    return made


def _logger() -> logging.Logger | None:
    """The logger of compilations; None if it is off. A process that has not imported `logging` has no handlers."""
    prints = variable("BURN_LOG") == "compile"
    if not prints and "logging" not in sys.modules:
        return None
    import logging

    logger = logging.getLogger(_NAME)
    if prints and not any(handler.get_name() == _NAME for handler in logger.handlers):
        handler = logging.StreamHandler()  # standard error, as "burn: f: ..."
        handler.set_name(_NAME)
        handler.setFormatter(logging.Formatter("burn: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    return logger if logger.isEnabledFor(logging.INFO) else None


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
