"""Python functions and modules become programs, and programs executables: `trace`, `burn.compile`, `burn.jit`.

fast = burn.compile(f, (example,), dynamic={"x": {0: "batch"}})     # one executable for every batch size

@burn.jit
def f(x): return burn.ops.gelu(x @ w)                               # compiled at the first call with each signature
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import Problem, TypeMismatch
from burn.importers.trace import Tracer, tracing
from burn.signature import spec, spec_of
from burn.tensor import Tensor, lift

if TYPE_CHECKING:
    from burn.runtime import Executable

Dynamic = Mapping[Any, Mapping[int, Any]]


def trace(function: Callable[..., Any], inputs: Mapping[str, TensorType | str], outputs: Sequence[str] = ()) -> Program:
    """The program that `function` writes down when it is called with tensors of these types, by position.

    inputs: the program's input names and types ("float32[batch, 3]"). outputs: names for what it returns: a tensor, a
    sequence of them, or a mapping by name."""
    types = [(name, spec(type_)) for name, type_ in inputs.items()]
    tracer = Tracer(types)
    for path, module in _modules(function):
        tracer.names.setdefault(id(module), path)
    for path, parameter in function.named_parameters() if _is_module(function) else ():
        parameter.name = path
    with tracing(tracer):
        result = function(*map(Tensor, tracer.program.inputs))
        named = [(name, value.value) for name, value in _outputs(result, outputs)]
    return tracer.program.finish(named)


def compile(
    function: Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    *,
    target: str | None = None,
) -> Executable:
    """Compiles a module or a function of tensors for this machine (or for the CPU `target`).

    example_inputs: arrays or types ("float32[batch, 3]"), by position or by name; a module that knows its inputs (as
    imported ones do) needs none. dynamic: names for sizes that vary, {"x": {0: "batch"}}, by the inputs' names or
    positions; the executable takes every size of them.

    Raises TypeMismatch for operands that do not fit each other, and CompileError."""
    from burn.compiler import executable

    return executable(trace_examples(function, example_inputs, dynamic), target=target)


def trace_examples(
    function: Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
) -> Program:
    """The program of a module or function for inputs that are described as for `compile`."""
    inputs = _input_types(function, example_inputs, dynamic or {})
    return trace(function, inputs, getattr(function, "outputs", ()))


def jit(function: Callable[..., Any] | None = None, *, dynamic: Dynamic | None = None) -> Any:
    """A function of arrays that is compiled at its first call with each signature (element types and shapes).

    dynamic: as for `compile`; sizes named there do not count into the signature."""
    if function is None:
        return functools.partial(jit, dynamic=dynamic)
    programs: dict[Any, Executable] = {}

    @functools.wraps(function)
    def call(*arrays: Any, **by_name: Any) -> Any:
        bound = _signature(function).bind(*arrays, **by_name)
        given = {name: _as_array(value) for name, value in bound.arguments.items()}
        inputs = _input_types(function, given, dynamic or {})
        key = tuple(inputs.items())
        if key not in programs:
            programs[key] = compile(function, inputs)
        return programs[key](*given.values())

    call.programs = programs  # type: ignore[attr-defined]
    return call


def _as_array(value: Any) -> Any:
    return np.asarray(value, np.float32) if isinstance(value, float) else value


# ---- inputs and outputs ------------------------------------------------------------------------------------------------


def _input_types(function: Callable[..., Any], examples: Any, dynamic: Dynamic) -> dict[str, TensorType]:
    """Every input's type by name, in order."""
    declared: Mapping[str, Any] = getattr(function, "inputs", {}) if _is_module(function) else {}
    if examples is None:
        if not declared:
            raise TypeMismatch(
                f"what inputs {_name(function)} takes is not known",
                ["give example_inputs, or the class attribute `inputs`"],
            )
        examples = declared
    names = list(declared) or list(_signature(function).parameters)
    if isinstance(examples, Mapping):
        given = dict(examples)
    else:
        given = dict(zip(_enough(names, examples, function), examples, strict=False))
    problems = [
        Problem(f"there is no input '{n}'", hint=f"the inputs are {', '.join(names)}") for n in given if n not in names
    ]
    unknown = [key for key in dynamic if key not in given and key not in range(len(given))]
    problems += [Problem(f"dynamic names {key!r}, which is no input") for key in unknown]
    if problems:
        raise TypeMismatch(f"the examples do not fit {_name(function)}", problems)
    return {
        name: spec_of(given[name], dynamic.get(name, dynamic.get(i)))
        for i, name in enumerate(n for n in names if n in given)
    }


def _enough(names: list[str], examples: Sequence[Any], function: Callable[..., Any]) -> list[str]:
    """A name for each example, also for those that go to *args."""
    variadic = [n for n, p in _signature(function).parameters.items() if p.kind is inspect.Parameter.VAR_POSITIONAL]
    if variadic and variadic[0] in names:
        names.remove(variadic[0])
        names += [f"{variadic[0]}_{i}" for i in range(len(examples) - len(names))]
    if len(examples) > len(names):
        raise TypeMismatch(f"{_name(function)} takes {len(names)} inputs", [f"{len(examples)} examples were given"])
    return names


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function.forward if _is_module(function) else function)


def _is_module(function: Any) -> bool:
    from burn.nn.module import Module

    return isinstance(function, Module)


def _modules(function: Any) -> list[tuple[str, Any]]:
    return list(function.named_modules()) if _is_module(function) else []


def _name(function: Any) -> str:
    return type(function).__name__ if _is_module(function) else getattr(function, "__name__", repr(function))


def _outputs(result: Any, names: Sequence[str]) -> list[tuple[str, Tensor]]:
    if isinstance(result, Mapping):
        return [(str(name), lift(value)) for name, value in result.items()]
    single = not isinstance(result, (tuple, list))
    values = [result] if single else list(result)
    wrong = [type(v).__name__ for v in values if not isinstance(v, (Tensor, np.ndarray))]
    if wrong or not values:
        raise TypeMismatch("a traced function returns tensors", [f"not {', '.join(wrong) or 'nothing'}"])
    if len(names) != len(values):
        names = ["output"] if single else [f"output_{i}" for i in range(len(values))]
    return list(zip(names, map(lift, values), strict=True))
