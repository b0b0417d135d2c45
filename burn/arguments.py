"""What a function is called with: its arguments by name, taken apart to tensors that have names and types of their own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burn import trees
from burn.dialect.types import TensorType
from burn.errors import InputError, Problem, TypeMismatch
from burn.signature import spec_of
from burn.trees import Structure

Dynamic = Mapping[Any, Any]
"""Names for sizes that vary: {"x": {0: "batch"}}, by argument (or its position), or by the path of a tensor in one."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one kind of call. names: every argument that is given; structures: what each is made of; types: of
    every tensor in them, by its path."""

    names: tuple[str, ...]
    structures: tuple[Structure, ...]
    types: dict[str, TensorType]
    signature: inspect.Signature
    renamed: bool  # the names are not those of the function's parameters: arguments go by position

    @property
    def is_flat(self) -> bool:
        """Whether every argument is a tensor."""
        return all(isinstance(structure, trees.Leaf) for structure in self.structures)

    def call(self, function: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        """Calls the function with tensors in the order of `types`."""
        rest = iter(leaves)
        values = {
            n: trees.unflatten(s, [next(rest) for _ in trees.paths(s)])
            for n, s in zip(self.names, self.structures, strict=True)
        }
        if self.renamed:
            return function(*values.values())
        positional: list[Any] = []
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += [values.pop(n) for n in list(values) if re.fullmatch(rf"{name}_\d+", n)]
            elif name not in values or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                break
            else:
                positional.append(values.pop(name))
        return function(*positional, **values)

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call, in the order of `types`. Raises InputError where its arguments are made differently."""
        try:
            given = bound(self.signature, args, kwargs)
        except TypeMismatch as error:
            raise InputError(error.summary, error.problems) from None
        parts = {name: trees.flatten(value, path=name) for name, value in given.items()}
        if self.renamed:
            parts = dict(zip(self.names, parts.values(), strict=False))
        wanted = dict(zip(self.names, self.structures, strict=True))
        problems = [
            Problem(f"'{name}' is made differently from the example's")
            for name in wanted.keys() | parts.keys()
            if name not in wanted or name not in parts or parts[name][1] != wanted[name]
        ]
        if problems:
            raise InputError("these arguments are not what the function was compiled for", sorted(problems, key=str))
        return [leaf for name in self.names for leaf in parts[name][0]]


def of_examples(
    signature: inspect.Signature, name: str, declared: Mapping[str, Any], examples: Any, dynamic: Dynamic
) -> Arguments:
    """The arguments that examples stand for: arrays, types as text ("float32[batch, 3]"), or containers of them; by position
    or by name. `name` is the function's, `declared` the inputs that it states itself. Raises TypeMismatch."""
    if examples is None:
        if not declared:
            hint = "give example_inputs, or the class attribute `inputs`"
            raise TypeMismatch(f"what inputs {name} takes is not known", [hint])
        examples = declared
    if not isinstance(examples, (tuple, list)) and _is_example(examples):
        examples = (examples,)  # one input, without its tuple
    names = list(declared) or list(signature.parameters)
    if isinstance(examples, Mapping):
        given = dict(examples)
        known = [*names, *([] if declared else _open_ended(signature, given))]
        unknown = [n for n in given if n not in known]
        problems = [Problem(f"there is no input '{n}'", hint=f"the inputs are {', '.join(names)}") for n in unknown]
        if problems:
            problems += [
                Problem(f"dynamic names {key!r}, which is no input")
                for key in dynamic
                if isinstance(key, str) and key.split(".")[0] not in known
            ]
            raise TypeMismatch(f"the examples do not fit {name}", problems)
        given = {n: given[n] for n in known if n in given}
    elif declared:
        if len(examples) > len(names):
            raise TypeMismatch(f"{name} takes {len(names)} inputs", [f"{len(examples)} examples were given"])
        given = dict(zip(names, examples, strict=False))
    else:
        given = bound(signature, examples, {}, name)
    return described(signature, given, dynamic, _is_example, bool(declared))


def _open_ended(signature: inspect.Signature, given: Mapping[str, Any]) -> list[str]:
    """Names that go to **kwargs, if the function takes any."""
    takes = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    return [n for n in given if n not in signature.parameters] if takes else []


def bound(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], name: str = "the function"
) -> dict[str, Any]:
    """Every argument by the name of its parameter; those of *args are args_0, args_1 ... Raises TypeMismatch."""
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        names = ", ".join(signature.parameters)
        raise TypeMismatch(f"the arguments do not fit {name}({names})", [str(error)]) from None
    given: dict[str, Any] = {}
    for key, value in arguments.items():
        kind = signature.parameters[key].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            given |= {f"{key}_{i}": v for i, v in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            given |= value
        else:
            given[key] = value
    return given


def described(
    signature: inspect.Signature,
    given: Mapping[str, Any],
    dynamic: Dynamic,
    leaf: Callable[[Any], bool] = trees.is_leaf,
    renamed: bool = False,
) -> Arguments:
    """Arguments with the types of all tensors in them. Raises TypeMismatch where `dynamic` names what is not there."""
    structures: list[Structure] = []
    types: dict[str, TensorType] = {}
    used: set[Any] = set()
    for position, (name, value) in enumerate(given.items()):
        leaves, structure = trees.flatten(value, leaf, name)
        structures.append(structure)
        for path, item in zip(trees.paths(structure), leaves, strict=True):
            key = next((k for k in (path, name, position) if k in dynamic), None)
            used.add(key)
            types[path] = spec_of(item, None if key is None else dynamic[key])
    problems = [Problem(f"dynamic names {key!r}, which is no input") for key in dynamic if key not in used]
    if problems:
        raise TypeMismatch("the sizes that vary are not those of the inputs", problems)
    return Arguments(tuple(given), tuple(structures), types, signature, renamed)


def _is_example(value: Any) -> bool:
    """Arrays, numbers, lists of numbers, types and their text."""
    if isinstance(value, str):
        return re.fullmatch(r"\s*\w+\s*\[.*\]\s*", value, re.DOTALL) is not None
    if isinstance(value, (list, tuple)) and value:
        return all(
            isinstance(v, (bool, int, float)) or (isinstance(v, (list, tuple)) and _is_example(v)) for v in value
        )
    return isinstance(value, TensorType) or trees.is_leaf(value)
