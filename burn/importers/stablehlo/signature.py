"""Inputs and outputs of a module: their names, types and named sizes. Enter at `read_signature`.

A size that the file leaves open gets a name: that of jax.export's dimension variable if an axis has exactly this size, else the
input's and the axis's. Names of inputs and outputs come from the paths of JAX's containers: "params['dense'].kernel" is
"params.dense.kernel".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burn.dialect.dims import Dim, symbol
from burn.dialect.types import DTYPES, TensorType
from burn.errors import ModelError, Problem, near
from burn.importers.stablehlo.syntax.locations import read_location
from burn.importers.stablehlo.syntax.module import Module, Operation, QuantizedType, Ranked

SUMMARY = "the StableHLO program cannot be imported"
_PATH = re.compile(r"\[\s*'([^']*)'\s*\]|\[\s*\"([^\"]*)\"\s*\]|\[(\w+)\]|([^.\[\]]+)")
_NAME = re.compile(r"[A-Za-z_]\w*")
HERE = "cpu"
"""The platform for which a program that jax.export made for several is imported."""


@dataclass(frozen=True)
class Input:
    name: str
    type: TensorType


@dataclass(frozen=True)
class Given:
    """An argument that is no input: an integer that the import decides."""

    value: int
    dtype: str


@dataclass(frozen=True)
class Signature:
    """function: the name of the entry function. arguments: for each of its arguments the number of an input, or a value."""

    function: str
    inputs: tuple[Input, ...]
    arguments: tuple[int | Given, ...]
    outputs: tuple[str, ...]


def read_signature(module: Module, notes: Mapping[str, Any], what: str, dims: Mapping[str, int]) -> Signature:
    """notes: what jax.export says of the program (see `jaxlib_reader.py`). Raises ModelError."""
    main = entry(module, what)
    problems: list[Problem] = [
        Problem(f"it has the effect '{effect}'; a program of burn has none") for effect in notes.get("effects", ())
    ]
    arguments = main.regions[0][0].arguments if main.regions and main.regions[0] else []
    attributes = main.attributes.get("arg_attrs") or [{}] * len(arguments)
    sizes = _Sizes(module, main, dims)
    given, own = list[int | Given](), list[int]()
    for position, (_, type_, _) in enumerate(arguments):
        if attributes[position].get("jax.global_constant") == "_platform_index":
            platforms = notes.get("platforms") or [HERE]
            if HERE not in platforms:
                problems.append(Problem(f"it is for {', '.join(platforms)} only", hint="export it for the CPU too"))
            dtype = type_.element if isinstance(type_, Ranked) and isinstance(type_.element, str) else "int32"
            given.append(Given(platforms.index(HERE) if HERE in platforms else 0, dtype))
        else:
            own.append(position)
            given.append(-1)
    kept = notes.get("kept", list(range(len(own))))
    described = notes.get("inputs") or [["", "", None]] * len(own)
    if len(kept) != len(own) or any(not 0 <= k < len(described) for k in kept):
        raise ModelError(f"{what} cannot be imported", ["its arguments are not those that jax.export notes"])
    at = dict(zip(kept, own, strict=True))
    inputs: list[Input] = []
    names: set[str] = set()
    for number, (path, dtype, shape) in enumerate(described):
        position = at.get(number)
        if position is not None:
            given[position] = len(inputs)
        name = _unique(_input_name(module, main, position, path, number), names)
        type_ = arguments[position][1] if position is not None else _noted(dtype, shape)
        found = _input_type(name, type_, shape, position, sizes, problems)
        if found is not None:
            inputs.append(Input(name, found))
    _check_dims(dims, sizes.names, problems)
    if problems:
        raise ModelError(SUMMARY, problems)
    return Signature(_name_of(main), tuple(inputs), tuple(given), _outputs(main, notes))


def entry(module: Module, what: str) -> Operation:
    """The function @main, or the only one that is not private. Raises ModelError."""
    if "main" in module.functions:
        return module.functions["main"]
    public = [f for f in module.functions.values() if f.attributes.get("sym_visibility", "public") == "public"]
    if len(public) != 1:
        names = ", ".join(f"@{name}" for name in module.functions) or "none"
        raise ModelError(f"{what} cannot be imported", [f"it has no function @main; its functions are {names}"])
    return public[0]


def _name_of(function: Operation) -> str:
    return str(function.attributes["sym_name"])


# ---- names -----------------------------------------------------------------------------------------------------------
def readable(path: str) -> str:
    """A path of JAX's containers as a dotted name: "[0]['a'].b" is "0.a.b"."""
    parts = [next(p for p in found if p) for found in _PATH.findall(path) if any(found)]
    return ".".join(parts)


def _unique(name: str, names: set[str]) -> str:
    number, plain = 1, name
    while name in names:
        number += 1
        name = f"{plain}_{number}"
    names.add(name)
    return name


