"""How a PyTorch module is called: which tensors of a call are a program's inputs, and what its outputs are made into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from burn.errors import InputError, Problem
from burn.importers.torch.exported import ImportedProgram


class Calling:
    """The calling convention of an exported module whose program was imported."""

    def __init__(self, imported: ImportedProgram, exported: ExportedProgram) -> None:
        self._imported = imported
        spec = exported.call_spec
        assert spec.in_spec is not None and spec.out_spec is not None
        self._in_spec, self._out_spec = spec.in_spec, spec.out_spec
        args, kwargs = self._in_spec.children()
        self._args, self._kwargs = len(args.children()), tuple(kwargs.context or ())
        self._names = argument_names(exported)

    def leaves(self, args: tuple, kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call in the exported order, wherever the caller put them. Raises InputError."""
        given = dict(zip(self._names, args, strict=False))
        problems = []
        if len(args) > len(self._names):
            problems.append(Problem(f"{len(args)} inputs were given by position, there are {len(self._names)}"))
        for name, value in kwargs.items():
            if name in given:
                problems.append(Problem(f"input '{name}' was given both by position and by name"))
            elif name not in self._names:
                hint = f"the inputs are {', '.join(self._names)}"
                problems.append(Problem(f"there is no input '{name}'", hint=hint))
            given[name] = value
        problems += [Problem(f"input '{name}' is missing") for name in self._names if name not in given]
        if not problems:
            values = [given[name] for name in self._names]
            tree = (tuple(values[: self._args]), dict(zip(self._kwargs, values[self._args :], strict=True)))
            leaves, spec = pytree.tree_flatten(tree)
            if spec == self._in_spec:
                return leaves
            problems.append(Problem(f"the inputs' structure is {spec}, the program was exported with {self._in_spec}"))
        raise InputError("the inputs do not fit the program", problems)

    def inputs(self, leaves: list[Any]) -> dict[str, Any]:
        """The program's inputs among them, by name. Raises InputError where a number is another than was exported."""
        given: dict[str, Any] = {}
        for leaf, name, constant in zip(leaves, self._imported.user_inputs, self._imported.constants, strict=True):
            if name is not None:
                given[name] = leaf
            elif isinstance(leaf, torch.Tensor) or (constant is not None and leaf != constant):
                raise InputError(
                    "the inputs do not fit the program", [f"{leaf!r} was {constant!r} when it was exported"]
                )
        return given

    def result(self, output: Callable[[str], Any]) -> Any:
        """The module's result. output: returns an output by its name."""
        values = [name[0] if isinstance(name, tuple) else output(name) for name in self._imported.user_outputs]
        return pytree.tree_unflatten(values, self._out_spec)


def argument_names(exported: ExportedProgram) -> list[str]:
    """The argument names of the module's forward."""
    assert exported.call_spec.in_spec is not None
    args, kwargs = exported.call_spec.in_spec.children()
    positional = len(args.children())
    names = list(getattr(exported.module_call_graph[0].signature, "forward_arg_names", None) or ())
    if len(names) < positional:
        names = [f"arg{i}" for i in range(positional)]
    return [*names[:positional], *(kwargs.context or ())]
