"""ONNX models from programs. Enter at `export` (in memory) and `write` (a file, with weights beside it where they are large)."""

from __future__ import annotations

from burn.codegen.onnx.export import DEFAULT_OPSET, export
from burn.codegen.onnx.file import write

__all__ = ["DEFAULT_OPSET", "export", "write"]
