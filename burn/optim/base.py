"""Base of optimizers: their parameters, groups, state, and saving.

class SGD(Optimizer):
    STATE = {"velocity": "zeros"}                     # a buffer for each, of each parameter's type

    def __init__(self, model, lr=..., momentum=0.0, groups=()):
        super().__init__(model, lr, groups, momentum=momentum)

    def move(self, p, g, state, lr, step, options):   # tensors in, (new p, new state) out
        ...
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from burn.dialect.types import FLOATS
from burn.errors import ModelError, Problem, TypeMismatch
from burn.evaluation import evaluate
from burn.nn.config import LayerConfig, derived
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.suggestions import suggestion
from burn.tensors import Tensor, constant
from burn.tensors.concatenation import where
from burn.tensors.tracer import active

Schedule = Callable[[Tensor], Tensor]
"""A learning rate by the number of steps made so far, a float64 scalar (burn/optim/schedule.py)."""

Groups = Sequence[tuple[str, Mapping[str, Any]]]
"""(a regular expression that is found in parameters' paths, the options that are others for them); the first that is found
counts."""


@dataclass
class Group:
    """Parameters with the same options. pattern: a regular expression on their paths, None for those that no group has; rate: the
    learning rate, where it is a number."""

    options: dict[str, Any]
    rate: Buffer
    schedule: Schedule | None
    pattern: str | None = None
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
    """Base of all optimizers. Raises TypeMismatch for options that are out of range and for groups that hold nothing.

    It updates the float parameters of its model that are not frozen, as of each step. A frozen parameter keeps its
    value and state. A newly unfrozen one starts with a state of zeros. One that left the model is dropped with its state.
    Parameters of another optimizer are not updated. Steps are counted for each parameter: bias corrections use this
    count, schedules the number of all steps."""

    Config: ClassVar[Any] = _DerivedConfig()  # the constructor's arguments besides the model
    _made_config: ClassVar[Any]

    STATE: ClassVar[tuple[str, ...]] = ()
    """The names of a parameter's state tensors, zeros at first."""

    SIGNED: ClassVar[tuple[str, ...]] = ()
    """Options whose numbers may be negative."""

    def __init__(self, model: Module, lr: float | Schedule, groups: Groups = (), **options: Any) -> None:
        self._must_be_module(model)
        self._model = model
        self._reference = weakref.ref(self)
        self._known: dict[str, Parameter] = {}  # those that have state, frozen or not
        self._parameters: dict[str, Parameter] = {}
        self.state: dict[str, dict[str, Buffer]] = {}
        self._steps = _buffer("steps", np.zeros((), np.int64))
        self._counts: dict[str, Buffer] = {}  # by path, how many steps moved it; one buffer for those that agree
        everything = [path for path, p in model.named_parameters(buffers=False) if p.dtype in FLOATS]
        self._groups = self._grouped({"lr": lr, **options}, groups, everything)
        trained = [p for p in model.parameters() if p.trainable and p.dtype in FLOATS]
        if not trained:
            raise TypeMismatch(
                "there is nothing to train", ["the module has no parameters that are floats and not frozen"]
            )
        for p in trained:
            p.mover = self._reference
        self.follow()

    @property
    def groups(self) -> list[Group]:
        """Parameters with the same options."""
        return self._groups

    @property
    def steps(self) -> Buffer:
        """The number of steps made, int64[]."""
        return self._steps

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that it moves, by path."""
        self.follow()
        return self._parameters

    def follow(self) -> None:
        """Follows changes in the model: parameters that were frozen, unfrozen, replaced, or converted to
        another float type. Raises TypeMismatch for parameters that this optimizer does not update."""
        present = {path: p for path, p in self._model.named_parameters(buffers=False) if p.dtype in FLOATS}
        paths = {id(p): path for path, p in present.items()}
        for path, p in list(self._known.items()):
            if present.get(path) is not p:
                known, state, count = self._known.pop(path), self.state.pop(path), self._counts.pop(path)
                if (other := paths.get(id(p))) is not None:  # a shared one, found under another path first
                    self._known[other], self.state[other], self._counts[other] = known, state, count
        moved = {path: p for path, p in present.items() if p.trainable and self._is_its_own(p)}
        if _by_identity(moved) != _by_identity(self._parameters):
            before, self._parameters = self._parameters, moved
            start = self.steps if not int(self.steps.array) else _buffer("count", np.zeros((), np.int64))
            for path, p in moved.items():
                if path not in self._known:
                    self._known[path], self._counts[path], self.state[path] = p, start, {}
            self._regroup(present)
            try:
                self.check()
            except TypeMismatch:
                self._parameters = before
                raise
        for path, p in moved.items():
            p.mover = self._reference
            state = self.state[path]
            for name in self.STATE:
                if name not in state and self.has_state(name, self._options(path)):
                    state[name] = _zeros(f"{path}.{name}", p)
            for buffer in state.values():
                if buffer.dtype != p.dtype:
                    buffer.convert(p.dtype)

    def _is_its_own(self, p: Parameter) -> bool:
        """True if no other optimizer owns the parameter."""
        mover = None if p.mover is None else p.mover()
        return mover is None or mover is self or id(p) in {id(known) for known in self._known.values()}

    def _must_be_module(self, model: Any) -> None:
        if not isinstance(model, Module):
            hint = f"write {type(self).__name__}(model, lr=...)"
            given = f"not a {type(model).__name__}"
            raise TypeMismatch("an optimizer is given the model, not its parameters", [Problem(given, hint=hint)])

    def __guarded__(self) -> tuple[Any, ...]:
        buffers = (b for state in self.state.values() for b in state.values())
        return (self._model, self.groups, *self._counts.values(), *buffers)

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
        """True if the options need this state tensor."""
        return True

    # ---- a step --------------------------------------------------------------------------------------------------------
    def update(self, gradients: Mapping[str, Tensor], only_if: Tensor | None = None) -> None:
        """Makes a step: gives parameters and state their next elements. gradients: by parameter path; a parameter without one
        stays. only_if: a bool scalar, without which all stays. Raises TypeMismatch naming every gradient that is of no parameter
        here, or of another type."""
        tracer = active()
        if tracer is not None:
            tracer.saw(self)
        self.follow()
        gradients = getattr(gradients, "used", gradients)
        self._check(gradients)
        self._part(gradients)
        counts = {id(b): b + 1 for b in (self.steps, *(self._counts[path] for path in gradients))}
        rates = {id(group): _rate(group, self.steps * 1) for group in self.groups}
        buffers = {id(b): b for b in (self.steps, *self._counts.values())}
        assigned: list[tuple[Parameter, Tensor]] = [(buffers[i], count) for i, count in counts.items()]
        for path, g in gradients.items():
            p, group, state = self._parameters[path], self._group[path], self.state[path]
            lr = rates[id(group)].astype(p.dtype)
            step = counts[id(self._counts[path])].astype("float64")
            moved, new = self.move(p * 1, g, {n: b * 1 for n, b in state.items()}, lr, step, group.options)
            assigned.append((p, moved))
            assigned += [(state[name], value) for name, value in new.items()]
        if only_if is not None:
            assigned = [(p, where(only_if, tensor, p * 1)) for p, tensor in assigned]
        if tracer is None:  # all at once
            evaluate(tensor.value for _, tensor in assigned)
        for parameter, tensor in assigned:
            parameter.assign(tensor)

    def _part(self, moved: Collection[str]) -> None:
        """Parameters that a step does not move are counted apart from those that it moves."""
        apart: dict[int, Buffer] = {}
        moving = {id(self._counts[path]) for path in moved} | {id(self.steps)}
        for path, count in self._counts.items():
            if path not in moved and id(count) in moving:
                self._counts[path] = apart.setdefault(id(count), _buffer("count", np.array(count.array)))

    def _check(self, gradients: Mapping[str, Tensor]) -> None:
        problems = []
        for path, g in gradients.items():
            p = self._parameters.get(path)
            if p is None:
                problems.append(
                    Problem(f"'{path}' is no parameter that it trains", hint="frozen, or of another module?")
                )
            elif g.type != p.type:
                problems.append(Problem(f"the gradient of '{path}' is {g.type}, the parameter {p.type}"))
        if problems:
            raise TypeMismatch(f"{type(self).__name__} does not take these gradients", problems)

    # ---- groups --------------------------------------------------------------------------------------------------------
    def _grouped(self, options: dict[str, Any], groups: Groups, paths: Sequence[str]) -> list[Group]:
        problems = self._wrong(options)
        made = [self._made({**options, **own}, pattern) for pattern, own in groups] + [self._made(options, None)]
        for _, own in groups:
            unknown = sorted(own.keys() - options.keys())
            problems += [f"a group sets '{name}'; there are {', '.join(options)}" for name in unknown]
            problems += self._wrong(own)
        for path in paths:
            _of(made, path).paths.append(path)
        problems += [
            f"the group '{pattern}' is found in no parameter's path"
            for (pattern, _), group in zip(groups, made, strict=False)
            if not group.paths
        ]
        if problems:
            raise TypeMismatch(f"{type(self).__name__} does not take these options", problems)
        self._rest = made[-1]  # the group of parameters that match no pattern
        return [group for group in made if group.paths]

    def _wrong(self, options: Mapping[str, Any]) -> list[str]:
        found = []
        for name, value in options.items():
            if name == "lr" and not _is_rate(value):
                found.append(f"lr is {value!r:.80}, and neither a number nor a schedule")
                continue
            numbers = value if isinstance(value, tuple) else (value,)
            if name in self.SIGNED:
                numbers = tuple(abs(number) for number in numbers)
            for number in numbers:
                least = 0 <= number < math.inf if isinstance(number, (int, float)) else True
                if not least or (name == "betas" and not 0 <= number < 1):
                    found.append(f"{name} is {value}, which is out of range")
                    break
        return found

    def _regroup(self, paths: Iterable[str]) -> None:
        """Which group each parameter of the model is in, frozen or not."""
        self._group = {}
        for group in self.groups:
            group.paths.clear()
        for path in paths:
            if path in self._known:
                group = _of([*self.groups, self._rest], path)
                if group is self._rest and all(group is not other for other in self.groups):
                    self.groups.append(group)
                self._group[path] = group
                group.paths.append(path)

    def _made(self, options: dict[str, Any], pattern: str | None) -> Group:
        lr: Any = options["lr"]
        scheduled = callable(lr)
        rate = _buffer("lr", np.array(0.0 if scheduled or not hasattr(lr, "__float__") else float(lr)))
        return Group(options, rate, options["lr"] if scheduled else None, pattern)

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
        self.follow()
        found = {"steps": self.steps, **{f"lr.{i}": g.rate for i, g in enumerate(self.groups)}}
        found |= {f"count.{path}": b for path, b in self._counts.items() if b is not self.steps}
        return found | {f"state.{p}.{n}": b for p, state in self.state.items() for n, b in state.items()}

    def state_dict(self) -> dict[str, np.ndarray]:
        """The state as it is now: steps made, learning rates, and the parameters' state tensors by path; for parameters that
        some steps did not move, how many did ("count.<path>")."""
        return {name: buffer.array for name, buffer in self.named_buffers().items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes what `state_dict` gave, all or nothing; parameters that are frozen need none. Raises ModelError listing what is
        missing, unknown or does not fit."""
        own = self.named_buffers()
        counts = {name: np.asarray(array) for name, array in state.items() if name.startswith("count.")}
        state = {name: array for name, array in state.items() if name not in counts}
        own = {name: buffer for name, buffer in own.items() if not name.startswith("count.")}
        idle = [path for path in self._known if path not in self._parameters]
        left = {f"state.{path}.{name}" for path in idle for name in self.state[path]} - state.keys()
        own = {name: buffer for name, buffer in own.items() if name not in left}
        problems = [f"'{name}' is missing" for name in own.keys() - state.keys()]
        problems += [f"'{name}' is unknown" for name in state.keys() - own.keys()]
        problems += [f"'{name}' is unknown" for name in counts if name[len("count.") :] not in self._known]
        problems += [f"'{name}' is no number of steps" for name, array in counts.items() if not _is_count(array)]
        for name in sorted(own.keys() & state.keys()):
            have, want = np.asarray(state[name]), own[name]
            if have.shape != want.shape or str(constant(have).dtype) != str(want.dtype):
                problems.append(f"'{name}' is {have.dtype}{list(have.shape)}, not {want.type}")
        if problems:
            raise ModelError("this state is of another optimizer", sorted(problems))
        for name, buffer in own.items():
            buffer.assign(np.asarray(state[name]))
        for name in left:
            path, _, tensor = name[len("state.") :].rpartition(".")
            self.state[path][tensor] = _zeros(f"{path}.{tensor}", self._known[path])
        apart: dict[int, Buffer] = {}
        for path in self._counts:
            self._counts[path] = self.steps
            if (count := counts.get(f"count.{path}")) is not None:
                self._counts[path] = apart.setdefault(int(count), _buffer("count", np.array(count)))

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.groups[-1].options.items())
        return f"{type(self).__name__}({len(self.parameters)} parameters, {options})"

    def __getattr__(self, name: str) -> Any:
        hint = "" if name.startswith("_") else suggestion("Optimizer", name, dir(type(self)))
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'{hint}")


