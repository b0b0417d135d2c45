"""Models go out: `burn.export` writes a traced function or module as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burn.trace import Dynamic, trace_examples

if TYPE_CHECKING:
    import onnx


def export(
    function: Callable[..., Any],
    path: str | os.PathLike[str],
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    *,
    opset: int | None = None,
    external_data: bool | None = None,
) -> onnx.ModelProto:
    """Writes a module or a function of tensors as an ONNX model and returns it.

    example_inputs, dynamic: as for `burn.compile`; named sizes stay dynamic. opset: of the default domain, 18 to the newest
    that the installed `onnx` has; 21 by default. external_data: keep the weights in `<path>.data`; by default when
    they pass 1.9 GB together.

    Raises TypeMismatch for operands that do not fit each other, and ModelError listing every op that ONNX does not have
    in that opset; then no file is written."""
    from burn.codegen.onnx import write

    program = trace_examples(function, example_inputs, dynamic)
    return write(program, path, opset, external_data=external_data)
