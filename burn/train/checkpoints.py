"""Checkpoints of a training: one safetensors file each, written atomically.

Tensors are named "model.<path>", "optimizer.<name>" and "metrics.<name>". Everything else (the position in the data, random
states, the state of observers, the history) is JSON under "burn.train" in the file's metadata. The file is renamed when it is
complete, so a training that is killed while saving keeps the previous checkpoint. The metadata also has checksums of all
content; a damaged file is refused.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from burn.dialect.types import dtype_of_numpy
from burn.dialect.weights import Weight
from burn.errors import ModelError, Problem, TypeMismatch
from burn.importers.weights import safetensors
from burn.importers.weights.checkpoint import PRODUCER, Checkpoint
from burn.nn.parameter import Parameter
from burn.runtime.arrays import on_host

KEY = "burn.train"
CHECKSUMS = "burn.train.checksums"
FORMAT = 2
IN_PARTS = 3
"""The format of a checkpoint whose divided tensors are in files of the processes that wrote them (parts.py)."""
WITHOUT_CHECKSUMS = 1
"""The format before, which is read as it is."""
PARTS = "burn.train.parts"
"""The metadata of the blocks of divided tensors: their files and positions."""
FOLDER = "checkpoints"
LOCK = ".lock"
_NAME = re.compile(r"step-(\d{8,})\.safetensors")
_PART = re.compile(r"(step-\d{8,})\.\w+\.rank-\d+\.safetensors")


class DamagedCheckpoint(ModelError):
    """A checkpoint whose bytes are not those that were written."""


@dataclass(frozen=True)
class Keep:
    """Which checkpoints to make, and which to keep.

    `last`: number of the newest to keep. `best`: metrics whose best epoch's checkpoint is kept. `every`: steps between
    checkpoints within an epoch; by default they are made only at the end of an epoch."""

    last: int = 2
    best: str | Sequence[str] = "loss"
    every: int | None = None

    def __post_init__(self) -> None:
        if self.last < 1 or (self.every is not None and self.every < 1):
            raise TypeMismatch("Keep takes numbers of at least 1", [f"last={self.last}, every={self.every}"])

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.best,) if isinstance(self.best, str) else tuple(self.best)


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was read. facts: what is not a tensor."""

    path: Path
    tensors: Checkpoint
    facts: Mapping[str, Any]

    def part(self, prefix: str) -> Checkpoint:
        """The tensors whose names begin so, without that."""
        start = f"{prefix}."
        found = Checkpoint(
            [(n[len(start) :], w) for n, w in self.tensors.items() if n.startswith(start)], self.path, "safetensors"
        )
        found.layout = self.tensors.layout
        return found

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        return {name: weight.array() for name, weight in self.part(prefix).items()}


def lent(p: Parameter) -> Weight:
    """A parameter's elements where they are, to be written at once: the next step writes over them."""
    return Weight(p.dtype, p.type.shape, on_host(p.elements))  # type: ignore[arg-type]  # a parameter's sizes are numbers


def weight(array: np.ndarray) -> Weight:
    array = np.asarray(array, order="C")
    return Weight(dtype_of_numpy(array.dtype), array.shape, array)


def path_of(folder: Path, step: int) -> Path:
    return folder / FOLDER / f"step-{step:08}.safetensors"


def write(
    path: Path, tensors: Mapping[str, Weight], facts: Mapping[str, Any], parts: Mapping[str, Any] | None = None
) -> None:
    """parts: where the blocks of divided tensors are (`parts.Table`). Raises ModelError where it cannot be written; what was
    there before is there still."""
    try:
        text = json.dumps({"format": IN_PARTS if parts else FORMAT, **facts})
    except (TypeError, ValueError) as error:
        cause = f"what an observer or the data remembers is no plain value: {error}"
        raise ModelError(f"cannot write {path}", [cause]) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"cannot write {path}", [error.strerror or str(error)]) from None
    checksums = {name: _checksum(name, w) for name, w in tensors.items()}
    texts = {KEY: text, **({PARTS: json.dumps(parts)} if parts else {})}
    checksums[KEY] = _texts({"producer": PRODUCER, **texts})
    safetensors.write(path, tensors, {**texts, CHECKSUMS: json.dumps(checksums)})


def _texts(metadata: Mapping[str, str]) -> int:
    """CRC-32 of all metadata but the checksums."""
    return zlib.crc32(json.dumps(sorted((k, v) for k, v in metadata.items() if k != CHECKSUMS)).encode())


def _checksum(name: str, weight: Weight) -> int:
    """CRC-32 of a tensor: its name, type, shape and bytes."""
    head = f"{name} {weight.dtype} {list(weight.shape)}".encode()
    return zlib.crc32(np.ascontiguousarray(weight.array()).reshape(-1).view(np.uint8).data, zlib.crc32(head))


