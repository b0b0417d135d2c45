"""The learning-rate finder: losses of steps with growing learning rates (arXiv:1506.01186)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import burn.markup as markup
from burn.errors import Problem, TypeMismatch
from burn.train.batches import Source
from burn.train.metrics import Tally
from burn.train.trial import unchanged

if TYPE_CHECKING:
    from burn.train.learner import Learner

SMOOTHING = 0.98
"""Of the moving average of losses, corrected for having begun at zero."""
SKIPPED = 5
"""The first steps, whose smoothed losses are of few batches, are not suggested."""


@dataclass(frozen=True)
class RateCurve:
    """rates, losses: of each step; smoothed: the moving average of the losses."""

    rates: Sequence[float]
    losses: Sequence[float]
    smoothed: Sequence[float]

    @property
    def suggestion(self) -> float | None:
        """The rate at which the smoothed loss falls fastest with the logarithm of the rate; None if it never falls."""
        y = np.asarray(self.smoothed[SKIPPED:])
        if len(y) < 3:
            return None
        slope = np.gradient(y, np.log(np.asarray(self.rates[SKIPPED:])))
        return float(self.rates[SKIPPED + int(slope.argmin())]) if slope.min() < 0 else None

    def _repr_html_(self) -> str:
        """For notebooks: the curve of the smoothed loss."""
        head = f"learning rates {self.rates[0]:.3g} to {self.rates[-1]:.3g}, suggestion {self.suggestion}"
        return markup.details(head, markup.chart([("loss", list(self.smoothed))]), opened=True)


def find_rate(learner: Learner, train: Source, low: float, high: float, steps: int, diverged: float) -> RateCurve:
    if not 0 < low < high or steps < 2 or not diverged > 1:
        text = f"low={low}, high={high}, steps={steps}, diverged={diverged}"
        raise TypeMismatch("find_rate takes 0 < low < high, at least 2 steps, and diverged of more than 1", [text])
    if len(learner.optimizers) != 1:
        raise TypeMismatch("find_rate is for one optimizer", [", ".join(learner.optimizers)])
    (optimizer,) = learner.optimizers.values()
    if any(group.schedule is not None for group in optimizer.groups):
        hint = "make the optimizer with lr=1e-3 for this"
        raise TypeMismatch("find_rate sets the learning rate", [Problem("a schedule says it here", hint=hint)])
    rates: list[float] = []
    losses: list[float] = []
    smoothed: list[float] = []
    average = 0.0
    with unchanged(learner, [train]), learner.checking():
        epoch, given = 1, train.batches(1)
        for i in range(steps):
            batch = next(given, None)
            if batch is None:
                epoch, given = epoch + 1, train.batches(epoch + 1)
                batch = next(given, None)
            if batch is None:
                raise TypeMismatch("there are not enough batches", [f"{i} of {steps}; data that starts anew has more"])
            rate = low * (high / low) ** (i / (steps - 1))
            optimizer.lr = rate
            values, _, _ = learner.train_step(batch, Tally(learner.metrics))
            if not math.isfinite(values["loss"]):
                break
            average = SMOOTHING * average + (1 - SMOOTHING) * values["loss"]
            rates, losses = [*rates, rate], [*losses, values["loss"]]
            smoothed.append(average / (1 - SMOOTHING ** (i + 1)))
            if i > SKIPPED and smoothed[-1] > diverged * min(smoothed):
                break
    return RateCurve(rates, losses, smoothed)
