"""Custom ops with a body of Triton kernels (`CustomOp.triton`): the kernels as modules, and their launches."""

from __future__ import annotations

import inspect
import re
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burn.codegen.host.emit import Int
from burn.codegen.host.records import KernelRecord, moved
from burn.codegen.triton.functions import TYPES
from burn.codegen.triton.images import Source
from burn.custom import Launch, Pointer
from burn.dialect.custom import Custom
from burn.dialect.dims import Expr, exact_div
from burn.dialect.op import Agreement, full_name
from burn.dialect.types import DTYPES, type_of
from burn.errors import CompileError, Problem
from burn.runtime.origins import resolved

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder

KIND = "triton"
"""The kind of a launch in profiles."""

LARGEST = (1 << 31) - 1
_HEAD = "import triton\nimport triton.language as tl\n"
_DEF = re.compile(r"^def ", re.MULTILINE)
_FLOATS = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


@dataclass(frozen=True)
class Prepared:
    """A launch: its kernel's source, and its arguments that are no constants."""

    source: Source
    arguments: tuple[Any, ...]
    launch: Launch


def _refuse(op: Custom, message: str, hint: str = "") -> CompileError:
    problem = Problem(message, op=op.called, node=resolved(full_name(op)), hint=hint)
    return CompileError("a custom op's Triton body cannot be compiled", [problem])


def prepared(op: Custom, pointers: Mapping[str, str], multiples: tuple[int, ...]) -> list[Prepared]:
    """The launches of an op, as its body describes them. pointers: Triton's types of addresses. multiples: the divisors that
    Triton uses; an address has the first. Raises CompileError that names what the body returns wrongly."""
    definition: Any = op.definition
    inputs = [Pointer(type_of(value), "in", number) for number, value in enumerate(op.operation.operands)]
    outputs = [Pointer(type_of(value), "out", number) for number, value in enumerate(op.operation.results)]
    try:
        made = definition.triton(*definition.complete(inputs), *outputs, **op.shown, **definition.parameters)
    except Exception as error:
        raise _refuse(op, f"its function of launches raised {type(error).__name__}: {error}") from error
    launches = list(made) if isinstance(made, (list, tuple)) else [made]
    for launch in launches:
        if not isinstance(launch, Launch):
            raise _refuse(op, f"its function of launches returned {launch!r}", "it returns burn.custom.Launch")
    return [_prepared(op, launch, pointers, multiples) for launch in launches]


def _prepared(op: Custom, launch: Launch, pointers: Mapping[str, str], multiples: tuple[int, ...]) -> Prepared:
    function = _python(launch.kernel)
    if function is None:
        hint = "candidates of constants are parameters= of burn.custom_op" if hasattr(launch.kernel, "fn") else ""
        raise _refuse(op, f"{launch.kernel!r} is no kernel of @triton.jit", hint)
    names = list(inspect.signature(function).parameters)
    if unknown := [name for name in launch.constants if name not in names]:
        raise _refuse(op, f"{function.__name__} has no parameter '{unknown[0]}'", f"it has {', '.join(names)}")
    if isinstance(launch.grid, (tuple, list)):
        raise _refuse(op, "a grid is one number", "launch a * b programs, and divide tl.program_id(0)")
    given = [name for name in names if name not in launch.constants]
    if len(given) != len(launch.args):
        raise _refuse(op, f"{function.__name__} takes {', '.join(given)}, and {len(launch.args)} arguments are given")
    kinds, divisors, passed, arguments = [], [], [], []
    constants = dict(launch.constants)
    for name, argument in zip(given, launch.args, strict=True):
        if isinstance(argument, float):
            constants[name] = argument
            continue
        number = len(kinds)
        if isinstance(argument, Pointer):
            if TYPES.get(argument.dtype) not in pointers:
                raise _refuse(op, f"Triton has no {argument.dtype}, which '{name}' is")
            kinds.append(pointers[TYPES[argument.dtype]])
            divisors.append((number, multiples[0]))
        elif isinstance(argument, (int, Expr)) and not isinstance(argument, bool):
            large = isinstance(argument, int) and abs(argument) > LARGEST
            kinds.append("i64" if launch.wide or large else "i32")
            if of := next((m for m in multiples if exact_div(argument, m) is not None and argument != 0), 0):
                divisors.append((number, of))
        else:
            raise _refuse(
                op, f"the argument '{name}' of {function.__name__} is {argument!r}", "it is a buffer or a number"
            )
        passed.append((name, f"a{number}"))
        arguments.append(argument)
    text = _module(op, launch.kernel, function, passed, constants)
    source = Source(
        f"custom_{function.__name__}",
        text,
        tuple(kinds),
        (),
        (),
        tuple(divisors),
        launch.wide,
        launch.warps,
        launch.stages,
    )
    return Prepared(source, tuple(arguments), launch)


