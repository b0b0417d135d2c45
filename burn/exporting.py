"""Models go out: `burn.export` writes a traced function or module as an ONNX or StableHLO file, `burn.to_jax` makes a function of
JAX of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from burn.compiled import is_jax, is_torch
from burn.dialect.custom import keeping_whole
from burn.dialect.dims import symbols
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import FLOATS
from burn.errors import Problem, TypeMismatch
from burn.runtime.files import whole
from burn.tensors import lift, trees
from burn.tensors.gradients import own_derivatives, vjp
from burn.tracing.arguments import Arguments
from burn.tracing.trace import Dynamic, Traced, arguments_of, trace_call, trace_examples, trace_open

STABLEHLO = (".mlir", ".stablehlo", ".jax")
"""The suffixes of StableHLO files: text, portable artefacts, serialised `jax.export.Exported`."""


def export(
    function: Any,
    path: str | os.PathLike[str],
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    *,
    opset: int | None = None,
    external_data: bool | None = None,
) -> Any:
    """Writes a module or a function of tensors, a PyTorch module, a JAX function, or a `Program`, in the form that the suffix of
    the file names:

    - .onnx: an ONNX model, which is returned
    - .mlir: StableHLO as text, which is returned
    - .stablehlo: StableHLO as a portable artefact, for XLA and compilers such as IREE; its text is returned
    - .jax: a `jax.export.Exported`, serialised, which is returned

    `example_inputs, dynamic`: as for `burn.compile`; named sizes stay dynamic. In StableHLO they are JAX's symbolic sizes, which
    are at least 1, and need jax; text with sizes that are numbers does not. An index out of range is clamped there.
    `opset`: of ONNX's default domain, 18 to the newest that the installed `onnx` has; 21 by default.
    `external_data`: keep the weights in `<path>.data`; by default when they pass 1.9 GB together. For ONNX only.
    State that a PyTorch module changes (a buffer, a cache) is an input `name` and an output `new_name`.

    Raises TypeMismatch for operands that do not fit each other, and ModelError for what cannot be imported from PyTorch or JAX.
    Lists every op that ONNX does not have in that opset in a ModelError, or that StableHLO does not have in a CompileError. Then
    no file is written."""
    if Path(path).suffix not in STABLEHLO:
        with keeping_whole():  # a custom op is a node of its domain
            program = function if isinstance(function, Program) else program_of(function, example_inputs, dynamic)
    else:
        program = function if isinstance(function, Program) else program_of(function, example_inputs, dynamic)
    if Path(path).suffix in STABLEHLO:
        if opset is not None or external_data is not None:
            raise TypeMismatch("opset and external_data are of ONNX models", [f"not of {path}"])
        return write_stablehlo(program, path)
    from burn.exporters.onnx import write

    return write(program, path, opset, external_data=external_data)


def write_stablehlo(program: Program, path: str | os.PathLike[str]) -> Any:
    """Writes a program as StableHLO, whole or not at all; see `export`."""
    from burn.exporters.stablehlo import portable, stablehlo_of

    kind = Path(path).suffix
    with context():
        named = any(symbols(dim) for type_ in program.input_types for dim in type_.shape)
    if kind == ".jax" or named:
        from burn.adapters.to_jax.export import exported

        made = exported(program) if kind == ".jax" else exported(program, ("cpu",))
        result = made if kind == ".jax" else made.mlir_module()
        data = {".jax": made.serialize, ".mlir": lambda: result.encode()}.get(
            kind, lambda: made.mlir_module_serialized
        )()
    else:
        result, _ = stablehlo_of(program)
        data = portable(result) if kind == ".stablehlo" else result.encode()
    with whole(Path(path)) as file:
        file.write(bytes(data))
    return result


def to_jax(
    function: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    *,
    parameters: bool = False,
    derivative: str | None = None,
) -> Any:
    """A module or a function of tensors, a PyTorch module, or a `Program`, as a function of JAX.

    It is called as the original, with arrays of JAX, and made of JAX's own ops, so `jax.jit`, `jax.grad`, `jax.vmap`,
    `jax.shard_map` and `jax.export` accept it. Named sizes stay open, also for `jax.export.symbolic_shape`.

    `example_inputs, dynamic`: as for `burn.compile`.
    `parameters`: return (function, params) of a module instead: params is a dictionary of its parameters by path, and the
    function takes such a one before the inputs. If the module assigns parameters (running statistics), the function then returns
    (result, dictionary of their next values). Otherwise parameters are constants of the function.
    `derivative`: "jax" derives the ops by JAX's rules, in forward and reverse mode and to any order. "burn" runs burn's own
    backward pass, as `jax.custom_vjp` does: in reverse mode, by the rules of `burn.custom_vjp`. By default "burn" if a function
    in it has a rule of its own, otherwise "jax". A loop that data ends has no derivative in reverse mode.

    Where JAX holds 64-bit types in 32 bits (its default), inputs and results of these types do so; inside all types are burn's.
    An index out of range is clamped, as in JAX. A program that draws random numbers takes `random_state=(seed, number)`.

    Raises CompileError that lists every op without a form in StableHLO."""
    from burn.adapters.to_jax import Lowered

    if derivative not in (None, "jax", "burn"):
        raise TypeMismatch("a derivative is by 'jax' or by 'burn'", [f"not {derivative!r}"])
    return jax_function(function, example_inputs, dynamic, parameters, derivative, Lowered.of)


def jax_function(
    function: Any,
    example_inputs: Any,
    dynamic: Dynamic | None,
    parameters: bool,
    derivative: str | None,
    lower: Callable[[Program], Any],
) -> Any:
    """`to_jax` for any way to run a program on JAX's arrays (`burn.adapters.to_jax.Runs`), which `lower` makes of it."""
    from burn.adapters.to_jax import function_of

    if isinstance(function, Program) or is_torch(function):
        if derivative == "burn" or parameters:
            hint = "burn.compile(module, train=True) makes a module of a PyTorch module"
            raise TypeMismatch(
                "burn derives functions and modules of tensors, and only modules have parameters",
                [Problem("this is a program", hint=hint)],
            )
        program = function if isinstance(function, Program) else program_of(function, example_inputs, dynamic)
        return function_of(lower(program), None, lambda out: out[0] if len(out) == 1 else tuple(out))
    arguments = arguments_of(function, example_inputs, dynamic)
    with own_derivatives() as customs:
        traced = trace_call(function, arguments, opens=parameters)
    lowered = lower(traced.program)
    owners = [*traced.tracer.parameters]
    names = [owner.name for owner in owners] if parameters else []
    backward = None
    if derivative == "burn" or (derivative is None and customs):
        backward = _backward(function, arguments, traced, parameters, lower)

    def shaped(outputs: list[Any]) -> Any:
        count = len(outputs) - len(traced.assigned)
        result = trees.unflatten(traced.results, outputs[:count])
        if not traced.assigned:
            return result
        return result, {owner.name: x for owner, x in zip(traced.assigned, outputs[count:], strict=True)}

    inner = function_of(lowered, backward, shaped, names)
    made = inner if arguments.is_flat else _of_containers(inner, arguments, parameters)
    return (made, {owner.name: owner.weight.array() for owner in owners}) if parameters else made


