"""Files that a thread writes while the program goes on. The process does not end before they are written.

A process that is killed leaves a temporary file, which the cache removes a day later.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

_pending: dict[Path, threading.Thread] = {}
_lock = threading.Lock()


def later(path: Path, write: Callable[[], None]) -> None:
    """Calls `write`, which writes the file, in a thread of its own; in this thread if none can be started, as at the end of the
    process."""

    def run() -> None:
        try:
            write()
        finally:
            with _lock:
                if _pending.get(path) is thread:
                    del _pending[path]

    thread = threading.Thread(target=run, name="burn-cache", daemon=False)
    with _lock:
        before = _pending.get(path)
    if before is not None:
        before.join()
    with _lock:  # others wait for a thread only after it has started
        try:
            thread.start()
        except RuntimeError:
            is_started = False
        else:
            is_started = True
            _pending[path] = thread
    if not is_started:
        write()


def wait_for(path: Path) -> None:
    """Returns when the file is written, if a thread of this process writes it."""
    if _pending:
        with _lock:
            thread = _pending.get(path)
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def wait() -> None:
    """Returns when all files are written."""
    for path in list(_pending):
        wait_for(path)


def _forget() -> None:
    """A child of fork has none of its parent's threads."""
    global _lock
    _lock = threading.Lock()
    _pending.clear()


os.register_at_fork(after_in_child=_forget)
