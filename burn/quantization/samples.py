"""Samples: a model's inputs by name, from files.

A path is one of:

    images.npy     the only input of a model: consecutive samples, split by the model's batch size
    batch.npz      arrays by the inputs' names, split in the same way
    folder/        such files, in the order of their names
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from burn.errors import InputError, Problem
from burn.runtime import Executable

Sample = Mapping[str, np.ndarray]


def read_samples(model: onnx.ModelProto, path: Path) -> list[Sample]:
    """Samples for a model's inputs from a file, or from every file of a folder. Raises InputError."""
    constants = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder", [])
    files = sorted(p for p in path.iterdir() if p.suffix in (".npy", ".npz")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} holds no .npy or .npz files", [])
    return [sample for file in files for sample in _divided(inputs, _read(file, inputs), file)]


def _read(path: Path, inputs: Sequence[onnx.ValueInfoProto]) -> dict[str, np.ndarray]:
    names = [i.name for i in inputs]
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no .npy or .npz file", [str(error)]) from None
    if not isinstance(loaded, np.lib.npyio.NpzFile):
        if len(names) != 1:
            raise InputError(
                f"{path} holds one array, the model has {len(names)} inputs", [f"an .npz holds {', '.join(names)}"]
            )
        return {names[0]: loaded}
    with loaded:
        missing = [Problem(f"there is no '{name}'") for name in names if name not in loaded.files]
        if missing:
            raise InputError(f"{path} lacks inputs of the model; it holds {', '.join(loaded.files)}", missing)
        return {name: loaded[name] for name in names}


def _divided(inputs: Sequence[onnx.ValueInfoProto], arrays: dict[str, np.ndarray], path: Path) -> Iterator[Sample]:
    """Where a model's batch is a number, arrays of several batches are several samples."""
    runs: set[int] = set()
    for each in inputs:
        dims = each.type.tensor_type.shape.dim
        array = arrays[each.name]
        if dims and array.ndim == len(dims) and dims[0].HasField("dim_value") and dims[0].dim_value > 0:
            batch = dims[0].dim_value
            if array.shape[0] % batch:
                raise InputError(f"{path}: {array.shape[0]} rows of '{each.name}' are no batches of {batch}", [])
            runs.add(array.shape[0] // batch)
        else:
            runs.add(1)
    if len(runs) > 1:
        raise InputError(f"{path}: its arrays do not hold as many samples each", [])
    (count,) = runs or {1}
    for i in range(count):
        yield {name: np.split(array, count)[i] if count > 1 else array for name, array in arrays.items()}


def run(executable: Executable, sample: Sample) -> list[np.ndarray]:
    """The outputs of one sample, in the order in which they are declared."""
    outputs = executable(*(sample[spec.name] for spec in executable.inputs))
    return [np.asarray(o) for o in (outputs if isinstance(outputs, tuple) else (outputs,))]
