"""Silences warnings of torch about its own code, which mean nothing to burn's user."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Without torch's complaints about how torch copies its tree specs. Gives what torch logs as the reason for an error
    that it raises without one."""
    reasons = _Reasons()
    log = logging.getLogger("torch.export")
    before = log.propagate
    log.addHandler(reasons)
    log.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*LeafSpec.*", category=FutureWarning)
            yield reasons.texts
    finally:
        log.removeHandler(reasons)
        log.propagate = before


class _Reasons(logging.Handler):
    """Keeps the errors that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.texts.append(str(record.exc_info[1]).strip())
