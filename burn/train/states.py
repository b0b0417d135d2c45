"""The state of a training step by its names in a checkpoint, and files of it, which `burn.train.Learner` and compiled
training binaries (burn/deploy/training.py) also read and write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burn.errors import ModelError, TypeMismatch
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.optim import Optimizer
from burn.runtime.arrays import on_host
from burn.train import checkpoints, randomness
from burn.train.checkpoints import lent

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
    frozen = [] if model is None else [path for path, p in model.named_parameters(False) if not p.trainable]
    return {
        "model": type(model).__name__ if model is not None else "",
        "epoch": 1,
        "batch": 0,
        "step": steps,
        "trained": False,
        "history": [],
        "ends": [],
        "random": randomness.own(),
        "frozen": frozen,
        "observers": [],
    }


def save(step: Step, path: str | os.PathLike[str]) -> None:
    """See `Step.save`."""
    _must_be_whole(step)
    steps = int(on_host(step.optimizer.steps.elements))
    tensors = {name: lent(p) for name, p in named(step.model, {"": step.optimizer}, step)}
    checkpoints.write(Path(path), tensors, facts(step.model, steps))


def load(step: Step, path: str | os.PathLike[str]) -> None:
    """See `Step.load`."""
    _must_be_whole(step)
    saved = checkpoints.read(path)
    own, given = step.named_buffers(), saved.arrays("step")
    if given.keys() != own.keys():
        texts = (", ".join(sorted(given)) or "nothing", ", ".join(sorted(own)) or "nothing")
        raise ModelError(f"{path} is of another step", [f"that kept {texts[0]}, this one keeps {texts[1]}"])
    before = step.model.state_dict()
    step.model.load(saved.part("model"), adapter=None)
    try:
        step.optimizer.load_state_dict(saved.arrays("optimizer"))
        randomness.go_to(saved.facts.get("random"))
    except BaseException:
        step.model.load_state_dict(before)
        raise
    for name, array in given.items():
        own[name].assign(array)


def _must_be_whole(step: Step) -> None:
    if step.mesh is not None:
        raise TypeMismatch("a step on a mesh is saved by a Learner", ["its tensors are divided over devices"])