# ---- the module ----------------------------------------------------------------------------------------------------------
def _python(kernel: Any) -> types.FunctionType | None:
    """The Python function of a kernel."""
    function = getattr(kernel, "fn", None)
    return function if isinstance(function, types.FunctionType) else None


def _module(
    op: Custom, kernel: Any, function: types.FunctionType, passed: list[tuple[str, str]], constants: Mapping[str, Any]
) -> str:
    """A kernel and all that it refers to as text, and a function that calls it with its constants: the one that is launched."""
    found: dict[str, str] = {}
    _collect(op, function.__name__, kernel, found)
    own = [f"{name}={text}" for name, text in passed]
    own += [f"{name}={_literal(op, name, value)}" for name, value in constants.items()]
    heads = "".join(f"{text}\n" for text in found.values() if not text.startswith("@"))
    functions = "\n\n".join(text for text in found.values() if text.startswith("@"))
    parameters = ", ".join([*(text for _, text in passed), "INT: tl.constexpr"])
    called = f"@triton.jit\ndef custom_{function.__name__}({parameters}):\n    {function.__name__}({', '.join(own)})\n"
    return f"{_HEAD}{heads}\n\n{functions}\n\n{called}"


def _collect(op: Custom, name: str, value: Any, found: dict[str, str]) -> None:
    """Adds the text that defines a name, behind those of the names that it refers to."""
    if name in found or name in ("tl", "triton"):
        return
    found[name] = ""
    function = _python(value)
    if function is not None and not function.__module__.startswith("triton."):
        for other, referred in _referred(function):
            _collect(op, other, referred, found)
        source = textwrap.dedent(inspect.getsource(function))
        match = _DEF.search(source)
        if match is None:
            raise _refuse(op, f"the source of the kernel {name} is not there", "write it in a file, with def")
        del found[name]
        found[name] = f"@triton.jit\n{source[match.start() :].rstrip()}"
    elif isinstance(value, types.ModuleType):
        found[name] = f"import {value.__name__} as {name}"
    elif type(value).__name__ == "constexpr":
        found[name] = f"{name} = tl.constexpr({_literal(op, name, value.value)})"
    elif getattr(function or value, "__module__", "").startswith("triton"):
        of = function or value
        found[name] = f"from {of.__module__} import {of.__name__} as {name}"
    else:
        found[name] = f"{name} = {_literal(op, name, value)}"


def _referred(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The names outside of a function that its code uses, and their values."""
    names = dict.fromkeys(function.__code__.co_names)
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _literal(op: Custom, name: str, value: Any) -> str:
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton"):
        return f"tl.{_FLOATS.get(str(value), str(value))}"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    raise _refuse(op, f"'{name}' is {value!r}", "constants are numbers, texts and Triton's element types")


# ---- launches --------------------------------------------------------------------------------------------------------------
def print_launches(
    entry: EntryBuilder, op: Custom, launches: list[Prepared], number_of: Callable[..., int], unused: Int
) -> None:
    """Prints the launches of an op, one after another. number_of: the number of a kernel in the artefact's table."""
    results = [entry.made(result) for result in op.operation.results]
    scratch: dict[Pointer, Any] = {}

    def word(argument: Any) -> Int:
        if not isinstance(argument, Pointer):
            return entry.sizes.dim(argument)
        if argument.kind == "in":
            return entry.pointer(op.operation.operands[argument.number])
        if argument.kind == "out":
            return entry.calls.reached(results[argument.number])
        if argument not in scratch:
            size = argument.elements * DTYPES[argument.dtype].size
            scratch[argument] = entry.call("burn_rt_device_alloc", entry.sizes.dim(size))
        return scratch[argument]

    for each in launches:
        for argument, kind in zip(each.arguments, each.source.types, strict=True):
            if isinstance(argument, Expr) and kind == "i32":
                entry.require(Agreement(argument, LARGEST, "at most"), full_name(op))
        words = [word(argument) for argument in each.arguments]
        record = KernelRecord(op.called, KIND, (full_name(op),), 0, moved(op.operation))
        number = entry.records.add(record, op.operation)
        entry.set_words([*words, unused, unused])
        blocks = entry.sizes.dim(each.launch.grid)
        entry.call(
            "burn_rt_device_launch",
            number,
            number_of(each.source, (resolved(full_name(op)),)),
            entry.words,
            len(words) + 2,
            blocks,
        )
    for memory in scratch.values():
        entry.call("burn_rt_device_free", memory)
