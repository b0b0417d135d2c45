"""Orbax checkpoints: folders that Flax and JAX programs write. Enter at `read`.

`_METADATA` lists the arrays with the keys that lead to them. tensorstore reads their elements (zarr, in an OCDBT database); it is
an extra, imported here alone. Its code is native: unlike burn's own readers it is not made for files of strangers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from burn.dialect.types import dtype_of_numpy
from burn.dialect.weights import array_weight, byte_size
from burn.errors import ModelError, Problem
from burn.importers.weights.archive import inflatable
from burn.importers.weights.checkpoint import Checkpoint
from burn.importers.weights.flax import MAX_DEPTH, checkpoint_of

METADATA = "_METADATA"
MARK = "_CHECKPOINT_METADATA"
MAX_METADATA = 100 << 20
MAX_ARRAYS = 100_000


def folder_of(path: Path) -> Path | None:
    """The folder of arrays: this one, or the one item of a step that orbax's CheckpointManager wrote. None for other folders."""
    if (path / METADATA).is_file():
        return path
    if not (path / MARK).is_file():
        return None
    found = [inner for inner in sorted(path.iterdir()) if (inner / METADATA).is_file()]
    return found[0] if len(found) == 1 else None


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """The arrays of a checkpoint by the names of their paths, in memory. Raises ModelError for what is malformed, for more bytes
    than a folder of its size can hold, and if tensorstore is not installed."""
    folder = folder_of(Path(path))
    if folder is None:
        raise ModelError(f"{path} is no checkpoint of orbax", [f"it has no file {METADATA}"])
    try:
        import tensorstore
    except ImportError as error:
        hint = "pip install 'burn-mlir[orbax]', or save it with flax.serialization.to_bytes"
        raise ModelError(f"{path} is read by tensorstore", [Problem(str(error), hint=hint)]) from error
    metadata = _metadata(folder)
    spec: dict[str, Any] = {"driver": "zarr3" if metadata.get("use_zarr3") else "zarr"}
    base = f"file://{folder.resolve()}/"
    left = inflatable(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
    whole: dict[str, Any] = {}
    checkpoint = Checkpoint(path=path, kind="orbax")
    checkpoint.layout = "flax"
    problems = []
    for keys in _arrays(folder, metadata):
        name = ".".join(keys)
        store = {"driver": "ocdbt", "base": base, "path": f"{name}/"}
        if not metadata.get("use_ocdbt", True):
            store = {"driver": "file", "path": f"{folder.resolve()}/{name}/"}
        try:
            opened = tensorstore.open({**spec, "kvstore": store}, open=True, read=True).result()
            dtype = dtype_of_numpy(np.dtype(opened.dtype.numpy_dtype))
            left -= byte_size(dtype, tuple(opened.shape), packed=False)
            if left < 0:
                problems.append(Problem("its elements are more than a folder of this size holds", tensor=name))
                break
            _enter(whole, keys, array_weight(np.ascontiguousarray(opened.read().result()).reshape(opened.shape)))
        except (ValueError, KeyError, OverflowError, ModelError) as error:
            problems.append(Problem(" ".join(str(error).split())[:300], tensor=name))
    if problems:
        raise ModelError(f"{path} cannot be read", problems)
    return checkpoint_of(whole, checkpoint)


def _metadata(folder: Path) -> dict[str, Any]:
    file = folder / METADATA
    if file.stat().st_size > MAX_METADATA:
        raise ModelError(f"{file} is malformed", [f"it is larger than {MAX_METADATA} bytes"])
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is malformed", [f"it is not JSON: {error}"]) from None
    if not isinstance(content, dict) or not isinstance(content.get("tree_metadata"), dict):
        raise ModelError(f"{file} is malformed", ["it has no table 'tree_metadata'"])
    if len(content["tree_metadata"]) > MAX_ARRAYS:
        raise ModelError(f"{file} is malformed", [f"it lists more than {MAX_ARRAYS} arrays"])
    return content


def _arrays(folder: Path, metadata: dict[str, Any]) -> list[list[str]]:
    """The keys that lead to each array. Raises ModelError."""
    found = []
    for entry in metadata["tree_metadata"].values():
        try:
            keys = [str(part["key"]) for part in entry["key_metadata"]]
            kind = entry["value_metadata"]["value_type"]
        except (KeyError, TypeError) as error:
            raise ModelError(f"{folder / METADATA} is malformed", [f"an entry lacks {error}"]) from None
        if not 1 <= len(keys) <= MAX_DEPTH or any(key in ("", ".", "..") or "\0" in key for key in keys):
            raise ModelError(f"{folder / METADATA} is malformed", [f"the keys {keys!r}"])
        if kind not in ("None", "Dict", "List", "Tuple", "string"):
            found.append(keys)
    return found


def _enter(whole: dict[str, Any], keys: list[str], value: Any) -> None:
    inner: Any = whole
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ModelError("an array is a table as well")
    if keys[-1] in inner:
        raise ModelError("two arrays have this name")
    inner[keys[-1]] = value
