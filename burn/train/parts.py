"""Checkpoints of a training on several processes: each process writes the blocks that it has, and rank 0 completes them.

    checkpoints/step-00000024.4f1c.rank-00000.safetensors      blocks of divided tensors, one file for each process that has some
    checkpoints/step-00000024.safetensors                      everything else, and where the blocks are

The second file is a checkpoint like any other. It is written when all blocks are on the disk, so a process that is lost before
leaves the previous checkpoint as the last one. It is read on any mesh and on one device: tensors are put together from their
blocks. The folder must be one that all processes share.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from burn.dialect.types import numpy_dtype
from burn.dialect.weights import Weight
from burn.distributed.engine import Held
from burn.distributed.processes import Processes
from burn.errors import ModelError, Problem
from burn.importers.weights import safetensors
from burn.train import checkpoints
from burn.train.checkpoints import DamagedCheckpoint

Table: TypeAlias = dict[str, dict[str, Any]]
"""Divided tensors by name: {"dtype", "shape", "blocks": [[file, index of the first element]]}. In its file a block has the
tensor's name and the index."""


def write(path: Path, tensors: Mapping[str, Weight | Held], facts: Mapping[str, Any], own: Processes) -> None:
    """Every process calls it with its own view of the same tensors. Raises ModelError or DistributedError in all of them if one
    cannot write, and then leaves no file of this checkpoint."""
    token = own.gather("the name of a checkpoint's parts", secrets.token_hex(4))[0]
    file = path.with_name(f"{path.stem}.{token}.rank-{own.rank:05}.safetensors")
    divided = {name: t for name, t in tensors.items() if not isinstance(t, Weight) and not t.layout.is_replicated}
    blocks = {_named(name, at): checkpoints.weight(a) for name, t in divided.items() for at, a in t.shards()}
    error = ""
    if blocks:
        try:
            checkpoints.write(file, blocks, {})
        except ModelError as raised:
            error = "; ".join([raised.summary, *map(str, raised.problems)])
    mine = {name: [at for at, _ in t.shards()] for name, t in divided.items()}
    written = own.gather("the parts of a checkpoint", {"file": file.name, "blocks": mine, "error": error})
    if failures := [Problem(f"rank {rank}: {part['error']}") for rank, part in enumerate(written) if part["error"]]:
        file.unlink(missing_ok=True)
        raise ModelError(f"cannot write {path}", failures)

    def complete() -> None:
        found: Table = {n: {"dtype": t.dtype, "shape": list(t.shape), "blocks": []} for n, t in divided.items()}
        for rank, part in enumerate(written):
            if any(part["blocks"].values()) and not path.with_name(part["file"]).is_file():
                hint = "all hosts write to one shared folder"
                raise ModelError(
                    f"cannot write {path}", [Problem(f"the part of rank {rank} is not in the folder", hint=hint)]
                )
            for name, indices in part["blocks"].items():
                found[name]["blocks"] += [[part["file"], at] for at in indices]
        whole = {
            n: t if isinstance(t, Weight) else checkpoints.weight(t.numpy())
            for n, t in tensors.items()
            if n not in divided
        }
        checkpoints.write(path, whole, facts, found)
        present = {part["file"] for part in written}
        for part in checkpoints.parts_of(path):  # of a checkpoint of the same step that this one replaces
            if part.name not in present:
                part.unlink(missing_ok=True)

    try:
        own.on_first("the completion of a checkpoint", complete)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def read(path: Path, text: str) -> dict[str, Weight]:
    """The divided tensors of a checkpoint, put together. Raises DamagedCheckpoint for a missing part and for changed bytes."""
    try:
        table: Table = json.loads(text)
        files = {file for entry in table.values() for file, _ in entry["blocks"]}
        if any("/" in file or "\\" in file for file in files):
            raise ValueError("a part is in another folder")
        return _assembled(path, table, {file: _part(path, file) for file in sorted(files)})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path} is damaged", [f"the table of its parts: {error!r}"]) from None


def _part(path: Path, file: str) -> Mapping[str, Weight]:
    part = path.with_name(file)
    try:
        tensors = safetensors.read(part)
    except ModelError as error:
        raise DamagedCheckpoint(f"{path} is damaged", [Problem(f"its part {file}: {error.summary}")]) from None
    checkpoints.verify(part, tensors)
    return tensors


def _assembled(path: Path, table: Table, parts: Mapping[str, Mapping[str, Weight]]) -> dict[str, Weight]:
    found = {}
    for name, entry in table.items():
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        array, covered = np.empty(shape, numpy_dtype(dtype)), 0
        for file, at in entry["blocks"]:
            block = parts[file][_named(name, at)]
            if block.dtype != dtype or len(block.shape) != len(shape):
                raise ValueError(f"a block of '{name}' has another type")
            array[tuple(slice(i, i + n) for i, n in zip(at, block.shape, strict=True))] = block.array()
            covered += prod(block.shape)
        if covered != prod(shape):
            raise DamagedCheckpoint(
                f"{path} is damaged", [f"the blocks of '{name}' have {covered} of {prod(shape)} elements"]
            )
        found[name] = Weight(dtype, shape, array)
    return found


def _named(name: str, index: Any) -> str:
    return f"{name}@{','.join(map(str, index))}"
