"""Several optimizers, each for some parameters of a model, as one optimizer."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from burn.dialect.types import FLOATS
from burn.errors import ModelError, Problem, TypeMismatch
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.optim.average import Averaged
from burn.optim.base import Group, Optimizer, OptimizerConfig
from burn.optim.lbfgs import LBFGS
from burn.tensors import Tensor

Selector = str | Callable[[str, Parameter], bool]
"""A regular expression that is found in a parameter's path, or a function of path and parameter."""


class Combined(Optimizer):
    """Several optimizers by parameter: each parameter belongs to the first selector that matches it.

        optim.Combined(model, [
            (lambda path, p: p.ndim == 2 and "embed" not in path, optim.Muon.Config(lr=0.02)),
            ("", optim.AdamW.Config(lr=3e-4)),
        ])

    A selector is a regular expression that is found in the parameter's path ("" matches all), or a function of path and
    parameter. Beside it is a configuration of an optimizer, or a function of a model that makes one. `members` are these
    optimizers. A step counts for all of them, clipping is by the norm of all gradients, and `lr` is that of the first.

    Raises TypeMismatch for parameters that are to be trained and match no selector, for a selector without parameters, and for
    LBFGS, which evaluates the loss itself."""

    def __init__(
        self, model: Module, parts: Sequence[tuple[Selector, OptimizerConfig | Callable[[Module], Optimizer]]]
    ) -> None:
        self._must_be_module(model)
        self._model, self._selectors = model, tuple(selector for selector, _ in parts)
        self._must_cover(f"{type(self).__name__} leaves parameters without an optimizer")
        self._reference = weakref.ref(self)
        self.members: list[Optimizer] = []
        for number, (selector, make) in enumerate(parts):
            view = _View(model, self._selectors, number)
            if not any(p.trainable and p.dtype in FLOATS for p in view.parameters()):
                text = f"selector {number} ({selector!r})"
                raise TypeMismatch("a selector matches no parameter that is to be trained", [text])
            member = make.init(view) if isinstance(make, OptimizerConfig) else make(view)
            if not isinstance(member, Optimizer) or isinstance(member, (LBFGS, Combined, Averaged)):
                hint = "optim.AdamW.Config(lr=1e-3)"
                raise TypeMismatch("this is no optimizer to combine", [Problem(type(member).__name__, hint=hint)])
            self.members.append(member)
        if not self.members:
            raise TypeMismatch("there is nothing to combine", ["parts are (selector, optimizer) pairs"])

    def _must_cover(self, summary: str) -> None:
        free = [
            Problem(f"'{path}'", hint='end with ("", optim.AdamW.Config())')
            for path, p in self._model.named_parameters(buffers=False)
            if p.trainable and p.dtype in FLOATS and _first(self._selectors, path, p) is None
        ]
        if free:
            raise TypeMismatch(summary, free)

    @property
    def parameters(self) -> dict[str, Parameter]:
        self.follow()
        return {path: p for member in self.members for path, p in member.parameters.items()}

    def follow(self) -> None:
        self._must_cover(f"{type(self).__name__} has no optimizer for parameters that are new")
        self._hand_over()
        for member in self.members:
            member.follow()

    def _hand_over(self) -> None:
        """A parameter whose path is now one of another selector (`nn.adapt.lora` changes paths) goes to that one's member, with a
        new state."""
        for path, p in self._model.named_parameters(buffers=False):
            mover = None if p.mover is None else p.mover()
            number = None if mover is None else _first(self._selectors, path, p)
            if number is not None and any(mover is member for member in self.members):
                p.mover = self.members[number]._reference

    def __guarded__(self) -> tuple[Any, ...]:
        return (self._model, self.members)

    def update(self, gradients: Mapping[str, Tensor], only_if: Tensor | None = None) -> None:
        self.follow()
        gradients = getattr(gradients, "used", gradients)
        owned = [member.parameters for member in self.members]
        unknown = [
            f"'{path}' is no parameter that it trains" for path in gradients if all(path not in o for o in owned)
        ]
        if unknown:
            raise TypeMismatch(f"{type(self).__name__} does not take these gradients", unknown)
        shares = [{path: g for path, g in gradients.items() if path in own} for own in owned]
        for member, share in zip(self.members, shares, strict=True):
            member._check(share)
        for member, share in zip(self.members, shares, strict=True):
            member.update(share, only_if)

    @property
    def groups(self) -> list[Group]:
        return [group for member in self.members for group in member.groups]

    @property
    def steps(self) -> Buffer:
        return self.members[0].steps

    def named_buffers(self) -> dict[str, Buffer]:
        self.follow()
        return {_name(i, n): b for i, member in enumerate(self.members) for n, b in member.named_buffers().items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        self.follow()
        shares: list[dict[str, np.ndarray]] = [{} for _ in self.members]
        unknown = []
        for name, array in state.items():
            number = self._owner(name)
            if number is None:
                unknown.append(f"'{name}' is unknown")
            else:
                shares[number][name if _is_by_path(name) else name.partition(".")[2]] = array
        if unknown:
            raise ModelError("this state is of another optimizer", sorted(unknown))
        before = [member.state_dict() for member in self.members]
        for number, (member, share) in enumerate(zip(self.members, shares, strict=True)):
            try:
                member.load_state_dict(share)
            except BaseException:
                for done, kept in zip(self.members[:number], before, strict=False):
                    done.load_state_dict(kept)
                raise

    def _owner(self, name: str) -> int | None:
        """The number of the member that has a tensor of the state."""
        if not _is_by_path(name):
            number = name.partition(".")[0]
            return int(number) if number.isdecimal() and int(number) < len(self.members) else None
        path = (
            name.removeprefix("count.") if name.startswith("count.") else name.removeprefix("state.").rpartition(".")[0]
        )
        return next((i for i, member in enumerate(self.members) if path in member._known), None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.members))})"


class _View(Module):
    """The parameters of a model that belong to one selector."""

    def __init__(self, model: Module, selectors: tuple[Selector, ...], number: int) -> None:
        vars(self).update(_of=(model,), _selectors=selectors, _number=number)

    def named_parameters(self, buffers: bool = True, shared: bool = False) -> Iterator[tuple[str, Parameter]]:
        (model,) = vars(self)["_of"]
        selectors, number = vars(self)["_selectors"], vars(self)["_number"]
        return (
            (path, p) for path, p in model.named_parameters(buffers, shared) if _first(selectors, path, p) == number
        )


def _first(selectors: Sequence[Selector], path: str, p: Parameter) -> int | None:
    """The number of the first selector that matches a parameter."""
    for number, selector in enumerate(selectors):
        if re.search(selector, path) if isinstance(selector, str) else selector(path, p):
            return number
    return None


def _name(number: int, name: str) -> str:
    """The name of a member's tensor among all. Names of a parameter's tensors are those of one optimizer, which layouts on a mesh
    go by."""
    return name if _is_by_path(name) else f"{number}.{name}"


def _is_by_path(name: str) -> bool:
    return name.startswith(("state.", "count."))
