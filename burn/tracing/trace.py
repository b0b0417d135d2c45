"""Python functions and modules become programs: `trace`, and `trace_call` for calls with containers of tensors."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from burn.dialect.program import Program
from burn.dialect.spec import spec
from burn.dialect.types import TensorType
from burn.errors import TypeMismatch
from burn.runtime.origins import boundary
from burn.tensors import Tensor, lift, trees
from burn.tensors.tracer import Owned, Tracer, tracing
from burn.tracing.arguments import Arguments, Dynamic, of_examples
from burn.tracing.foreign import explained


@dataclass(frozen=True)
class Traced:
    """A program, and how a call's arguments and results are made of its inputs and outputs."""

    program: Program
    arguments: Arguments
    results: trees.Structure
    tracer: Tracer

    @property
    def assigned(self) -> tuple[Owned, ...]:
        """The parameters whose next elements are the last outputs."""
        return tuple(owner for owner, _ in self.tracer.assigned.values())

    @property
    def is_flat(self) -> bool:
        """True if arguments and results are tensors, or one sequence or mapping of them."""
        node = self.results
        simple = isinstance(node, trees.Leaf) or (
            isinstance(node, trees.Node) and all(isinstance(child, trees.Leaf) for child in node.children)
        )
        return simple and self.arguments.is_flat


def trace(function: Callable[..., Any], inputs: Mapping[str, TensorType | str], outputs: Sequence[str] = ()) -> Program:
    """The program that `function` writes down when it is called with tensors of these types, by position.

    inputs: the program's input names and types ("float32[batch, 3]"). outputs: names for what it returns: a tensor, a
    sequence of them, or a mapping by name."""
    types = {name: spec(type_) for name, type_ in inputs.items()}
    program, _ = _trace(Tracer(list(types.items())), function, lambda tensors: function(*tensors), outputs)
    return program


def trace_open(
    function: Callable[..., Any], inputs: Sequence[tuple[str, TensorType]], opens: bool
) -> tuple[Program, list[Owned]]:
    """The program of a function of tensors, which returns a mapping; and the parameters that are its further inputs, in order.
    opens: whether parameters are inputs of it."""
    tracer = Tracer(list(inputs), opens=opens)
    program, _ = _trace(tracer, function, lambda tensors: function(*tensors), ())
    return program, tracer.parameters if opens else []


def trace_examples(
    function: Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
) -> Program:
    """The program of a module or function for inputs that are described as for `compile`."""
    return trace_call(function, arguments_of(function, example_inputs, dynamic)).program


def trace_call(function: Callable[..., Any], arguments: Arguments, opens: bool = False) -> Traced:
    """The program of a call. opens: whether parameters are inputs of it."""
    names = getattr(function, "outputs", ()) if is_module(function) else ()
    tracer = Tracer(list(arguments.types.items()), opens=opens)
    program, results = _trace(
        tracer, function, lambda tensors: arguments.call(function, tensors), names if names else ()
    )
    return Traced(program, arguments, results, tracer)


def arguments_of(function: Callable[..., Any], example_inputs: Any, dynamic: Dynamic | None) -> Arguments:
    declared: Mapping[str, Any] = getattr(function, "inputs", {}) if is_module(function) else {}
    return of_examples(signature_of(function), name_of(function), declared, example_inputs, dynamic or {})


@boundary
def _trace(
    tracer: Tracer, function: Callable[..., Any], call: Callable[[list[Tensor]], Any], outputs: Sequence[str]
) -> tuple[Program, trees.Structure]:
    if is_module(function):
        for path, module in function.named_modules():  # type: ignore[attr-defined]
            tracer.names.setdefault(id(module), path)
        for path, parameter in function.named_parameters():  # type: ignore[attr-defined]
            parameter.name = path
    with tracing(tracer):
        with explained(function):
            returned = call([Tensor(v) for v in tracer.program.inputs])
        leaves, structure = trees.flatten(returned, _is_result)
        _check_results(structure, bool(leaves))
        values = [lift(leaf).value for leaf in leaves]
        assigned = list(tracer.assigned.values())
    if assigned and not tracer.opens:
        raise Assigned([owner.name for owner, _ in assigned])
    program = tracer.program
    named = list(zip(_output_names(structure, outputs), values, strict=True))
    named += [(f"next {owner.name}", value) for owner, value in assigned]
    input_of = {id(p): i for i, p in enumerate(tracer.parameters, len(program.inputs) - len(tracer.parameters))}
    shift = program.random_state  # the state is the last input
    program.renews = {len(values) + i: input_of[id(owner)] - shift for i, (owner, _) in enumerate(assigned)}
    return program.finish(named), structure


class Assigned(TypeMismatch):
    """A function assigns parameters that are constants of the compiled program."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            "a function that changes parameters is compiled with burn.jit",
            [f"it changes {', '.join(names)}; for inference call .eval() on the module"],
        )


def _is_result(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic))


def _check_results(structure: trees.Structure, any_tensor: bool) -> None:
    wrong: list[str] = []
    stack = [structure]
    while stack:
        part = stack.pop()
        if isinstance(part, trees.Node):
            stack += part.children
        elif isinstance(part, trees.Fixed) and not isinstance(part.value, (str, bool, int, float, complex, NoneType)):
            wrong.append(type(part.value).__name__)
    if wrong or not any_tensor:
        what = f"not {', '.join(wrong)}" if wrong else "this one returns no tensor"
        raise TypeMismatch("a traced function returns tensors, alone or in containers", [what])


def _output_names(structure: trees.Structure, names: Sequence[str]) -> list[str]:
    """The names given, where there is one for each output; else those of a mapping, or numbers."""
    paths = trees.paths(structure)
    if len(names) == len(paths):
        return list(names)
    if isinstance(structure, trees.Leaf):
        return ["output"]
    by_name = isinstance(structure, trees.Node) and structure.keys
    return paths if by_name else [f"output_{path}" for path in paths]


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function.forward if is_module(function) else function)  # type: ignore[attr-defined]


def is_module(function: Any) -> bool:
    modules = sys.modules.get("burn.nn.module")  # an instance of its class can exist only if it was imported
    return modules is not None and isinstance(function, modules.Module)


def name_of(function: Any) -> str:
    return type(function).__name__ if is_module(function) else getattr(function, "__name__", repr(function))