def _input_name(module: Module, main: Operation, position: int | None, path: str, number: int) -> str:
    """From the location of the argument ("params['w']"), where JAX writes one; from the path in the exported function's
    arguments: "[0][1]['w']" is the second positional argument, "[1]['w']" one by keyword."""
    if position is not None:
        named = _located(module, main, position)
        if named:
            return named
    if path.startswith("[1]"):
        return readable(path.removeprefix("[1]"))
    if path.startswith("[0]["):
        return f"arg{readable(path.removeprefix('[0]'))}"
    return f"arg{number}"


def _located(module: Module, main: Operation, position: int) -> str:
    """The name in an argument's location, or in that of the function to which main hands all its arguments (jax.export checks
    sizes first)."""
    argument, _, location = main.regions[0][0].arguments[position]
    names = read_location(location, module.locations).names
    if names:
        return readable(names[-1])
    for op in main.regions[0][0].ops:
        callee = op.attributes.get("callee")
        function = module.functions.get(str(callee).removeprefix("@")) if callee is not None else None
        if op.name == "func.call" and argument in op.operands and function is not None and function.regions:
            inner = function.regions[0][0].arguments
            names = read_location(inner[op.operands.index(argument)][2], module.locations).names
            return readable(names[-1]) if names else ""
    return ""


def _outputs(main: Operation, notes: Mapping[str, Any]) -> tuple[str, ...]:
    count = len(main.attributes["function_type"].results)
    attributes = main.attributes.get("res_attrs") or [{}] * count
    noted = notes.get("outputs", [""] * count)
    names: set[str] = set()
    found = []
    for number in range(count):
        said = attributes[number].get("jax.result_info", "")
        path = (
            said.removeprefix("result")
            if isinstance(said, str) and said
            else noted[number]
            if len(noted) == count
            else ""
        )
        name = readable(path)
        if not _NAME.match(name):
            name = f"result.{name}" if name else "result" if count == 1 else f"result{number}"
        found.append(_unique(name, names))
    return tuple(found)


# ---- types and sizes -------------------------------------------------------------------------------------------------
def _noted(dtype: str, shape: Sequence[str]) -> Ranked:
    """The type of an argument that the module lacks, because the function does not use it."""
    return Ranked(dtype, tuple(int(s) if s.isdigit() else None for s in shape))


def _input_type(
    name: str,
    type_: Any,
    shape: Sequence[str] | None,
    position: int | None,
    sizes: _Sizes,
    problems: list[Problem],
) -> TensorType | None:
    if not isinstance(type_, Ranked):
        problems.append(Problem(f"input '{name}' is a {type_}; only tensors of known rank can be inputs"))
        return None
    element = type_.element.dtype if isinstance(type_.element, QuantizedType) else type_.element
    if element not in DTYPES or DTYPES[element].kind == "complex":
        hint = "give its real and imaginary parts" if element in DTYPES else ""
        problems.append(Problem(f"input '{name}' is of {element} elements", hint=hint))
        return None
    found = [
        size if size is not None else sizes.named(name, position, axis, shape[axis] if shape else "")
        for axis, size in enumerate(type_.shape)
    ]
    return TensorType(element, tuple(found))


class _Sizes:
    """Names for sizes that the file leaves open."""

    def __init__(self, module: Module, main: Operation, dims: Mapping[str, int]) -> None:
        self.dims = dims
        self.names: set[str] = set()
        self._variables = _variables(module, main)

    def named(self, name: str, position: int | None, axis: int, noted: str) -> Dim:
        known = noted if _NAME.fullmatch(noted) else self._variables.get((position, axis), "")
        plain = known or re.sub(r"\W", "_", f"{name}_{axis}")
        self.names.add(plain)
        return self.dims.get(plain, symbol(plain))


def _variables(module: Module, main: Operation) -> dict[tuple[int | None, int], str]:
    """(argument, axis) -> the dimension variable that jax.export reads there. It hands the variables to an inner function, whose
    arguments have their names."""
    if not main.regions or not main.regions[0]:
        return {}
    block = main.regions[0][0]
    arguments = {name: i for i, (name, _, _) in enumerate(block.arguments)}
    read: dict[str, tuple[int | None, int]] = {}
    found: dict[tuple[int | None, int], str] = {}
    for op in block.ops:
        if op.name == "stablehlo.get_dimension_size" and op.operands and op.operands[0] in arguments:
            axis = op.attributes.get("dimension")
            read[op.results[0]] = (arguments[op.operands[0]], axis if isinstance(axis, int) else 0)
        callee = op.attributes.get("callee")
        function = module.functions.get(str(callee).removeprefix("@")) if callee is not None else None
        if op.name != "func.call" or function is None:
            continue
        for operand, attributes in zip(op.operands, function.attributes.get("arg_attrs") or [], strict=False):
            variable = attributes.get("jax.global_constant")
            if operand in read and isinstance(variable, str) and _NAME.fullmatch(variable):
                found.setdefault(read[operand], variable)
    return found


def _check_dims(dims: Mapping[str, int], names: set[str], problems: list[Problem]) -> None:
    for name, size in dims.items():
        if name not in names:
            problems.append(Problem(f"there is no size '{name}'", hint=near(name, sorted(names))))
        elif not isinstance(size, int) or isinstance(size, bool) or size < 0:
            problems.append(Problem(f"the size '{name}' is a number from 0 on, not {size!r}"))
