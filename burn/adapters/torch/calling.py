"""How a PyTorch module is called: which tensors of a call are a program's inputs, and what its outputs are made into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from burn.errors import InputError, Problem
from burn.importers.torch.exported import ImportedProgram
from burn.importers.torch.paths import paths_of


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
        self._takes_tensors = not self._kwargs and all(spec.is_leaf() for spec in _children(self._in_spec))
        self._returns: type | None = None  # a tuple or list of leaves
        if self._out_spec.type in (tuple, list) and all(spec.is_leaf() for spec in self._out_spec.children()):
            self._returns = self._out_spec.type

    def leaves(self, args: tuple, kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call in the exported order, wherever the caller put them. Raises InputError."""
        by_position = self._takes_tensors and not kwargs and len(args) == len(self._names)
        if by_position and all(isinstance(arg, torch.Tensor) for arg in args):
            return list(args)  # flattening takes longer than a small program runs
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
            problems += _differences(self._names, spec, self._in_spec)
        raise InputError("the inputs do not fit the program", problems)

    def inputs(self, leaves: list[Any]) -> dict[str, Any]:
        """The program's inputs among them, by name. Raises InputError for constants other than the exported ones."""
        given: dict[str, Any] = {}
        others: list[tuple[int, Any, Any]] = []
        rows = zip(leaves, self._imported.user_inputs, self._imported.constants, strict=True)
        for number, (leaf, name, constant) in enumerate(rows):
            if name is not None:
                given[name] = leaf
            elif isinstance(leaf, torch.Tensor) or (constant is not None and leaf != constant):
                others.append((number, leaf, constant))
        if others:
            paths = [path for argument, spec in self._arguments() for path in _paths(argument, spec)]
            hint = "compile the module once more for the other value"
            texts = [f"input '{paths[i]}' is {_shown(leaf)}, was exported as {was!r}" for i, leaf, was in others]
            raise InputError("the inputs do not fit the program", [Problem(text, hint=hint) for text in texts])
        return given

    def _arguments(self) -> list[tuple[str, Any]]:
        """The names of forward's arguments with their structures."""
        return list(zip(self._names, _children(self._in_spec), strict=True))

    def result(self, output: Callable[[str], Any]) -> Any:
        """The module's result. output: returns an output by its name."""
        values = [name[0] if isinstance(name, tuple) else output(name) for name in self._imported.user_outputs]
        numbers = self._imported.numbers
        if numbers:
            values = [
                value.item() if name in numbers else value
                for value, name in zip(values, self._imported.user_outputs, strict=True)
            ]
        if self._returns is not None:
            return self._returns(values)
        if self._out_spec.is_leaf():
            return values[0]
        return pytree.tree_unflatten(values, self._out_spec)


def _children(in_spec: Any) -> list[Any]:
    """The structures of the arguments, first those by position."""
    args, kwargs = in_spec.children()
    return [*args.children(), *kwargs.children()]


def _paths(argument: str, spec: Any) -> list[str]:
    """The argument's leaves as a reader would write them: x, x[0], x['key']."""
    return [
        argument + "".join(f"[{key}]" if key.isdigit() else f"['{key}']" for key in path) for path in paths_of(spec)
    ]


def _differences(names: Sequence[str], given: Any, exported: Any) -> list[Problem]:
    """One problem for each argument that has another structure than the exported one."""
    pairs = zip(names, _children(given), _children(exported), strict=True)
    return [_difference(name, got, want) for name, got, want in pairs if got != want]


def _difference(path: str, got: Any, want: Any) -> Problem:
    """The outermost difference of two structures."""
    if got.type is want.type and got.context == want.context and len(got.children()) == len(want.children()):
        keys = got.context if got.type is dict else range(len(got.children()))
        rows = zip(keys, got.children(), want.children(), strict=False)
        for key, inner, expected in rows:
            if inner != expected:
                return _difference(f"{path}[{key!r}]", inner, expected)
    return Problem(f"input '{path}' is {_kind(got)}, must be {_kind(want)}")


def _kind(spec: Any) -> str:
    """A structure in words: "a list of 2", "a dict of 'a', 'b'"."""
    if spec.is_leaf():
        return "a tensor or number"
    count = len(spec.children())
    if spec.type is dict:
        return f"a dict of {', '.join(map(repr, spec.context))}" if count else "an empty dict"
    return f"a {spec.type.__name__} of {count}"


def _shown(leaf: Any) -> str:
    return "a tensor" if isinstance(leaf, torch.Tensor) else repr(leaf)


def argument_names(exported: ExportedProgram) -> list[str]:
    """The argument names of the module's forward."""
    assert exported.call_spec.in_spec is not None
    args, kwargs = exported.call_spec.in_spec.children()
    positional = len(args.children())
    names = list(getattr(exported.module_call_graph[0].signature, "forward_arg_names", None) or ())
    if len(names) < positional:
        names = [f"arg{i}" for i in range(positional)]
    return [*names[:positional], *(kwargs.context or ())]
