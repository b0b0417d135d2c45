"""State of a dashboard, built from events: curves and progress. Independent of the terminal."""

from __future__ import annotations

import math
import time
from array import array
from collections import deque
from collections.abc import Mapping
from typing import Literal

from burn.train.events import (
    Better,
    EpochEnded,
    Event,
    Saved,
    Started,
    Stepped,
    Stopped,
    Validated,
    ValidStepped,
    Warned,
)

Side = Literal["train", "valid"]
Points = list[tuple[float, float]]

LONGEST = 8192  # points of a curve; a longer one is halved, by means of two
RECENT = 4096  # last points that are kept as they are


class Curve:
    """A metric's values by step, in bounded memory."""

    def __init__(self) -> None:
        self._x, self._y = array("d"), array("d")
        self._every, self._pending = 1, Mean()
        self.recent: deque[tuple[float, float]] = deque(maxlen=RECENT)

    def add(self, step: float, value: float) -> None:
        if not math.isfinite(value):
            return
        self.recent.append((step, value))
        self._pending.add(step, value)
        if self._pending.count < self._every:
            return
        self._take()
        if len(self._x) == LONGEST:
            self._x, self._y = _halved(self._x), _halved(self._y)
            self._every *= 2

    def _take(self) -> None:
        self._x.append(self._pending.x)
        self._y.append(self._pending.y)
        self._pending = Mean()

    def points(self, start: float = -math.inf) -> Points:
        """From a step on: as they were if they are recent enough, else means of neighbours."""
        exact = self._every > 1 and bool(self.recent) and self.recent[0][0] <= start
        return [point for point in (self.recent if exact else self._all()) if point[0] >= start]

    def _all(self) -> Points:
        rest = [(self._pending.x, self._pending.y)] if self._pending.count else []
        return [*zip(self._x, self._y, strict=True), *rest]

    @property
    def last(self) -> float:
        return self.recent[-1][1] if self.recent else math.nan


class Mean:
    """Points on the way to be one."""

    def __init__(self) -> None:
        self.count, self.x, self.y = 0, 0.0, 0.0

    def add(self, x: float, y: float) -> None:
        self.count += 1
        self.x += (x - self.x) / self.count
        self.y += (y - self.y) / self.count


def _halved(values: array[float]) -> array[float]:
    return array("d", ((a + b) / 2 for a, b in zip(values[::2], values[1::2], strict=True)))


class Speed:
    """Running means over the last steps."""

    def __init__(self) -> None:
        self.seconds = self.waited = self.examples = 0.0

    def add(self, event: Stepped) -> None:
        weight = 0.05 if self.seconds else 1.0
        self.seconds += weight * (event.seconds - self.seconds)
        self.waited += weight * (event.waited - self.waited)
        self.examples += weight * (event.examples - self.examples)


class History:
    """A training as far as it has come."""

    def __init__(self) -> None:
        self.started: Started | None = None
        self.curves: dict[str, dict[Side, Curve]] = {}
        self.better: Mapping[str, Better] = {}
        self.best: dict[str, tuple[float, int]] = {}  # by epochs, of validation where there is one
        self.epoch, self.batch, self.valid_batch, self.step = 1, 0, 0, 0
        self.epoch_start = 0  # the step before the epoch's first
        self.rate = math.nan
        self.note = ""
        self._speed = Speed()
        self._between = 0.0  # of the last epoch, seconds that were no steps: validation, checkpoints
        self._stepping = 0.0  # of this epoch, seconds of steps
        self._began = time.monotonic()
        self._by_step: set[str] = set()  # metrics that steps tell; others have a point for each epoch

    def tell(self, event: Event) -> None:
        """Takes an event in."""
        match event:
            case Started():
                self.started, self.better, self._began = event, event.metrics, time.monotonic()
                self.epoch, self.batch, self.step = event.epoch, event.batch, event.step
                self.epoch_start = event.step - event.batch
                for name in event.metrics:
                    self._curves(name)
            case Stepped():
                self._stepped(event)
            case ValidStepped():
                self.valid_batch = event.batch
            case Validated():
                self._add("valid", event.step, event.values)
            case EpochEnded():
                self._ended(event)
            case Saved():
                self.note = f"saved {event.path.name}: {event.why}"
            case Warned():
                self.note = f"warning: {event.text}"
            case Stopped():
                self.note = event.reason
            case _:
                pass

    def _stepped(self, event: Stepped) -> None:
        if event.epoch != self.epoch:
            self.epoch_start = event.step - event.batch
        self.epoch, self.batch, self.step, self.valid_batch = event.epoch, event.batch, event.step, 0
        self.rate = event.lr
        self._stepping += event.seconds
        self._by_step |= event.values.keys()
        self._add("train", event.step, event.values)
        if self.started is None or event.step > self.started.step + 1:  # the first one was compiled
            self._speed.add(event)

    def _ended(self, event: EpochEnded) -> None:
        self._add("train", event.step, {k: v for k, v in event.train.items() if k not in self._by_step})
        self._between, self._stepping, self.valid_batch = max(0.0, event.seconds - self._stepping), 0.0, 0
        for name, value in {**event.train, **event.valid}.items():
            less = self.better.get(name, "min") == "min"
            before = self.best.get(name, (math.inf if less else -math.inf, 0))[0]
            if value < before if less else value > before:
                self.best[name] = (value, event.epoch)

    def _add(self, side: Side, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._curves(name)[side].add(step, value)

    def _curves(self, name: str) -> dict[Side, Curve]:
        return self.curves.setdefault(name, {"train": Curve(), "valid": Curve()})

    # ---- how far it is, how quickly -------------------------------------------------------------------------------------
    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def examples_per_second(self) -> float:
        return self._speed.examples / self._speed.seconds if self._speed.seconds else 0.0

    @property
    def waited(self) -> float:
        """The share of time that is spent waiting for data."""
        return self._speed.waited / self._speed.seconds if self._speed.seconds else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that are left, by the last steps and the last validation; None while it is not known."""
        begun = self.started
        if begun is None or begun.batches is None or not self._speed.seconds:
            return None
        epochs = begun.epochs - self.epoch
        return (epochs * begun.batches + begun.batches - self.batch) * self._speed.seconds + (
            epochs + 1
        ) * self._between

    @property
    def done(self) -> float | None:
        """The share of all epochs that is done; None where the data does not say how long it is."""
        begun = self.started
        if begun is None or begun.batches is None:
            return None
        return min(1.0, (self.epoch - 1 + self.batch / max(begun.batches, 1)) / begun.epochs)
