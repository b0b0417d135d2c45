"""`Module`: what models are written as. Parameters, buffers and other modules are its attributes.

    class Classifier(nn.Module):
        def __init__(self):
            self.features = nn.Linear(784, 128)
            self.head = nn.Linear(128, 10)

        def forward(self, x):
            return self.head(ops.relu(self.features(x)))

A module is called with lazy tensors, or compiled whole (`burn.compile(Classifier(), ("float32[batch, 784]",))`). A class attribute `inputs`
that names the inputs and gives their types, and `outputs` with the outputs' names, let `burn.compile` do without
examples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from burn.dialect.weights import Weight
from burn.errors import ModelError, Problem
from burn.importers.trace import active
from burn.importers.weights import safetensors
from burn.nn.parameter import Parameter

M = TypeVar("M", bound="Module")


class Module:
    """Base of all modules. A subclass gives `forward`."""

    inputs: ClassVar[Mapping[str, str]] = {}
    outputs: ClassVar[Sequence[str]] = ()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, written with tensors."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracer = active()
        if tracer is None:
            return self.forward(*args, **kwargs)
        with tracer.scope(self):
            return self.forward(*args, **kwargs)

    # ---- what is in it -----------------------------------------------------------------------------------------------
    def children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly in this one, by attribute."""
        return ((name, value) for name, value in vars(self).items() if isinstance(value, Module))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all those in it, by path ("encoder.0.attention"); its own path is `prefix`."""
        yield prefix, self
        for name, child in self.children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self, buffers: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Parameters and, unless told otherwise, buffers by path; one that is shared under its first path only."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and id(value) not in seen and (buffers or value.trainable):
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def num_params(self, buffers: bool = False) -> int:
        """How many numbers training could change."""
        return sum(p.count for _, p in self.named_parameters(buffers))

    # ---- weights -----------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, np.ndarray]:
        """Every parameter's and buffer's elements by path; those of a file stay mapped."""
        return {name: parameter.array for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, np.ndarray | Weight]) -> None:
        """Takes elements by path. Raises ModelError listing every missing, unknown or unfitting tensor."""
        own = dict(self.named_parameters())
        problems = [Problem(f"'{n}' is missing: it must be {p.type}") for n, p in own.items() if n not in state]
        problems += [Problem(f"there is no parameter '{name}'") for name in state if name not in own]
        for name, parameter in own.items():
            if name in state:
                parameter.name = name
                try:
                    parameter.assign(state[name])
                except Exception as error:  # of whatever kind the array was
                    text = "; ".join(p.message for p in getattr(error, "problems", ())) or str(error)
                    problems.append(Problem(f"'{name}' does not fit: {text}"))
        if problems:
            raise ModelError(f"these weights are not those of {type(self).__name__}", problems)

    @classmethod
    def from_file(cls: type[M], path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> M:
        """A module, made with these arguments, with the weights of a .safetensors file, which stay in the file."""
        module = cls(*args, **kwargs)
        module.load_state_dict(safetensors.read(path))
        return module

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all parameters and buffers to a .safetensors file."""
        safetensors.write(path, {name: parameter.weight for name, parameter in self.named_parameters()})

    # ---- for people --------------------------------------------------------------------------------------------------
    def extra_repr(self) -> str:
        """What a subclass says of itself in `repr`."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.children()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"

    def summary(self) -> str:
        """A table of the modules that have parameters of their own: path, kind, parameters."""
        rows = []
        for path, module in self.named_modules():
            own = [value for value in vars(module).values() if isinstance(value, Parameter)]
            if own:
                shapes = ", ".join(f"[{', '.join(map(str, p.shape))}]" for p in own)
                rows.append(
                    (path or type(self).__name__, type(module).__name__, f"{sum(p.count for p in own):,}", shapes)
                )
        head = ("module", "kind", "parameters", "shapes")
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(3)]
        lines = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}  {d}" for a, b, c, d in [head, *rows]]
        return "\n".join([*lines, f"{self.num_params():,} trainable parameters, {self.num_params(True):,} in all"])
