"""What all optimizers share: which parameters they move, in which groups, their state, and how it is saved.

class SGD(Optimizer):
    STATE = {"velocity": "zeros"}                     # a buffer for each, of each parameter's type

    def __init__(self, model, lr=..., momentum=0.0, groups=()):
        super().__init__(model, lr, groups, momentum=momentum)

    def move(self, p, g, state, lr, step, options):   # tensors in, (new p, new state) out
        ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from burn.dialect.types import FLOATS
from burn.errors import ModelError, Problem, TypeMismatch
from burn.evaluation import evaluate
from burn.nn.config import LayerConfig, derived
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.tensors import Tensor, constant
from burn.tensors.joining import where
from burn.tensors.tracer import active

Schedule = Callable[[Tensor], Tensor]
"""A learning rate by the number of steps made so far, a float64 scalar (burn/optim/schedule.py)."""

Groups = Sequence[tuple[str, Mapping[str, Any]]]
"""(a regular expression that is found in parameters' paths, the options that are others for them); the first that is found
counts."""


@dataclass
class Group:
    """Parameters with the same options. rate: the learning rate, where it is a number."""

    options: dict[str, Any]
    rate: Buffer
    schedule: Schedule | None
    paths: list[str] = field(default_factory=list)


class OptimizerConfig(LayerConfig):
    """Base of the configurations derived from optimizers' constructors: `optim.AdamW.Config(lr=3e-4).init(model)`."""

    def init(self, model: Module) -> Any:  # type: ignore[override]  # an optimizer is of a model
        return self._module(model, **dict(self._items()))


class _DerivedConfig:
    """`Optimizer.Config`: made when it is first asked for."""

    def __get__(self, instance: Optimizer | None, owner: type[Optimizer]) -> type[LayerConfig]:
        made = owner.__dict__.get("_made_config")
        if made is None:
            made = derived(owner, OptimizerConfig, ("model",))
            owner._made_config = made
        return made


class Optimizer:
    """Base of all optimizers. Raises TypeMismatch for options that are out of range and for groups that hold nothing."""

    Config: ClassVar[Any] = _DerivedConfig()  # what the constructor takes besides the model
    _made_config: ClassVar[Any]

    STATE: ClassVar[tuple[str, ...]] = ()
    """The names of a parameter's state tensors, zeros at first."""

    def __init__(self, model: Module, lr: float | Schedule, groups: Groups = (), **options: Any) -> None:
        self.parameters: dict[str, Parameter] = {
            path: p for path, p in model.named_parameters(buffers=False) if p.trainable and p.dtype in FLOATS
        }
        if not self.parameters:
            raise TypeMismatch(
                "there is nothing to train", ["the module has no parameters that are floats and not frozen"]
            )
        self.steps = _buffer("steps", np.zeros((), np.int64))
        self.groups = self._grouped({"lr": lr, **options}, groups)
        self._group = {path: group for group in self.groups for path in group.paths}
        self.state: dict[str, dict[str, Buffer]] = {
            path: {
                name: _zeros(f"{path}.{name}", p) for name in self.STATE if self.has_state(name, self._options(path))
            }
            for path, p in self.parameters.items()
        }
        self.check()

    # ---- what an optimizer gives -------------------------------------------------------------------------------------
    def move(
        self,
        p: Tensor,
        g: Tensor,
        state: Mapping[str, Tensor],
        lr: Tensor,
        step: Tensor,
        options: Mapping[str, Any],
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """A parameter's next elements and state, of its elements, its gradient and its state. step: which step this is, from 1
        on, a float64 scalar."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises TypeMismatch for parameters that this optimizer does not move."""

    def has_state(self, name: str, options: Mapping[str, Any]) -> bool:
        """Whether the options ask for a state tensor."""
        return True

    # ---- a step --------------------------------------------------------------------------------------------------------
    def update(self, gradients: Mapping[str, Tensor], only_if: Tensor | None = None) -> None:
        """Makes a step: gives parameters and state their next elements. gradients: by parameter path; a parameter without one
        stays. only_if: a bool scalar, without which all stays. Raises TypeMismatch naming every gradient that is of no parameter
        here, or of another type."""
        self._check(gradients)
        steps = self.steps + 1
        step = steps.astype("float64")
        rates = {id(group): _rate(group, steps - 1) for group in self.groups}
        assigned: list[tuple[Parameter, Tensor]] = [(self.steps, steps)]
        for path, g in gradients.items():
            p, group, state = self.parameters[path], self._group[path], self.state[path]
            lr = rates[id(group)].astype(p.dtype)
            moved, new = self.move(p * 1, g, {n: b * 1 for n, b in state.items()}, lr, step, group.options)
            assigned.append((p, moved))
            assigned += [(state[name], value) for name, value in new.items()]
        if only_if is not None:
            assigned = [(p, where(only_if, tensor, p * 1)) for p, tensor in assigned]
        if active() is None:  # all at once
            evaluate(tensor.value for _, tensor in assigned)
        for parameter, tensor in assigned:
            parameter.assign(tensor)

    def _check(self, gradients: Mapping[str, Tensor]) -> None:
        problems = []
        for path, g in gradients.items():
            p = self.parameters.get(path)
            if p is None:
                problems.append(
                    Problem(f"'{path}' is no parameter that it trains", hint="frozen, or of another module?")
                )
            elif g.type != p.type:
                problems.append(Problem(f"the gradient of '{path}' is {g.type}, the parameter {p.type}"))
        if problems:
            raise TypeMismatch(f"{type(self).__name__} does not take these gradients", problems)

    # ---- groups --------------------------------------------------------------------------------------------------------
    def _grouped(self, options: dict[str, Any], groups: Groups) -> list[Group]:
        problems = self._wrong(options)
        made = [self._made({**options, **own}) for _, own in groups] + [self._made(options)]
        for _, own in groups:
            unknown = sorted(own.keys() - options.keys())
            problems += [f"a group sets '{name}'; there are {', '.join(options)}" for name in unknown]
            problems += self._wrong(own)
        for path in self.parameters:
            number = next((i for i, (pattern, _) in enumerate(groups) if re.search(pattern, path)), len(groups))
            made[number].paths.append(path)
        problems += [
            f"the group '{pattern}' is found in no parameter's path"
            for (pattern, _), group in zip(groups, made, strict=False)
            if not group.paths
        ]
        if problems:
            raise TypeMismatch(f"{type(self).__name__} does not take these options", problems)
        return [group for group in made if group.paths]

    def _wrong(self, options: Mapping[str, Any]) -> list[str]:
        found = []
        for name, value in options.items():
            numbers = value if isinstance(value, tuple) else (value,)
            for number in numbers:
                least = number >= 0 if isinstance(number, (int, float)) else True
                if not least or (name == "betas" and not 0 <= number < 1):
                    found.append(f"{name} is {value}, which is out of range")
                    break
        return found

    def _made(self, options: dict[str, Any]) -> Group:
        lr: Any = options["lr"]
        scheduled = callable(lr)
        rate = _buffer("lr", np.array(0.0 if scheduled else float(lr)))
        return Group(options, rate, schedule=options["lr"] if scheduled else None)

    def _options(self, path: str) -> dict[str, Any]:
        return self._group[path].options

    @property
    def lr(self) -> float:
        """The learning rate (of the first group). Setting it changes that of every group in proportion, and compiles nothing
        anew. Raises TypeMismatch where a schedule says it."""
        return float(self._first_rate().array)

    @lr.setter
    def lr(self, value: float) -> None:
        before = float(self._first_rate().array)
        for group in self.groups:
            share = float(group.rate.array) / before if before else 1.0
            group.rate.assign(np.array(value * share))

    def _first_rate(self) -> Buffer:
        if self.groups[0].schedule is not None:
            raise TypeMismatch("the learning rate is what a schedule says", ["see optimizer.steps"])
        return self.groups[0].rate

    # ---- saving --------------------------------------------------------------------------------------------------------
    def named_buffers(self) -> dict[str, Buffer]:
        """Every tensor of its state by its name in a file."""
        found = {"steps": self.steps, **{f"lr.{i}": g.rate for i, g in enumerate(self.groups)}}
        return found | {f"state.{p}.{n}": b for p, state in self.state.items() for n, b in state.items()}

    def state_dict(self) -> dict[str, np.ndarray]:
        """The state as it is now: steps made, learning rates, and the parameters' state tensors by path."""
        return {name: buffer.array for name, buffer in self.named_buffers().items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes what `state_dict` gave, all or nothing. Raises ModelError listing what is missing, unknown or does not fit."""
        own = self.named_buffers()
        problems = [f"'{name}' is missing" for name in own.keys() - state.keys()]
        problems += [f"'{name}' is unknown" for name in state.keys() - own.keys()]
        for name in sorted(own.keys() & state.keys()):
            have, want = np.asarray(state[name]), own[name]
            if have.shape != want.shape or str(constant(have).dtype) != str(want.dtype):
                problems.append(f"'{name}' is {have.dtype}{list(have.shape)}, not {want.type}")
        if problems:
            raise ModelError("this state is of another optimizer", sorted(problems))
        for name, buffer in own.items():
            buffer.assign(np.asarray(state[name]))

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.groups[-1].options.items())
        return f"{type(self).__name__}({len(self.parameters)} parameters, {options})"


def _rate(group: Group, steps: Tensor) -> Tensor:
    return group.rate if group.schedule is None else group.schedule(steps.astype("float64"))


def _buffer(name: str, array: np.ndarray) -> Buffer:
    buffer = Buffer(array)
    buffer.name = name
    return buffer


def _zeros(name: str, p: Parameter) -> Buffer:
    buffer = Buffer(tuple(p.shape), p.dtype)
    buffer.name = name
    return buffer


def corrected(beta: float, step: Tensor, like: Tensor) -> Tensor:
    """1 - beta^step, what an average that began at zero is short of: in float64, where nothing cancels."""
    return (1.0 - constant(beta, "float64") ** step).astype(like.dtype)
