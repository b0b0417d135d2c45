"""`Experiment`: a training described by a configuration, so that it can be kept in a file, changed from the command line, and run
again.

    class Digits(burn.train.Experiment):
        width: int = 32
        optimizer: optim.AdamW.Config = optim.AdamW.Config(lr=1e-3)

        def learner(self):
            model = Network(self.width)
            return burn.train.Learner(model, nn.CrossEntropyLoss(), self.optimizer.init(model))

        def data(self):
            return training_batches, validation_batches

    experiment = Digits(epochs=8)
    experiment.run("runs/first")        # or: burn train digits.py:experiment --set optimizer.lr=3e-4 --dir runs/first
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import burn.random
from burn.distributed import processes
from burn.distributed.mesh import REST, Mesh
from burn.errors import Problem, near
from burn.nn.checks import Range
from burn.nn.config import Config, ConfigError
from burn.runtime.device import Device
from burn.train.batches import Data
from burn.train.events import Summary
from burn.train.learner import Learner

E = TypeVar("E", bound=Config)

FILE = "config.json"
"""File name of an experiment's configuration in the folder of its run."""


class Experiment(Config):
    """Base of experiments. A subclass has further fields, and gives `learner` and `data`."""

    epochs: Annotated[int, Range(1)] = 1
    seed: Annotated[int, Range(0, 2**64 - 1)] = 0  # of everything that burn draws

    def learner(self) -> Learner:
        """The model with its loss, optimizer and metrics."""
        raise NotImplementedError(f"{type(self).__qualname__} has no learner")

    def data(self) -> tuple[Data, Data | None]:
        """The training data, and the validation data or None."""
        raise NotImplementedError(f"{type(self).__qualname__} has no data")

    def mesh(self) -> Mesh | None:
        """The devices, and the layouts of parameters on them; None for one device, or in several processes for batches divided
        over all devices."""
        return None

    def run(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        resume: bool = False,
        overwrite: bool = False,
        progress: bool = True,
        device: str | Device | None = None,
        mesh: Mesh | None = None,
        fit: Callable[..., Summary] = Learner.fit,
    ) -> Summary:
        """Trains. folder: of the configuration, logs and checkpoints. resume, overwrite: see `Learner.fit`. fit: a replacement
        for `Learner.fit` with the same arguments. device: overrides the device of `learner`, or the kind of device of the mesh.
        mesh: overrides the mesh of `mesh()`. A training on several processes without any divides batches over all devices.

        Raises DeviceError for a device that does not exist."""
        burn.random.manual_seed(self.seed)
        learner = self.learner()
        mesh = mesh or self.mesh()
        if mesh is None and learner.mesh is None and processes.current() is not None:
            mesh = Mesh({"data": REST})
        if device is not None and mesh is not None:
            mesh = mesh.on(str(device))
        elif device is not None:
            learner.to(device)
        if mesh is not None:
            learner.shard(mesh)
        learner.progress = learner.progress and progress
        if folder is not None:
            learner.folder = Path(folder)
        train, valid = self.data()
        if learner.folder is not None:
            learner.must_be_free(resume, overwrite)
            learner.folder.mkdir(parents=True, exist_ok=True)
            if processes.rank() == 0:
                self.save(learner.folder / FILE)
        return fit(learner, train, valid, epochs=self.epochs, resume=resume, overwrite=overwrite)


def changed(config: E, settings: Iterable[tuple[str, str]]) -> E:
    """A configuration with fields set by text: ("optimizer.lr", "3e-4"). Raises ConfigError naming every one that cannot be."""
    problems: list[Problem] = []
    for path, text in settings:
        try:
            config = _set(config, path.split("."), text)
        except ConfigError as error:
            problems += [dataclasses.replace(p, attribute=path) for p in error.problems]
    if problems:
        raise ConfigError(f"this is no {type(config).__qualname__}", problems)
    return config


def _set(config: E, names: list[str], text: str) -> E:
    first, *rest = names
    known = [f.name for f in dataclasses.fields(config)]  # type: ignore[arg-type]
    if first not in known:
        raise ConfigError("", [Problem(f"{type(config).__qualname__} has no field '{first}'", hint=near(first, known))])
    current = getattr(config, first)
    if not rest:
        return config.replace(**{first: _value(text, current)})
    if not isinstance(current, Config):
        raise ConfigError("", [Problem(f"'{first}' is {current!r} and has no fields")])
    return config.replace(**{first: _set(current, rest, text)})


def _value(text: str, current: Any) -> Any:
    """The value of a text: JSON, or a Python literal, or the text itself. A string field keeps the text."""
    if isinstance(current, str):
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return type(current).from_dict(value) if isinstance(current, Config) and isinstance(value, dict) else value
    return {"none": None, "true": True, "false": False}.get(text.lower(), text)
