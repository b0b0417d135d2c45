"""A line that shows how far training is: rewritten in a terminal, one line an epoch elsewhere; a table at the end."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, TextIO

from burn.train.events import (
    Control,
    EpochEnded,
    Event,
    Finished,
    Started,
    Stepped,
    Stopped,
    ValidStepped,
    Warned,
)
from burn.train.report import duration, spelled

EVERY = 0.1  # seconds between two looks of the line


class ProgressLine:
    """Writes to a stream, stdout unless another is given."""

    only_first = True  # see Observer

    def __init__(self, stream: TextIO | None = None) -> None:
        self._given = stream
        self._started: Started | None = None
        self._drawn = 0.0
        self._seconds = 0.0  # of a step, a running mean

    @property
    def _stream(self) -> TextIO:
        return self._given or sys.stdout

    def __call__(self, event: Event, control: Control) -> None:
        match event:
            case Started():
                self._started, self._seconds = event, 0.0
                if event.step:
                    self._line(f"{event.run}: goes on behind step {event.step}")
                self._draw(f"{self._epoch(event.epoch)}  compiling the step", last=True)
            case Stepped():
                self._seconds = event.seconds if not self._seconds else 0.95 * self._seconds + 0.05 * event.seconds
                self._draw(self._step(event), last=control.stopping)
            case ValidStepped():
                total = self._started.valid_batches if self._started else None
                self._draw(f"{self._epoch(event.epoch)}  validation {_of(event.batch, total)}")
            case EpochEnded():
                self._line(f"{self._epoch(event.epoch)}  {_values(event)}  {duration(event.seconds)}")
            case Warned():
                self._line(f"warning: {event.text}")
            case Stopped():
                self._line(f"{event.reason}: stopped after step {event.step}")
            case Finished():
                self._line(str(event.summary) if not event.summary.error else "")
            case _:
                pass

    def _epoch(self, epoch: int) -> str:
        return f"epoch {_of(epoch, self._started.epochs if self._started else None)}"

    def _step(self, event: Stepped) -> str:
        total = self._started.batches if self._started else None
        shown = "  ".join(f"{name} {spelled(value)}" for name, value in event.values.items())
        left = f"  {duration(self._seconds * (total - event.batch))} left" if total else ""
        return f"{self._epoch(event.epoch)}  {_of(event.batch, total)}  {shown}{left}"

    def _draw(self, text: str, last: bool = False) -> None:
        """Replaces the shown text, in a terminal only."""
        now = time.monotonic()
        if not _is_terminal(self._stream) or (now - self._drawn < EVERY and not last):
            return
        self._drawn = now
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()

    def _line(self, text: str) -> None:
        """Shows text that stays."""
        start = "\r\x1b[K" if _is_terminal(self._stream) else ""
        if text or start:
            self._stream.write(f"{start}{text}\n" if text else start)
            self._stream.flush()


def _of(number: int, total: int | None) -> str:
    return f"{number}/{total}" if total is not None else str(number)


def _values(event: EpochEnded) -> str:
    """Every metric, validation's value behind that of training."""
    shown = []
    for name, value in event.train.items():
        other = f" ({spelled(event.valid[name])})" if name in event.valid else ""
        shown.append(f"{name} {spelled(value)}{other}")
    return "  ".join(shown)


def _is_terminal(stream: Any) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)())
