"""Experiment trackers as observers: Weights & Biases and MLflow, through their own packages.

    Learner(.., observers=[train.Wandb(project="digits")])
    Learner(.., observers=[train.MLflow(experiment="digits")])

Steps are logged as "step/<metric>" and "lr", epochs as "train/<metric>" and "valid/<metric>". A resumed training goes on in the
same run, whose id is in the checkpoint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from burn.errors import BurnError, Problem, TypeMismatch
from burn.train.events import Control, EpochEnded, Event, Finished, Started, Stepped, Values

_FACTS = ("model", "optimizer", "parameters", "trainable", "epochs", "batches", "valid_batches")


class _Tracker:
    """Base of trackers. every: so many steps are one point; epochs have all of theirs."""

    only_first = skips_trials = True  # see Observer
    PACKAGE = ""

    def __init__(self, every: int, config: Mapping[str, Any] | None) -> None:
        if every < 1:
            raise TypeMismatch(f"{type(self).__name__} logs every step or less", [f"every={every}"])
        try:
            self._package: Any = import_module(self.PACKAGE)
        except ImportError:
            hint = f"pip install {self.PACKAGE}"
            problem = Problem(f"{self.PACKAGE} is not installed", hint=hint)
            raise BurnError(f"{type(self).__name__} needs its package", [problem]) from None
        self.every, self.config = every, dict(config or {})
        self._id: str | None = None

    def __call__(self, event: Event, control: Control) -> None:
        match event:
            case Started():
                if event.step == 0:
                    self._id = None  # a new training is a new run
                facts = {name: getattr(event, name) for name in _FACTS}
                self._start(event.run, {**facts, **self.config})
            case Stepped() if event.step % self.every == 0:
                self._log({**_named("step", event.values), "lr": event.lr}, event.step)
            case EpochEnded():
                values = {**_named("train", event.train), **_named("valid", event.valid), "epoch": float(event.epoch)}
                self._log(values, event.step)
            case Finished():
                self._finish(bool(event.summary.error))
            case _:
                pass

    def _start(self, name: str, config: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _log(self, values: Values, step: int) -> None:
        raise NotImplementedError

    def _finish(self, failed: bool) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {"id": self._id}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._id = state["id"]


class Wandb(_Tracker):
    """Logs to Weights & Biases, through the package wandb. config: entries of the run's configuration, beside those of the model
    and the training; options: of `wandb.init` (project, entity, tags, mode ..). Raises BurnError if it is not
    installed."""

    PACKAGE = "wandb"

    def __init__(self, *, every: int = 10, config: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(every, config)
        self.options = options
        self._run: Any = None

    def _start(self, name: str, config: Mapping[str, Any]) -> None:
        again = {} if self._id is None else {"id": self._id, "resume": "allow"}
        self._run = self._package.init(**{"name": name, **self.options, **again}, config=dict(config))
        self._id = self._run.id

    def _log(self, values: Values, step: int) -> None:
        self._run.log(dict(values), step=step)

    def _finish(self, failed: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=int(failed))
            self._run = None


class MLflow(_Tracker):
    """Logs to MLflow, through the package mlflow, to its tracking server or folder (`mlflow.set_tracking_uri`). experiment: its
    name; config: parameters of the run, beside those of the model and the training; options: of `MlflowClient.create_run` (tags).
    Characters that MLflow does not take in names of metrics become "_". Raises BurnError if the package is not installed."""

    PACKAGE = "mlflow"

    def __init__(
        self,
        experiment: str = "Default",
        *,
        every: int = 10,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(every, config)
        self.experiment, self.options = experiment, options
        self._client: Any = None

    def _start(self, name: str, config: Mapping[str, Any]) -> None:
        self._client = self._package.MlflowClient()
        if self._id is not None:
            self._client.update_run(self._id, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(self.experiment)
        number = self._client.create_experiment(self.experiment) if found is None else found.experiment_id
        self._id = self._client.create_run(number, run_name=name, **self.options).info.run_id
        for key, value in config.items():
            self._client.log_param(self._id, key, value)

    def _log(self, values: Values, step: int) -> None:
        for name, value in values.items():
            if not math.isnan(value):
                self._client.log_metric(self._id, re.sub(r"[^\w\-. /]", "_", name), float(value), step=step)

    def _finish(self, failed: bool) -> None:
        if self._client is not None:
            self._client.set_terminated(self._id, status="FAILED" if failed else "FINISHED")
            self._client = None


def _named(side: str, values: Values) -> dict[str, float]:
    return {f"{side}/{name}": value for name, value in values.items()}
