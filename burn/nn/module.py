"""`Module`: what models are written as. Parameters, buffers and other modules are its attributes.

    class Classifier(nn.Module):
        def __init__(self):
            self.features = nn.Linear(784, 128)
            self.head = nn.Linear(128, 10)

        def forward(self, x):
            return self.head(ops.relu(self.features(x)))

A module is called with lazy tensors, or compiled whole (`burn.compile(Classifier(), ("float32[batch, 784]",))`). A class
attribute `inputs` that names the inputs and gives their types, and `outputs` with the outputs' names, let `burn.compile` do
without examples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from burn.dialect.weights import Weight
from burn.errors import ModelError, Problem
from burn.importers import weights
from burn.importers.trace import active
from burn.importers.weights.apply import DTypes, Filter, Remap, load_into
from burn.importers.weights.checkpoint import Checkpoint
from burn.importers.weights.report import Report
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

    def load(
        self,
        source: str | os.PathLike[str] | Mapping[str, np.ndarray | Weight],
        *,
        remap: Remap | None = None,
        include: Filter | None = None,
        exclude: Filter | None = None,
        partial: bool = False,
        dtype: DTypes | None = None,
        adapter: str | None = "auto",
        top_level_key: str | None = None,
    ) -> Report:
        """Takes the weights of a file (safetensors and its shards, torch's .pt/.pth/.bin, .bpk, .npz) or of a mapping.

        remap: (pattern, replacement) pairs, regular expressions that are replaced in the tensors' names one after another.
        include, exclude: which parameters to load, by name: patterns, found anywhere in it, or a function. partial: let
        parameters be missing and tensors be left over. dtype: "cast" converts floats to what the parameters are; an element
        type ("float16") makes float parameters of that type; a mapping from patterns to either, or to None, chooses for
        each parameter by the first that is found in its name. adapter: whose names and layouts the tensors have, "torch",
        "burn" (Rust) or None for this module's own; "auto" asks the file, and the shapes where it does not say.
        top_level_key: where in a torch checkpoint the state dict is.

        Returns a report of what became of every tensor. Raises ModelError, with the whole report, when anything is missing,
        left over or does not fit (with `partial`, when something does not fit, or nothing does); nothing is loaded then."""
        import burn.nn.layouts  # noqa: F401  # the layers' rules

        if isinstance(source, Mapping):
            checkpoint = Checkpoint.of(source)
        else:
            checkpoint = weights.read(source, top_level_key)
        return load_into(
            self,
            checkpoint,
            remap=remap,
            include=include,
            exclude=exclude,
            partial=partial,
            dtype=dtype,
            adapter=adapter,
        )

    @classmethod
    def from_file(cls: type[M], path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> M:
        """A module, made with these arguments, with the weights of a file (see `load`), which stay in it if they can."""
        module = cls(*args, **kwargs)
        module.load(path)
        return module

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all parameters and buffers to a .safetensors, .bpk or .npz file, whole or not at all."""
        weights.write(path, {name: parameter.weight for name, parameter in self.named_parameters()})

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