def _of_containers(inner: Any, arguments: Arguments, parameters: bool) -> Any:
    """The function with the original's arguments, which hold the leaves that `inner` takes."""

    def called(*args: Any, random_state: Any = None, **kwargs: Any) -> Any:
        first, rest = (args[:1], args[1:]) if parameters else ((), args)
        return inner(*first, *arguments.leaves(rest, kwargs), random_state=random_state)

    return called


def _backward(
    function: Any, arguments: Arguments, forward: Traced, opens: bool, lower: Callable[[Program], Any]
) -> Any:
    """burn's own derivative of a traced function (`burn.adapters.to_jax.Backward`)."""
    from burn.adapters.to_jax import Backward

    types = list(arguments.types.items())
    wanted = [i for i, (_, type_) in enumerate(types) if type_.dtype in FLOATS]
    owners = forward.tracer.parameters if opens else []
    trained = {id(p) for _, p in function.named_parameters(buffers=False) if p.trainable} if owners else set()
    trained &= {id(owner) for owner in owners if owner.type.dtype in FLOATS}
    with context():
        results = forward.program.output_types[: len(forward.program.outputs) - len(forward.assigned)]
        outputs = {i: t for i, t in enumerate(results) if t.dtype in FLOATS}

    def gradients(*tensors: Any) -> dict[str, Any]:
        given, cotangents = list(tensors[: len(types)]), tensors[len(types) :]

        def inner(*primals: Any) -> list[Any]:
            of = list(given)
            for number, primal in zip(wanted, primals[len(primals) - len(wanted) :], strict=True):
                of[number] = primal
            leaves = map(lift, trees.flatten(arguments.call(function, of))[0])
            return [leaf for leaf in leaves if leaf.type.dtype in FLOATS]

        primals = [*([function] if trained else []), *(given[i] for i in wanted)]
        back = vjp(inner, *primals)[1](list(cotangents))
        of_inputs, of_parameters = back[len(back) - len(wanted) :], back[0] if trained else {}
        return {
            **{f"input {i}": g for i, g in zip(wanted, of_inputs, strict=True)},
            **{owner.name: of_parameters[owner.name] for owner in owners if id(owner) in trained},
        }

    program, own = trace_open(gradients, [*types, *((f"cotangent {i}", t) for i, t in outputs.items())], opens)
    number = {id(owner): len(types) + i for i, owner in enumerate(owners)}
    of_parameters = [number[id(owner)] for owner in owners if id(owner) in trained]
    taken = [number[id(owner)] for owner in own]
    return Backward(lower(program), len(types), list(outputs), taken, [*wanted, *of_parameters])


def program_of(function: Any, example_inputs: Any = None, dynamic: Dynamic | None = None) -> Program:
    """The program of whatever `burn.compile` takes; its outputs are not called as its inputs are."""
    if is_jax(function):
        from burn.adapters import jax

        return jax.program_of(jax.as_function(function), example_inputs, dynamic)
    if not is_torch(function):
        return trace_examples(function, example_inputs, dynamic)
    from torch.export import ExportedProgram

    from burn.importers.torch import import_exported
    from burn.importers.torch.export import export as export_module

    if isinstance(function, ExportedProgram):
        program = import_exported(function)
    else:
        by_name = isinstance(example_inputs, Mapping)
        args, kwargs = ((), example_inputs) if by_name else (example_inputs or (), None)
        made = export_module(function, args, kwargs, dynamic)
        program = import_exported(made.program, names=made.names)
    taken = set(program.input_names)
    program.output_names = [f"new_{name}" if name in taken else name for name in program.output_names]
    return program
