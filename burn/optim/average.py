"""Averages of weights over steps: EMA and SWA, as optimizers around another one.

    optimizer = optim.EMA(optim.AdamW(model, lr=1e-3), decay=0.999)
    step = burn.train.step(model, loss, optimizer)
    with optimizer.swapped():                     # the model has the averages here
        model.save("average.safetensors")

The averages are state of the optimizer, so the compiled step updates them and checkpoints contain them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from burn.errors import ModelError, Problem, TypeMismatch
from burn.evaluation import evaluate
from burn.nn.parameter import Buffer, Parameter
from burn.optim.base import Group, Optimizer
from burn.optim.lbfgs import LBFGS
from burn.runtime.arrays import on_host
from burn.tensors import Tensor, constant
from burn.tensors.concatenation import where
from burn.tensors.tracer import active

MEAN, COUNT = "mean", "averaged"
"""Names of a parameter's average, and of the number of averaged steps."""


class Averaged(Optimizer):
    """Base of averages: an optimizer with an average of each parameter's elements after its steps, which is equal to them at
    first. `start`: the number of steps before the first that counts; `every`: each so many steps count. As
    torch.optim.swa_utils.AveragedModel.

    The average of a frozen parameter is kept, and has no effect until the parameter is trained again; before the first step that
    counts no average has an effect. A `Learner` validates with the averages. Buffers (running statistics) are those of the
    model: see `burn.train.update_statistics`. Raises TypeMismatch for LBFGS, and for numbers out of range."""

    def __init__(self, optimizer: Optimizer, start: int = 0, every: int = 1) -> None:
        if not isinstance(optimizer, Optimizer) or isinstance(optimizer, (LBFGS, Averaged)):
            hint = f"write optim.{type(self).__name__}(optim.AdamW(model, lr=1e-3))"
            raise TypeMismatch("an average is of an optimizer's steps", [Problem(type(optimizer).__name__, hint=hint)])
        if start < 0 or every < 1:
            raise TypeMismatch("start is at least 0, every at least 1", [f"start={start}, every={every}"])
        self.optimizer, self.start, self.every = optimizer, start, every
        self._model = optimizer._model
        self._reference = weakref.ref(self)
        self.averaged = Buffer(np.zeros((), np.int64))
        self.averaged.name = COUNT
        self._means: dict[str, tuple[Parameter, Buffer]] = {}
        self._swapped = False
        self.follow()

    def share(self, averaged: Tensor) -> Tensor:
        """The weight of a step's elements in the average, a float64 scalar. averaged: the number of earlier ones, at least 1."""
        raise NotImplementedError

    @property
    def parameters(self) -> dict[str, Parameter]:
        self.follow()
        return self.optimizer.parameters

    def follow(self) -> None:
        present = dict(self._model.named_parameters(buffers=False))
        self._means = {path: pair for path, pair in self._means.items() if present.get(path) is pair[0]}
        for path, p in self.optimizer.parameters.items():
            if path not in self._means:
                mean = Buffer(tuple(p.shape), p.dtype)
                mean.name = f"{path}.{MEAN}"
                mean.move(p.placement)
                mean.assign(p.weight)
                self._means[path] = (p, mean)
        for p, mean in self._means.values():
            if mean.dtype != p.dtype:
                mean.convert(p.dtype)

    def __guarded__(self) -> tuple[Any, ...]:
        return (
            self.optimizer,
            self.start,
            self.every,
            self._swapped,
            self.averaged,
            *(mean for _, mean in self._means.values()),
        )

    def update(self, gradients: Mapping[str, Tensor], only_if: Tensor | None = None) -> None:
        tracer = active()
        if tracer is not None:
            tracer.saw(self)
        if self._swapped:
            raise TypeMismatch("the model has the averages of its weights", ["train it outside of swapped()"])
        self.follow()
        steps = self.steps + 1
        due = (steps > self.start) & ((steps - self.start - 1) % self.every == 0)
        due = due if only_if is None else due & only_if
        self.optimizer.update(gradients, only_if)
        before = self.averaged * 1
        first = before == 0
        share = where(first, constant(1.0, "float64"), self.share(before.maximum(1).astype("float64")))
        assigned: list[tuple[Parameter, Tensor]] = [(self.averaged, before + due.astype("int64"))]
        for path in self.optimizer.parameters:
            p, mean = self._means[path]
            now, old = p * 1, mean * 1
            moved = where(first, now, old + (now - old) * share.astype(p.dtype))
            assigned.append((mean, where(due, moved, old)))
        if tracer is None:
            evaluate(tensor.value for _, tensor in assigned)
        for parameter, tensor in assigned:
            parameter.assign(tensor)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Inside, the model has the averages, and cannot be trained; its own elements are kept meanwhile, without a copy."""
        if self._swapped:
            yield
            return
        pairs = self._averages()
        self._swapped = True
        for p, mean in pairs:
            p.exchange(mean)
        try:
            yield
        finally:
            self._swapped = False
            for p, mean in pairs:  # those of before, whatever was frozen meanwhile
                p.exchange(mean)

    def _averages(self) -> list[tuple[Parameter, Buffer]]:
        """The parameters that have an average which differs from them."""
        moved = self.parameters
        if not int(on_host(self.averaged.elements)):
            return []
        return [pair for path, pair in self._means.items() if path in moved]

    def apply(self) -> None:
        """Gives the model the averages for good."""
        for p, mean in self._averages():
            p.assign(mean.weight)

    @property
    def groups(self) -> list[Group]:
        return self.optimizer.groups

    @property
    def steps(self) -> Buffer:
        return self.optimizer.steps

    @property
    def lr(self) -> float:
        return self.optimizer.lr

    @lr.setter
    def lr(self, value: float) -> None:
        self.optimizer.lr = value

    def named_buffers(self) -> dict[str, Buffer]:
        self.follow()
        return self.optimizer.named_buffers() | self._own()

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        self.follow()
        moved = self.optimizer.parameters
        idle = {_mean(path) for path in self._means if path not in moved}
        own = self._own()
        problems = [f"'{name}' is missing" for name in own.keys() - state.keys() - idle]
        problems += _misfits(own, state)
        if problems:
            raise ModelError("this state is of another optimizer", sorted(problems))
        self.optimizer.load_state_dict({name: array for name, array in state.items() if name not in own})
        self._take(state)

    def _own(self) -> dict[str, Buffer]:
        """Its own tensors by their names in a file."""
        return {COUNT: self.averaged, **{_mean(path): mean for path, (_, mean) in self._means.items()}}

    def _take(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes the averages of a state dict; those that it lacks are the parameters' present elements."""
        self.averaged.assign(np.asarray(state.get(COUNT, 0), np.int64))
        for path, (p, mean) in self._means.items():
            mean.assign(np.asarray(state[_mean(path)]) if _mean(path) in state else p.weight)

    def _averages_of(self, state: Mapping[str, np.ndarray], frozen: Collection[str]) -> dict[str, np.ndarray]:
        """The averages in a state dict and their number, for `_take`; nothing if it has none. frozen: parameters whose averages
        are left out. Raises ModelError if they do not fit."""
        if self._swapped:
            raise TypeMismatch("the model has the averages of its weights", ["load others outside of swapped()"])
        if COUNT not in state:
            return {}
        moved = self.parameters
        own = {name: buffer for name, buffer in self._own().items() if name == COUNT or _path(name) in moved}
        given = {n: array for n, array in state.items() if n == COUNT or (_path(n) and _path(n) not in frozen)}
        hint = "freeze parameters after their averages are loaded"
        problems = [
            Problem(f"'{_path(name)}' has an average, and is not trained here", hint=hint)
            for name in sorted(given.keys() - own.keys())
        ]
        problems += map(Problem, _misfits(own, given))
        if problems:
            raise ModelError("these averages are of other parameters", problems)
        return given

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.optimizer!r})"


