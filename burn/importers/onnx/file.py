"""Reading an ONNX file: `read_model` maps it and parses all of it but its large tensors, which stay where they are.

A model of several gigabytes is read in milliseconds; `OnnxFile.tensors` finds a tensor's bytes when they are wanted.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from burn.dialect.weights import MappedFile, Weight
from burn.errors import ModelError, Problem
from burn.importers import strangers
from burn.importers.onnx.tensors import TensorReader
from burn.importers.onnx.wire import strip_tensors

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto


@dataclass
class OnnxFile:
    """A parsed model, whose tensors may lack their data, and the reader that finds it.

    path: the file, or None for a model that came as bytes or as a proto.
    """

    proto: onnx.ModelProto
    tensors: TensorReader
    path: Path | None = None

    @property
    def name(self) -> str:
        """How an error names the model."""
        return str(self.path) if self.path else "the model"

    def weight(self, tensor: onnx.TensorProto) -> Weight:
        """The data of one of the model's tensors, left in the file when it can be. Raises ModelError."""
        return self.tensors.weight(tensor)


def read_model(source: Source, folder: str | os.PathLike[str] | None = None) -> OnnxFile:
    """Read a model from a path, its bytes, or a ModelProto. Raises ModelError when it is not a readable ONNX model.

    folder: the folder of external data, if it is not the model's. The contents of the model are not checked here; see check.py.
    """
    if isinstance(source, onnx.ModelProto):
        return OnnxFile(source, TensorReader(None, "", Path(folder) if folder is not None else None))
    token = "burn." + secrets.token_hex(8)  # drawn anew, so that no file can contain it
    if isinstance(source, (bytes, bytearray, memoryview)):
        path, content = None, memoryview(source).cast("B")
        data = content
    else:
        path = Path(source)
        content = MappedFile(path)
        data = content.data
    if folder is None and path is not None:
        folder = path.parent
    if not len(data):
        raise ModelError("not an ONNX model", ["the file is empty"])
    found = strangers.recognise(bytes(data[: strangers.READ]), path)
    if found is not None:
        raise strangers.refusal(path or "the model", found)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(strip_tensors(data, token))
    except (DecodeError, ModelError) as error:
        problems = error.problems if isinstance(error, ModelError) else (Problem(f"malformed protobuf: {error}"),)
        found = strangers.perhaps(bytes(data[: strangers.READ]), path) if path is not None else None
        if found is not None:
            problems = [Problem(f"it may be {found.what}", hint=found.hint)]
        raise ModelError(f"{path} is not an ONNX model" if path else "not an ONNX model", problems) from error
    return OnnxFile(proto, TensorReader(content, token, Path(folder) if folder is not None else None), path)
