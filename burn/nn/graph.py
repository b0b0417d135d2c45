"""`Graph`: an imported model as a module, whose weights are parameters.

    model = burn.load("model.onnx", train=True)
    step = burn.train.step(model, loss, optim.AdamW(model, lr=1e-4))

Its parameters have the names of the model's weights. A call inlines the model's program, before constant folding and packing,
into the program being traced. In training mode it inlines the model's training program, if there is one, with batch
statistics and dropout.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from burn.dialect.types import TensorType
from burn.errors import TypeMismatch
from burn.importers.opened import Opened
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.passes.environment import ANYWHERE
from burn.passes.join_dots import JoinDots
from burn.passes.pipeline import parse
from burn.passes.precision import narrow
from burn.tensors import Tensor, constant
from burn.tracing.replay import replay

PREPARED = "simplify,recognise,simplify"
"""Passes that run on an imported program first: composites have gradients of their own."""


class Forms:
    """A model's programs for inference and for training, each imported at its first use. They are immutable, so
    copies of a module share them. modes: the modes whose programs together contain all weights."""

    __slots__ = ("_converted", "_import", "_made", "modes")

    def __init__(self, import_: Callable[[bool], Opened], modes: tuple[bool, ...] = (False, True)) -> None:
        self._import, self.modes = import_, modes
        self._made: dict[bool, Opened] = {}
        self._converted: dict[tuple[bool, str], Opened] = {}

    def of(self, training: bool) -> Opened:
        if training not in self._made:
            opened = self._import(training)
            for pass_ in parse(PREPARED):
                pass_.run(opened.program, ANYWHERE)
            self._made[training] = opened
        return self._made[training]

    def in_precision(self, training: bool, dtype: str) -> Opened:
        """The program of `of` with matmuls in a half-precision type. Weights, inputs and outputs keep their types."""
        if (training, dtype) not in self._converted:
            opened = self.of(training)
            program = opened.program.copy()
            narrow(program, dtype, [program.inputs[number] for number in opened.parameters])
            JoinDots().run(program)
            self._converted[training, dtype] = replace(opened, program=program)
        return self._converted[training, dtype]

    def __deepcopy__(self, memo: dict[int, Any]) -> Forms:
        return self


class Graph(Module):
    """An imported model that can be trained. `inputs` and `outputs` are those of the model; a model with several outputs
    returns a tuple."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._half = ""  # the element type of its matmuls, if it is not the program's
        opened_modes = [forms.of(training) for training in forms.modes]
        self._paths: dict[str, str] = {}  # weight name -> parameter path
        for opened in opened_modes:
            for name, weight in opened.weights.items():
                if name in self._paths:
                    continue
                kind = Buffer if any(name in form.buffers for form in opened_modes) else Parameter
                parameter = kind(weight.shape, weight.dtype)
                parameter.assign(weight)
                if kind is Parameter:
                    parameter.trainable = name not in opened.frozen
                self._paths[name] = self._free(name)
                vars(self)[self._paths[name]] = parameter
        program = opened_modes[0].program
        own = [i for i in range(len(program.input_names) - program.random_state) if i not in opened_modes[0].parameters]
        vars(self)["inputs"] = {program.input_names[i]: _spec(program.input_types[i]) for i in own}
        vars(self)["outputs"] = tuple(n for i, n in enumerate(program.output_names) if i not in program.renews)

    def _free(self, name: str) -> str:
        """A weight's path: its name, unless that is one of a module's own attributes."""
        while name in vars(self) or hasattr(
            type(self), name
        ):  # hasattr(self, ..) makes a suggestion for each name that is free
            name += "_"
        return name

    def __getitem__(self, path: str) -> Parameter:
        """A parameter or buffer by its path, which need not be a Python name."""
        found = vars(self).get(path)
        if not isinstance(found, Parameter):
            raise TypeMismatch(f"there is no parameter '{path}'", [", ".join(p for p, _ in self.named_parameters())])
        return found

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's outputs for its inputs, by position or by name."""
        results = tuple(self.run(self._bound(args, kwargs)).values())
        return results[0] if len(results) == 1 else results

    def run(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The model's outputs by name, for inputs by name. Updates buffers."""
        opened = self._forms.in_precision(self.training, self._half) if self._half else self._forms.of(self.training)
        program = opened.program
        if self._half:
            types = dict(zip(program.input_names, program.input_types, strict=True))
            given = {name: t.astype(types[name].dtype) if t.dtype == self._half else t for name, t in given.items()}
        inputs: list[Tensor | None] = []
        for number, name in enumerate(program.input_names):
            weight = opened.parameters.get(number)
            inputs.append(given.get(name) if weight is None else self._weight(weight))
        results = replay(program, inputs)
        for output, source in program.renews.items():
            name = opened.parameters[source]
            if name in self._paths:
                vars(self)[self._paths[name]].assign(results[output])
        named = zip(program.output_names, results, strict=True)
        return {name: tensor for i, (name, tensor) in enumerate(named) if i not in program.renews}

    def _weight(self, name: str) -> Tensor | None:
        """A weight as the program reads it: with its adapter's update, if it has an adapter (`adapters`, `nn.adapt`)."""
        path = self._paths.get(name, "")
        adapters = vars(self).get("adapters")
        if adapters is not None and path in adapters:
            return adapters[path](vars(self)[path])
        return vars(self).get(path)

    def weight_uses(self, path: str) -> list[tuple[str, Any]]:
        """The ops that read a weight in the programs of the model's modes, behind transposes and conversions of its type:
        (the op's name, the axis of the weight that it contracts, or None)."""
        found: list[tuple[str, Any]] = []
        for opened in map(self._forms.of, self._forms.modes):
            for number, name in opened.parameters.items():
                if self._paths.get(name) == path:
                    found += _uses(opened.program.inputs[number], (0, 1))
        return found

    @contextmanager
    def in_precision(self, dtype: str) -> Iterator[None]:
        """Calls inside compute matmuls in a half-precision type, and accept inputs of that type."""
        before, self._half = self._half, dtype
        try:
            yield
        finally:
            self._half = before

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Tensor]:
        names = list(self.inputs)
        given = dict(zip(names, args, strict=False))
        problems = [f"{len(args)} inputs were given, it has {len(names)}"] if len(args) > len(names) else []
        problems += [f"there is no input '{name}'" for name in kwargs if name not in names]
        problems += [f"input '{name}' is given twice" for name in kwargs if name in given]
        given |= kwargs
        problems += [f"input '{name}' is missing" for name in names if name not in given]
        if problems:
            raise TypeMismatch(f"the model takes {', '.join(names) or 'no inputs'}", problems)
        return {name: constant(value) for name, value in given.items()}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {type_}" for name, type_ in self.inputs.items())

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeMismatch("an imported model is not pickled", ["save its weights: model.save(path)"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        made = object.__new__(type(self))
        memo[id(self)] = made
        vars(made).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return made


def _uses(value: Any, axes: tuple[int, ...]) -> list[tuple[str, Any]]:
    """axes: of the weight, for each axis of the value."""
    found: list[tuple[str, Any]] = []
    for use in value.uses:
        op = use.owner
        name = op.name.removeprefix("burn.")
        if name == "transpose":
            order = list(op.attributes["permutation"])
            found += _uses(op.results[0], tuple(axes[i] for i in order))
        elif name == "cast":
            found += _uses(op.results[0], axes)
        elif name == "dot_general" and len(axes) == 2:
            side = "lhs" if use.operand_number == 0 else "rhs"
            contracted = list(op.attributes[f"{side}_contract"]) if f"{side}_contract" in op.attributes else []
            found.append((name, axes[contracted[0]] if len(contracted) == 1 else None))
        elif name == "gather" and use.operand_number == 0:
            found.append((name, None))
        else:
            found.append((name, None))
    return found


def _spec(type_: TensorType) -> str:
    return f"{type_.dtype}[{', '.join(map(str, type_.shape))}]"


__all__ = ["Forms", "Graph"]
