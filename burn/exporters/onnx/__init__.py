"""ONNX models from programs. Enter at `export` (in memory) and `write` (a file, with weights beside it where they are large)."""

from __future__ import annotations

from burn.exporters.onnx.export import DEFAULT_OPSET, export
from burn.exporters.onnx.file import write

__all__ = ["DEFAULT_OPSET", "export", "write"]