def _of(groups: Iterable[Group], path: str) -> Group:
    """The first group whose pattern is found in a path."""
    return next(group for group in groups if group.pattern is None or re.search(group.pattern, path))


def _by_identity(parameters: Mapping[str, Parameter]) -> list[tuple[str, int]]:
    return [(path, id(p)) for path, p in parameters.items()]


def _is_count(array: np.ndarray) -> bool:
    return array.shape == () and array.dtype == np.int64 and int(array) >= 0


def _rate(group: Group, steps: Tensor) -> Tensor:
    return group.rate if group.schedule is None else group.schedule(steps.astype("float64"))


def _buffer(name: str, array: np.ndarray) -> Buffer:
    buffer = Buffer(array)
    buffer.name = name
    return buffer


def _zeros(name: str, p: Parameter) -> Buffer:
    buffer = Buffer(tuple(p.shape), p.dtype)
    buffer.name = name
    buffer.move(p.placement)
    return buffer


def corrected(beta: float, step: Tensor, like: Tensor) -> Tensor:
    """1 - beta^step, what an average that began at zero is short of: in float64, where nothing cancels."""
    return (1.0 - constant(beta, "float64") ** step).astype(like.dtype)


def _is_rate(value: Any) -> bool:
    """True for a number or a schedule."""
    return callable(value) or (hasattr(value, "__float__") and not isinstance(value, bool))
