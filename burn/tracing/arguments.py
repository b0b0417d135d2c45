"""Arguments of a function: by name, flattened to tensors with names and types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burn.dialect.dims import Dim, Expr
from burn.dialect.spec import spec, spec_of
from burn.dialect.types import DTYPES, TensorType
from burn.errors import InputError, Problem, TypeMismatch
from burn.tensors import trees
from burn.tensors.trees import Structure

Dynamic = Mapping[Any, Any]
"""Names of dynamic sizes, {"x": {0: "batch"}}: by argument (or its position), or by path in an argument. An entry
for a container applies to all tensors in it, or mirrors it: {"cache": {"key": {1: "past"}}}, by key, field or position."""


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
        """True if every argument is a tensor."""
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
        if not declared and signature.parameters:
            hint = "give example_inputs (--input NAME=TYPE in a command), or the class attribute `inputs`"
            raise TypeMismatch(f"what inputs {name} takes is not known", [hint])
        examples = declared or ()
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
    static: Collection[str] = (),
) -> Arguments:
    """Arguments with the types of all tensors in them; `static` ones are taken whole, as values. Raises TypeMismatch where
    `dynamic` names what is not there."""
    structures: list[Structure] = []
    types: dict[str, TensorType] = {}
    if isinstance(dynamic, (tuple, list)):
        dynamic = dict(enumerate(dynamic))
    if not isinstance(dynamic, Mapping):
        raise TypeMismatch('dynamic is a mapping such as {"x": {0: "batch"}}', [f"not {dynamic!r}"])
    vary = _Varying(dynamic)
    for position, (name, value) in enumerate(given.items()):
        leaves, structure = ([], trees.Fixed(value)) if name in static else trees.flatten(value, leaf, name)
        structures.append(structure)
        if name not in dynamic and position in dynamic:
            vary.used.add(position)
        vary.spread(structure, name, dynamic.get(position))
        for path, item in zip(trees.paths(structure), leaves, strict=True):
            types[path] = vary.typed(path, item)
    texts = [s.value for s in structures if isinstance(s, trees.Fixed) and isinstance(s.value, str)]
    if not types and texts and texts[0] in DTYPES:
        spec(texts[0])  # says how a type is written
    unused = [Problem(f"dynamic names {key!r}, which is no input") for key in dynamic if key not in vary.used]
    if problems := [*vary.problems, *unused]:
        raise TypeMismatch("the sizes that vary are not those of the inputs", problems)
    return Arguments(tuple(given), tuple(structures), types, signature, renamed)


class _Varying:
    """The dynamic sizes of each tensor. used: keys of `dynamic` that match; problems: all mismatches."""

    def __init__(self, dynamic: Dynamic) -> None:
        self._dynamic = dynamic
        self._axes: dict[str, Mapping[int, str | Dim]] = {}
        self.used: set[Any] = set()
        self.problems: list[Problem] = []

    def spread(self, structure: Structure, path: str, entry: Any) -> None:
        """Distributes an entry to the tensors of a structure. More specific paths take precedence."""
        if path in self._dynamic:
            self.used.add(path)
            entry = self._dynamic[path]
        if isinstance(structure, trees.Fixed):
            if entry is not None and not _is_axes(entry):
                self._refuse(path, f"is no tensor: {structure.value!r} has no sizes that vary")
            return
        if isinstance(structure, trees.Leaf):
            if entry is not None and not _is_axes(entry):
                self._refuse(path, f"takes sizes by axis, such as {{0: 'batch'}}, not {entry!r}")
            elif entry:
                self._axes[path] = entry
            return
        names = list(structure.keys or range(len(structure.children)))
        for name, (child, inner) in zip(
            names, zip(structure.children, self._parts(structure, path, names, entry), strict=True), strict=True
        ):
            self.spread(child, f"{path}.{name}", inner)

    def _parts(self, structure: trees.Node, path: str, names: Sequence[Any], entry: Any) -> list[Any]:
        """The entries for what is in a container, which its own mirrors unless it gives axes, for all."""
        if entry is None or _is_axes(entry):
            return [entry] * len(names)
        if not isinstance(entry, (Mapping, tuple, list)):
            self._refuse(path, f"takes sizes by axis, or a container of them, not {entry!r}")
            return [None] * len(names)
        given = dict(entry) if isinstance(entry, Mapping) else dict(enumerate(entry))
        by_position = not issubclass(structure.cls, Mapping)
        parts: list[Any] = [None] * len(names)
        for key, value in given.items():
            if key in names:
                parts[names.index(key)] = value
            elif by_position and isinstance(key, int) and 0 <= key < len(names):
                parts[key] = value
            else:
                self._refuse(path, f"has no {key!r}: there are {', '.join(map(repr, names))}")
        return parts

    def typed(self, path: str, example: Any) -> TensorType:
        """The type of a tensor, with the names of its sizes that vary."""
        plain = spec_of(example)
        try:
            return spec_of(plain, self._axes.get(path))
        except TypeMismatch as error:
            self._refuse(path, f"{error.summary}, {'; '.join(p.message for p in error.problems)}")
            return plain

    def _refuse(self, path: str, text: str) -> None:
        self.problems.append(Problem(f"'{path}': {text}"))


def _is_axes(entry: Any) -> bool:
    """True if an entry gives sizes by axis, false if it mirrors a container."""
    return isinstance(entry, Mapping) and all(
        isinstance(axis, int) and isinstance(size, (str, int, Expr)) for axis, size in entry.items()
    )


def _is_example(value: Any) -> bool:
    """Arrays, numbers, lists of numbers, types and their text."""
    if isinstance(value, str):
        return re.match(r"\s*\w+\s*\[", value) is not None
    if isinstance(value, (list, tuple)) and value:
        return all(
            isinstance(v, (bool, int, float)) or (isinstance(v, (list, tuple)) and _is_example(v)) for v in value
        )
    return isinstance(value, TensorType) or trees.is_leaf(value)


def donated_names(donate: Sequence[int | str], names: Sequence[str]) -> set[str]:
    """The arguments that are given up, by name. Raises TypeMismatch for what is no argument."""
    unknown = [d for d in donate if d not in names and not (isinstance(d, int) and -len(names) <= d < len(names))]
    if unknown:
        hint = f"the arguments are {', '.join(names)}"
        raise TypeMismatch("donate names what is no argument", [f"{', '.join(map(repr, unknown))}; {hint}"])
    return {names[d] if isinstance(d, int) else d for d in donate}
