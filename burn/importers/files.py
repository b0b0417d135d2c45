"""A program from a file of any format that burn reads. Enter at `import_file`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from burn.dialect.program import Program
from burn.errors import ModelError


def import_file(path: Path, dims: Mapping[str, int] | None = None) -> Program:
    """An ONNX model, or burn's IR as text (.mlir). Raises ModelError."""
    if path.suffix != ".mlir":
        from burn.importers.onnx import import_onnx

        return import_onnx(path, dims=dims)
    if dims:
        raise ModelError("sizes cannot be given for a program in text form", [str(path)])
    raise ModelError("programs in text form cannot be loaded yet", [str(path)])
