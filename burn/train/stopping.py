"""Observers that make decisions: early stopping, and metrics for schedules that depend on training.

Each checkpoint contains their state, like that of every observer with `state_dict` and `load_state_dict`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from burn.errors import Problem, TypeMismatch, near
from burn.optim.schedule import Plateau
from burn.train.events import Better, Control, EpochEnded, Event, Started, Values


class Chosen:
    """A metric by name: "loss" is that of validation where there is one, "train.loss" and "valid.loss" say which."""

    def __init__(self, metric: str) -> None:
        side, dot, name = metric.partition(".")
        self.side, self.name = (side, name) if dot and side in ("train", "valid") else ("", metric)

    def better(self, metrics: Mapping[str, Better]) -> Better:
        """The metric's better direction. Raises TypeMismatch for an unknown metric."""
        if self.name not in metrics:
            problem = Problem("nothing of that name is measured", hint=near(self.name, metrics))
            raise TypeMismatch(f"there is no metric '{self.name}'", [problem])
        return metrics[self.name]

    def of(self, ended: EpochEnded) -> float:
        """Its value; NaN where the epoch has none."""
        return self.of_values(ended.train, ended.valid)

    def of_values(self, train: Values, valid: Values) -> float:
        sides = {"train": (train,), "valid": (valid,), "": (valid, train)}[self.side]
        return next((values[self.name] for values in sides if self.name in values), math.nan)


class EarlyStopping:
    """Stops when a metric has not become better for `patience` epochs. delta: by how much it must become better; target: the
    value with which training ends at once."""

    skips_trials = True  # see Observer

    def __init__(
        self, metric: str = "loss", patience: int = 3, delta: float = 0.0, target: float | None = None
    ) -> None:
        if patience < 1 or delta < 0:
            raise TypeMismatch("patience is at least 1, delta at least 0", [f"patience={patience}, delta={delta}"])
        self.metric, self.patience, self.delta, self.target = metric, patience, delta, target
        self.best: float | None = None
        self.waited = 0
        self._chosen = Chosen(metric)
        self._sign = 1.0

    def __call__(self, event: Event, control: Control) -> None:
        match event:
            case Started():
                self._sign = 1.0 if self._chosen.better(event.metrics) == "min" else -1.0
                if event.step == 0:
                    self.best, self.waited = None, 0
            case EpochEnded():
                self._see(self._chosen.of(event), control)

    def _see(self, value: float, control: Control) -> None:
        if self.best is None or self._sign * value < self._sign * self.best - self.delta:
            self.best, self.waited = (None if math.isnan(value) else value), 0
        else:
            self.waited += 1
        if self.target is not None and self._sign * value <= self._sign * self.target:
            control.stop(f"{self.metric} has reached {value:.4g}")
        elif self.waited >= self.patience:
            control.stop(f"{self.metric} has not become better for {self.waited} epochs")

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best, self.waited = state["best"], int(state["waited"])


class Feed:
    """Tells `optim.Plateau` what a metric came to, after every epoch."""

    skips_trials = True  # see Observer

    def __init__(self, plateau: Plateau, metric: str = "loss") -> None:
        self.plateau, self._chosen = plateau, Chosen(metric)

    def __call__(self, event: Event, control: Control) -> None:
        match event:
            case Started():
                better = self._chosen.better(event.metrics)
                if better != self.plateau.mode:
                    text = f"of {self._chosen.name} {better} is better, the plateau's mode is {self.plateau.mode}"
                    raise TypeMismatch("this plateau waits for the wrong thing", [text])
            case EpochEnded():
                self.plateau.see(self._chosen.of(event))

    def state_dict(self) -> dict[str, Any]:
        return self.plateau.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.plateau.load_state_dict(state)
