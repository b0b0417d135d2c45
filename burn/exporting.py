"""Models go out: `burn.export` writes a traced function or module as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burn.compiled import is_jax, is_torch
from burn.dialect.program import Program
from burn.tracing.trace import Dynamic, trace_examples

if TYPE_CHECKING:
    import onnx


def export(
    function: Any,
    path: str | os.PathLike[str],
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    *,
    opset: int | None = None,
    external_data: bool | None = None,
) -> onnx.ModelProto:
    """Writes a module or a function of tensors, a PyTorch module, or a JAX function, as an ONNX model and returns the model.

    `example_inputs, dynamic`: as for `burn.compile`; named sizes stay dynamic.
    `opset`: of the default domain, 18 to the newest that the installed `onnx` has; 21 by default.
    `external_data`: keep the weights in `<path>.data`; by default when they pass 1.9 GB together.
    State that a PyTorch module changes (a buffer, a cache) is an input `name` and an output `new_name`.

    Raises TypeMismatch for operands that do not fit each other. Raises ModelError for what cannot be imported from PyTorch or
    JAX, and one that lists every op that ONNX does not have in that opset; then no file is written."""
    from burn.exporters.onnx import write

    return write(program_of(function, example_inputs, dynamic), path, opset, external_data=external_data)


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
