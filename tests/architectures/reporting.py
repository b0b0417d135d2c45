"""An exception as one line. Enter at `told`."""

from __future__ import annotations

import inspect
from typing import Any

import burn

SHOWN = 1500


def told(error: Any) -> str:
    """An exception's type and text; for one that is not burn's own also the line of burn that raised it."""
    while getattr(error, "inner_exception", None) is not None:
        error = error.inner_exception
    frames = reversed(inspect.getinnerframes(error.__traceback__))
    where = next((f"{f.filename.rpartition('/burn/')[2]}:{f.lineno}" for f in frames if "/burn/" in f.filename), "")
    where = "" if isinstance(error, burn.BurnError) else where
    text = " ".join(str(error).split())
    text = text.partition("## Exception summary ")[2] or text  # torch's exporter gives advice first
    return f"{type(error).__name__}: {text[:SHOWN]} {where}".strip()
