"""Writing a model to a file: ONNX checks it before it replaces the target; large weights go into a second file.

    model.onnx        the graph, and weights while they are small
    model.onnx.data   the weights otherwise, each at a multiple of ALIGNMENT, read from their own files piece by piece

Both files are made in a folder of their own and moved when they are right, so that nothing half written is left.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
from burn.dialect.program import Program
from burn.dialect.weights import Weight, WeightStore
from burn.errors import BurnError, ModelError
from burn.exporters.onnx.export import build
from burn.exporters.onnx.tensors import header, stored, stored_bytes, to_proto
from burn.runtime.files import is_stream, put

LIMIT = 1_900_000_000  # bytes of weights inside a model: a protobuf message ends at 2 GiB
ALIGNMENT = 4096
SMALL = 1024  # bytes up to which a constant stays inside the model


def write(
    program: Program,
    path: str | os.PathLike[str],
    opset: int | None = None,
    *,
    external_data: bool | None = None,
    accept: Callable[[Path], None] | None = None,
) -> onnx.ModelProto:
    """Writes the program as an ONNX model and returns the model (without weights that lie beside it).

    `opset`: see `export`. `external_data`: put the weights into `<path>.data`; by default if they are larger than 1.9 GB.
    `accept`: a further test of the new file before it replaces the old one; it raises to reject the file.
    Raises ModelError listing what cannot be written; then nothing is changed at `path`."""
    path = Path(path)
    if path.is_dir():
        raise BurnError(f"{path} is a folder, not a file")
    if not path.parent.is_dir():
        raise BurnError(f"{path.parent}: there is no such folder")
    model, weights = build(program, opset, path.stem)
    beside = sum(map(stored_bytes, weights.values())) > LIMIT if external_data is None else external_data
    if beside and is_stream(path):
        raise BurnError(f"{path} is not a file on a disk: weights cannot lie beside it")
    folder = Path(tempfile.mkdtemp(prefix=".burn-export-", dir=None if is_stream(path) else path.parent))
    try:
        if beside:
            _write_beside(model, weights, folder / f"{path.name}.data")
        else:
            model.graph.initializer.extend(to_proto(name, weight) for name, weight in weights.items())
        (folder / path.name).write_bytes(model.SerializeToString())
        _release(program.weights)
        check(folder / path.name)
        if accept is not None:
            accept(folder / path.name)
        for file in sorted(folder.iterdir(), key=lambda f: f.name == path.name):  # the model last
            put(file, path.parent / file.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return model


def _write_beside(model: onnx.ModelProto, weights: dict[str, Weight], data: Path) -> None:
    with open(data, "wb") as file:
        for name, weight in weights.items():
            length = stored_bytes(weight)
            if weight.dtype == "string" or length <= SMALL:
                model.graph.initializer.append(to_proto(name, weight))
                continue
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            tensor = header(name, weight)
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", data.name), ("offset", file.tell()), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            for piece in stored(weight):
                file.write(piece)
            if weight.file is not None:
                weight.file.release(weight.offset, weight.nbytes)
            model.graph.initializer.append(tensor)


def _release(weights: WeightStore) -> None:
    for key, _ in weights.items():
        weights.release(key)


def check(path: Path) -> None:
    """ONNX's own checks, with shape inference. Raises ModelError."""
    try:
        onnx.checker.check_model(path, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ModelError("the model that was written is not valid: this is a mistake in burn", [str(error)]) from None
