"""Logs that last: JSON lines, and TensorBoard's files.

A line is one step or one epoch: {"event": "step", "epoch": 1, "batch": 3, "step": 3, "lr": .., "values": {"loss": ..}}.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from burn.errors import BurnError, Problem
from burn.runtime.files import whole
from burn.train.events import (
    Control,
    EpochEnded,
    Event,
    Finished,
    Saved,
    Started,
    Stepped,
    Stopped,
    Values,
    Warned,
)


class JsonLines:
    """Writes events to a file, one a line, flushed after every epoch. A training that is resumed goes on in the same file, behind
    the lines of steps that it does not make again. Raises BurnError where the file cannot be written."""

    only_first = skips_trials = True  # see Observer

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None

    def __call__(self, event: Event, control: Control) -> None:
        try:
            if isinstance(event, Started):
                self._open(event.step)
            if self._file is None:
                return
            line = _line(event)
            if line is not None:
                self._file.write(json.dumps(line) + "\n")
            if not isinstance(event, Stepped):
                self._file.flush()
            if isinstance(event, Finished):
                self._file.close()
                self._file = None
        except OSError as error:
            self._file = None
            raise BurnError(f"cannot write {self.path}", [error.strerror or str(error)]) from None

    def _open(self, step: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if step == 0:
            self._file = self.path.open("w", encoding="utf-8")
            return
        kept = [text for text, line in lines(self.path) if line.get("step", 0) <= step and line["event"] != "finish"]
        with whole(self.path) as file:
            file.writelines(text.encode() for text in kept)
        self._file = self.path.open("a", encoding="utf-8")


def lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of a log, as text and as what they say; a last one that was cut off is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and "event" in line:
                yield text, line


def _line(event: Event) -> dict[str, Any] | None:
    match event:
        case Started(step=0):
            facts = {name: getattr(event, name) for name in _STARTED}
            return {"event": "start", "step": 0, **facts}
        case Started(step=step):
            return {"event": "resume", "step": step}
        case Stepped():
            position = {"epoch": event.epoch, "batch": event.batch, "step": event.step, "examples": event.examples}
            return {
                "event": "step",
                **position,
                "seconds": event.seconds,
                "lr": event.lr,
                "values": _plain(event.values),
            }
        case EpochEnded():
            tables = {name: table.tolist() for name, table in event.tables.items()}
            sides = {"train": _plain(event.train), "valid": _plain(event.valid), "tables": tables}
            return {"event": "epoch", "epoch": event.epoch, "step": event.step, "seconds": event.seconds, **sides}
        case Saved():
            return {"event": "save", "step": event.step, "path": event.path.name, "why": event.why}
        case Warned():
            return {"event": "warning", "step": event.step, "text": event.text}
        case Stopped():
            return {"event": "stop", "step": event.step, "reason": event.reason}
        case Finished(summary=s):
            return {"event": "finish", "step": s.steps, "reason": s.reason, "seconds": s.seconds, "error": s.error}
        case _:
            return None


_STARTED = ("run", "model", "optimizer", "parameters", "trainable", "epochs", "batches", "valid_batches")


def _plain(values: Values) -> dict[str, float | None]:
    """JSON has no NaN and no infinity."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


class TensorBoard:
    """Writes metrics to files that TensorBoard reads, through tensorboardX (`pip install burn-mlir[train]`). Raises BurnError
    where that is not installed."""

    only_first = skips_trials = True  # see Observer

    def __init__(self, folder: str | os.PathLike[str], every: int = 10) -> None:
        """every: so many steps are one point; epochs have all of theirs."""
        try:
            from tensorboardX import SummaryWriter  # type: ignore[import-untyped]
        except ImportError:
            hint = "pip install 'burn-mlir[train]'"
            raise BurnError("TensorBoard logs need tensorboardX", [Problem("it is not installed", hint=hint)]) from None
        self.folder, self.every = Path(folder), every
        self._make: Any = SummaryWriter
        self._writer: Any = None

    def __call__(self, event: Event, control: Control) -> None:
        match event:
            case Started():
                options = {"purge_step": event.step + 1} if event.step else {}
                self._writer = self._make(str(self.folder), **options)
            case Stepped() if event.step % self.every == 0:
                self._add("step", event.values, event.step)
                self._writer.add_scalar("lr", event.lr, event.step)
            case EpochEnded():
                self._add("train", event.train, event.step)
                self._add("valid", event.valid, event.step)
                self._writer.flush()
            case Finished() if self._writer is not None:
                self._writer.close()
                self._writer = None
            case _:
                pass

    def _add(self, side: str, values: Values, step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{side}/{name}", value, step)
