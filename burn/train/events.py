"""Events of a training: values that a `Learner` passes to its observers.

    def watch(event: Event, control: Control) -> None:
        match event:
            case EpochEnded(epoch=epoch, valid={"loss": loss}) if loss < 0.01:
                control.stop("the loss is low enough")

An observer is called in the training thread, which waits for it. `Started` is the first event. `Finished` is always the last,
also after an error or Ctrl-C: observers release files and screens then.
Epochs, batches and steps count from 1; all times are seconds of wall-clock time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import burn.markup as markup

Better: TypeAlias = Literal["min", "max"]
"""The better direction of a metric."""

Values: TypeAlias = Mapping[str, float]
"""Metrics by name ("loss", "accuracy" ...): NaN where nothing was counted."""


@dataclass(frozen=True)
class Started:
    """The first event of a `fit`."""

    run: str  # the run's name
    folder: Path | None  # of logs and checkpoints; None: nothing is saved
    model: str  # the model's class
    optimizer: str
    parameters: int  # elements of the model's parameters.
    trainable: int  # elements that the optimizer updates.
    epochs: int  # the last epoch.
    batches: int | None  # in an epoch of training; None if the data has no length.
    valid_batches: int | None  # None also without validation.
    epoch: int = 1  # the first epoch that is trained: more than 1 after a resume.
    batch: int = 0  # batches of it that are done.
    step: int = 0  # steps made before.
    metrics: Mapping[str, Better] = field(
        default_factory=dict
    )  # metrics that are numbers, and which direction is better.


@dataclass(frozen=True)
class Stepped:
    """A step has updated the model's parameters."""

    epoch: int
    batch: int  # Number within the epoch.
    step: int  # Number within the training.
    values: Values  # Of this batch alone: the loss, and the metrics with `of_batch`.
    examples: int  # In this batch.
    seconds: float  # From the step before to this one: data, step and metrics.
    waited: float  # The part of `seconds` spent waiting for data.
    lr: float  # The learning rate of this step, of the first parameter group.


@dataclass(frozen=True)
class ValidStepped:
    """A batch of validation has been computed."""

    epoch: int
    batch: int
    values: Values  # of this batch alone
    seconds: float
    split: str = ""  # the name of its set, if there are several sets


@dataclass(frozen=True)
class Validated:
    """The metrics of the whole validation set."""

    epoch: int
    step: int
    values: Values
    seconds: float


@dataclass(frozen=True)
class EpochEnded:
    """An epoch has been trained and validated."""

    epoch: int
    step: int
    train: Values  # of all batches of the epoch, each computed while the parameters moved
    valid: Values  # empty without validation; of named sets also "<set>/<metric>"
    examples: int  # trained on
    seconds: float  # with validation
    tables: Mapping[str, Any] = field(default_factory=dict)  # metrics that are no number ("valid.confusion"): arrays


@dataclass(frozen=True)
class Saved:
    """A checkpoint is on the disk."""

    path: Path
    why: str  # "epoch 3", "best loss", "interrupted", "asked for" ...
    epoch: int
    step: int
    seconds: float


@dataclass(frozen=True)
class Warned:
    """Something that training goes on after, for people to know."""

    text: str
    step: int


@dataclass(frozen=True)
class Stopped:
    """Training ends before its last epoch."""

    reason: str  # "interrupted (Ctrl-C)", "loss has not become better for 5 epochs" ...
    epoch: int
    step: int


@dataclass(frozen=True)
class Finished:
    """The last event."""

    summary: Summary


@dataclass(frozen=True)
class Summary:
    """The result of `fit`. `print` shows a table."""

    run: str
    epochs: int  # that were trained, of this and earlier calls that it resumed
    steps: int
    seconds: float  # of this call
    reason: str  # "done", or why it ended before
    train: Values  # of the last epoch
    valid: Values
    best: Mapping[
        str, tuple[float, int]
    ]  # the best value of every metric and its epoch; of validation where there is one
    folder: Path | None = None
    checkpoint: Path | None = None  # the last one
    error: str = ""  # what ended it, if an error did
    history: Sequence[Mapping[str, Any]] = ()  # {"epoch", "step", "train", "valid"} of every epoch

    def __str__(self) -> str:
        from burn.train.report import table

        return table(self)

    def _repr_html_(self) -> str:
        """For notebooks: a table of the epochs, and the curve of the loss."""
        names = [f"{side} {name}" for side in ("train", "valid") for name in getattr(self, side)]
        values = [
            {f"{side} {n}": v for side in ("train", "valid") for n, v in row[side].items()} for row in self.history
        ]
        rows = [
            [row["epoch"], row["step"], *(f"{value[n]:.6g}" if n in value else "" for n in names)]
            for row, value in zip(self.history, values, strict=True)
        ]
        curves = [(n, [v[n] for v in values if n in v]) for n in names if n.endswith(" loss")]
        head = f"{self.run}: {self.epochs} epochs, {self.steps} steps, {self.seconds:.1f} s, {self.reason}"
        epochs = markup.details("epochs", markup.table(("epoch", "step", *names), rows), opened=len(rows) <= 10)
        return markup.details(markup.joined(head, self.error), markup.chart(curves), epochs, opened=True)


Event: TypeAlias = Started | Stepped | ValidStepped | Validated | EpochEnded | Saved | Warned | Stopped | Finished
"""The events of a training; the attributes of each are those of its class."""


class Control:
    """Requests of observers to a training, from any thread. They take effect after the current step."""

    def __init__(self) -> None:
        self.reason = ""  # the reason of a requested stop, or empty
        self.save_wanted = False

    def stop(self, reason: str = "asked for") -> None:
        """Ends training, with a checkpoint. The first reason counts."""
        self.reason = self.reason or reason

    def save(self) -> None:
        """Makes a checkpoint."""
        self.save_wanted = True

    @property
    def stopping(self) -> bool:
        return bool(self.reason)


Observer: TypeAlias = Callable[[Event, Control], None]
"""A function of each event. It may request a stop or a checkpoint through the `Control`.

In a training on several processes each calls its own observers with equal values, so they must decide alike. An observer with an
attribute `only_first` that is true is called in rank 0 alone, and its requests are passed to the others. One with
`skips_trials` is not called in `fit(fast_dev_run=True)`."""