def verify(path: str | os.PathLike[str], tensors: Checkpoint) -> None:
    """Raises DamagedCheckpoint if a checksum is missing or wrong."""
    try:
        written = json.loads(tensors.metadata[CHECKSUMS])
        found = {KEY: _texts(tensors.metadata)}
        found |= {name: _checksum(name, w) for name, w in tensors.items()}
        wrong = sorted(name for name in {*written, *found} if written.get(name) != found.get(name))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path} is damaged", [f"its checksums cannot be read: {error!r}"]) from None
    if wrong:
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        names = ", ".join(f"'{name}'" for name in wrong[:4])
        raise DamagedCheckpoint(
            f"{path} is damaged", [f"the checksums of {names}{more} are not those that were written"]
        )


@contextmanager
def alone(folder: Path | None) -> Iterator[None]:
    """Locks the folder against other trainings, in this process and in others. The lock of a killed process is released. Raises
    ModelError."""
    if folder is None:
        yield
        return
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        problem = Problem(f"{folder / LOCK} is held", hint="give each training a folder of its own")
        raise ModelError(f"another training uses {folder}", [problem]) from None
    except OSError as error:
        raise ModelError(f"cannot write {folder}", [error.strerror or str(error)]) from None
    try:
        yield
    finally:
        lock.release()


def read(path: str | os.PathLike[str]) -> Saved:
    """A checkpoint; its tensors stay in the file. Raises ModelError for what is none, and DamagedCheckpoint for a file whose
    bytes have changed since it was written."""
    try:
        tensors = safetensors.read(path)
    except ModelError as error:
        if not Path(path).is_file():
            raise
        raise DamagedCheckpoint(error.summary, error.problems) from None
    try:
        facts = json.loads(tensors.metadata[KEY])
    except KeyError:
        hint = "model.load reads weights"
        raise ModelError(
            f"{path} is no checkpoint of a training", [Problem("it holds tensors alone", hint=hint)]
        ) from None
    except (ValueError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path} is malformed", [f"metadata {KEY}: {error}"]) from None
    number = facts.get("format") if isinstance(facts, dict) else None
    if number not in (FORMAT, IN_PARTS, WITHOUT_CHECKSUMS):
        raise ModelError(f"{path} is a checkpoint of another version", [f"format {number!r}, not {FORMAT}"])
    if number != WITHOUT_CHECKSUMS or CHECKSUMS in tensors.metadata:
        verify(path, tensors)
    if number == IN_PARTS:
        from burn.train import parts

        tensors.update(parts.read(Path(path), tensors.metadata.get(PARTS, "")))
    return Saved(Path(path), tensors, facts)


def found(folder: Path) -> dict[int, Path]:
    """The checkpoints in a training's folder, by step."""
    with suppress(OSError):
        matches = [(_NAME.fullmatch(p.name), p) for p in (folder / FOLDER).iterdir()]
        return dict(sorted((int(m[1]), p) for m, p in matches if m))
    return {}


def newest_whole(folder: Path) -> tuple[Saved | None, list[DamagedCheckpoint]]:
    """The newest checkpoint in a training's folder that is not damaged, and the errors of those that are newer. Raises the newest
    one's error where all are damaged."""
    errors: list[DamagedCheckpoint] = []
    for path in reversed(found(folder).values()):
        try:
            return read(path), errors
        except DamagedCheckpoint as error:
            errors.append(error)
    if errors:
        hint = "overwrite=True begins anew"
        raise DamagedCheckpoint(
            errors[0].summary, [*errors[0].problems, Problem("all previous checkpoints are damaged", hint=hint)]
        )
    return None, []


def newest(folder: Path) -> Path | None:
    return next(reversed(found(folder).values()), None)


def tidy(folder: Path, step: int, last: int, best: Sequence[int]) -> None:
    """Removes all but the newest up to a step and the best ones: also those of later steps, of a training that was resumed
    from before them."""
    steps = found(folder)
    stay = {*[s for s in steps if s <= step][-last:], *best}
    for s, path in steps.items():
        if s not in stay:
            path.unlink(missing_ok=True)
            for part in parts_of(path):
                part.unlink(missing_ok=True)


def parts_of(path: Path) -> list[Path]:
    """The files of the parts of a checkpoint, also of one that was never completed."""
    return sorted(path.parent.glob(f"{path.stem}.*.rank-*.safetensors"))


def clear(folder: Path, everything: bool) -> None:
    """Removes what killed trainings left half written, or all checkpoints."""
    with suppress(OSError):
        for path in (folder / FOLDER).iterdir():
            half = path.name.startswith(".step-") and path.name.endswith(".tmp")
            part = _PART.fullmatch(path.name)
            lost = part is not None and not (path.parent / f"{part[1]}.safetensors").is_file()
            if half or lost or (everything and (part is not None or _NAME.fullmatch(path.name))):
                path.unlink(missing_ok=True)
