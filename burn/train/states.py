"""The state of a training step by its names in a checkpoint, and files of it, which `burn.train.Learner` and compiled
training binaries (burn/deploy/training.py) also read and write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burn.errors import BurnError, ModelError, TypeMismatch
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.optim import Optimizer
from burn.runtime.arrays import on_host
from burn.train import checkpoints, randomness
from burn.train.checkpoints import Saved, lent

if TYPE_CHECKING:
    from burn.train.step import Step


def named(model: Module, optimizers: Mapping[str, Optimizer], step: Any) -> Iterator[tuple[str, Parameter]]:
    """Parameters and buffers of a model, of optimizers (one of them may be called ""), and of a step, by their names in a
    checkpoint."""
    yield from ((f"model.{path}", p) for path, p in model.named_parameters())
    for name, optimizer in optimizers.items():
        for path, buffer in optimizer.named_buffers().items():
            yield ".".join(filter(None, ("optimizer", name, path))), buffer
    for path, buffer in getattr(step, "named_buffers", dict)().items():
        yield f"step.{path}", buffer


def facts(model: Module | None, steps: int) -> dict[str, Any]:
    """A checkpoint's content besides tensors, between two epochs. It has no position in data and no state of other libraries'
    generators; a `Learner` that resumes from it leaves both as they are."""
    found: dict[str, Any] = {
        "model": type(model).__name__ if model is not None else "",
        "epoch": 1,
        "batch": 0,
        "step": steps,
        "trained": False,
        "history": [],
        "ends": [],
        "random": randomness.own(),
        "observers": [],
    }
    if model is not None:
        found["frozen"] = [path for path, p in model.named_parameters(False) if not p.trainable]
    return found


def save(step: Step, path: str | os.PathLike[str]) -> None:
    """See `Step.save`."""
    _must_be_whole(step)
    step.model._must_be_savable()
    steps = int(on_host(step.optimizer.steps.elements))
    tensors = {name: lent(p) for name, p in named(step.model, {"": step.optimizer}, step)}
    checkpoints.write(Path(path), tensors, facts(step.model, steps))


def load(step: Step, path: str | os.PathLike[str]) -> None:
    """See `Step.load`."""
    _must_be_whole(step)
    saved = checkpoints.read(path)
    optimizers = {"": step.optimizer}
    with kept_on_error(step.model, optimizers, step, saved.path):
        step.model.load(saved.part("model"), adapter=None)
        freeze(step.model, saved.facts.get("frozen"))
        step.optimizer.load_state_dict(saved.arrays("optimizer"))
        take_buffers(step, saved)
        randomness.go_to(saved.facts.get("random"))


@contextmanager
def kept_on_error(model: Module, optimizers: Mapping[str, Optimizer], step: Any, path: Path) -> Iterator[None]:
    """Restores a model, optimizers and the buffers of a step after an error inside; an unexpected error is reported as a
    malformed file."""
    before, trained = model.state_dict(), [(p, p.trainable) for p in model.parameters()]
    kept = [(buffer, buffer.array) for name, buffer in named(model, optimizers, step) if not name.startswith("model.")]
    state = {name: optimizer.state_dict() for name, optimizer in optimizers.items()}
    try:
        yield
    except BaseException as error:
        model.load_state_dict(before)
        for p, trainable in trained:
            p.trainable = trainable
        for name, optimizer in optimizers.items():
            optimizer.load_state_dict(state[name])
        for buffer, array in kept:
            buffer.assign(array)
        foreseen = isinstance(error, BurnError) or not isinstance(error, Exception)
        if foreseen:
            raise
        raise ModelError(f"{path} is malformed", [f"{type(error).__name__}: {error}"]) from error


def freeze(model: Module, paths: Sequence[str] | None) -> None:
    """Freezes parameters as in a checkpoint; older checkpoints, and those of steps without a model, have no such list."""
    if paths is not None:
        frozen = set(paths)
        for path, p in model.named_parameters(buffers=False):
            p.trainable = path not in frozen


def take_buffers(step: Any, saved: Saved) -> None:
    """Restores the buffers of a step. Raises ModelError if the checkpoint has others."""
    given, own = saved.arrays("step"), getattr(step, "named_buffers", dict)()
    if given.keys() != own.keys():
        texts = (", ".join(sorted(given)) or "nothing", ", ".join(sorted(own)) or "nothing")
        raise ModelError(f"{saved.path} is of another step", [f"that kept {texts[0]}, this one keeps {texts[1]}"])
    problems = [
        f"'{name}' is {array.dtype}{list(array.shape)}, not {own[name].type}"
        for name, array in given.items()
        if array.shape != tuple(own[name].shape) or str(array.dtype) != str(own[name].dtype)
    ]
    if problems:
        raise ModelError(f"{saved.path} is of another step", problems)
    for name, array in given.items():
        own[name].assign(array)


def _must_be_whole(step: Step) -> None:
    if step.mesh is not None:
        raise TypeMismatch("a step on a mesh is saved by a Learner", ["its tensors are divided over devices"])
