"""Checkpoints in several files with an index, as Hugging Face writes them: `model.safetensors.index.json`.

    {"metadata": {..}, "weight_map": {tensor: "model-00001-of-00002.safetensors", ..}}

Enter at `read`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from burn.errors import ModelError, Problem, printable
from burn.importers.weights.checkpoint import Checkpoint

MAX_INDEX = 100 << 20  # bytes
LONGEST_NAME = 255  # bytes that file systems allow
MAX_SHARDS = 10_000


def read(path: str | os.PathLike[str], read_shard: Callable[[Path], Checkpoint]) -> Checkpoint:
    """The tensors of all shards by name, left in their files.

    Raises ModelError listing all problems. Shards may be missing or outside of the index's folder. Tensors may be missing from
    the shard that the index names, or in two shards. Problems within the shards are also listed."""
    path = Path(path)
    shards, metadata = _index(path)
    files = list(dict.fromkeys(shards.values()))
    problems = [problem for file in files if (problem := _outside(path.parent, file)) is not None]
    if len(files) > MAX_SHARDS:
        problems.append(Problem(f"there are {len(files)} shards"))
    if problems:
        raise ModelError(f"{path} names shards that cannot be read", problems)
    checkpoint = Checkpoint(path=path, kind="sharded")
    found: dict[str, str] = {}
    layouts: set[str] = set()
    unread: set[str] = set()
    for file in files:
        try:
            shard = read_shard(path.parent / file)
        except ModelError as error:
            problems += [Problem(f"shard {file}: {p}") for p in error.problems or (error.summary,)]
            unread.add(file)
            continue
        layouts.add(shard.layout)
        for name, weight in shard.items():
            if name in found:
                problems.append(Problem(f"it is in shard {file} and in shard {found[name]}", tensor=name))
            elif name not in shards:
                problems.append(Problem(f"it is in shard {file}, but not in the index", tensor=name))
            found[name] = file
            checkpoint[name] = weight
        checkpoint.ignored.update({f"{file}: {k}": v for k, v in shard.ignored.items()})
    for name, file in shards.items():
        if found.get(name) != file and file not in unread:
            problems.append(Problem(f"the index says that it is in shard {file}, where it is not", tensor=name))
    if problems:
        raise ModelError(f"{path} does not agree with its shards", problems)
    if isinstance(metadata, dict):
        checkpoint.metadata = {str(k): str(v)[:200] for k, v in metadata.items()}
    checkpoint.layout = layouts.pop() if len(layouts) == 1 else ""
    return checkpoint


def _index(path: Path) -> tuple[dict[str, str], Any]:
    try:
        if path.stat().st_size > MAX_INDEX:
            raise ModelError(f"{path} is too large for an index")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not an index of shards", [f"it is not JSON: {error}"]) from None
    shards = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(shards, dict) or not all(isinstance(file, str) for file in shards.values()):
        raise ModelError(f"{path} is not an index of shards", ["it has no weight_map from tensors to files"])
    return shards, content.get("metadata")


def _outside(folder: Path, name: str) -> Problem | None:
    """The problem of a shard's name, which must be that of a file in the index's folder."""
    is_text = "\0" not in name and printable(name) == name and 0 < len(name.encode()) <= LONGEST_NAME
    if not is_text or len(PurePosixPath(name).parts) != 1 or len(PureWindowsPath(name).parts) != 1:
        return Problem(f"'{name[:200]}' is not the name of a file beside the index")
    if name in (".", "..") or ((folder / name).is_symlink() and not _within(folder, name)):
        return Problem(f"'{name}' leads out of the folder")
    if not (folder / name).is_file():
        return Problem(f"shard '{name}' is missing")
    return None


def _within(folder: Path, name: str) -> bool:
    """True if a link stays near: download caches keep the files a few folders aside, and link to them."""
    target = (folder / name).resolve()
    return target.is_relative_to(folder.resolve().parent.parent)