def _mean(path: str) -> str:
    """The name of a parameter's average in a file."""
    return f"state.{path}.{MEAN}"


def _path(name: str) -> str:
    """The parameter whose average has a name; "" if it is no average's."""
    inner = name.removeprefix("state.").removesuffix(f".{MEAN}")
    return inner if name == _mean(inner) else ""


def _misfits(own: Mapping[str, Buffer], state: Mapping[str, np.ndarray]) -> list[str]:
    """Errors for tensors of other types."""
    found = []
    for name in own.keys() & state.keys():
        have, want = np.asarray(state[name]), own[name]
        if have.shape != want.shape or str(constant(have).dtype) != str(want.dtype):
            found.append(f"'{name}' is {have.dtype}{list(have.shape)}, not {want.type}")
    return found


class EMA(Averaged):
    """The exponential moving average: average * decay + elements * (1 - decay). decay: a number, or a function of the number of
    steps averaged before, a float64 scalar: `lambda n: ((1 + n) / (10 + n)).minimum(0.999)` forgets faster at first."""

    def __init__(
        self, optimizer: Optimizer, decay: float | Callable[[Tensor], Tensor] = 0.999, start: int = 0, every: int = 1
    ) -> None:
        if not callable(decay) and not 0 <= decay < 1:
            raise TypeMismatch("decay is at least 0 and less than 1", [f"not {decay}"])
        self.decay = decay
        super().__init__(optimizer, start, every)

    def __guarded__(self) -> tuple[Any, ...]:
        return (*super().__guarded__(), self.decay)

    def share(self, averaged: Tensor) -> Tensor:
        return constant(1.0, "float64") - (self.decay(averaged) if callable(self.decay) else self.decay)


class SWA(Averaged):
    """The mean of the elements of all steps that count (stochastic weight averaging, arXiv:1803.05407)."""

    def share(self, averaged: Tensor) -> Tensor:
        return 1.0 / (averaged + 1.0)
