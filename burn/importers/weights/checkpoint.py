"""`Checkpoint`: what is in a weight file, tensors by name; and what the readers and writers of such files share."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from burn.dialect.weights import Weight, array_weight
from burn.errors import BurnError, ModelError, Problem
from burn.runtime.files import whole

PRODUCER = "burn-mlir"
"""The value of "producer" in the metadata of burn's own files: names and layouts are those of `burn.nn`."""

LAYOUTS = {PRODUCER: "own", "burn": "burn", "burn-onnx": "burn"}
"""The origin of a file's names and layouts, by its producer; Burn (the Rust framework) also writes its name."""


class Checkpoint(dict[str, Weight]):
    """The tensors of a file by name, which stay in the file where its format allows.

    `metadata`: the file's own, text by key. `ignored`: other contents that are not tensors, by path (an epoch, an optimizer's
    settings). `notes`: decisions of the reader that the user may want to see. `layout`: the convention of names and axes:
    "own" (burn.nn), "burn" (the Rust framework), "torch", "flax", or "" if the file does not say."""

    def __init__(
        self, tensors: Iterable[tuple[str, Weight]] = (), path: str | os.PathLike[str] = "", kind: str = ""
    ) -> None:
        super().__init__(tensors)
        self.path = Path(path)
        self.kind = kind
        self.layout = ""
        self.metadata: dict[str, str] = {}
        self.ignored: dict[str, str] = {}
        self.notes: list[str] = []
        self.param_ids: dict[str, int] = {}  # Burn's identities of parameters, which its optimizers go by

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Checkpoint:
        """Arrays in memory, or what numpy makes arrays of. Raises ModelError listing what it does not."""
        checkpoint = cls(kind="memory")
        problems = []
        for name, array in arrays.items():
            if isinstance(array, Mapping):
                problems.append(
                    Problem("it is a dict and no tensor", tensor=str(name), hint=f"load what lies under '{name}'")
                )
                continue
            try:
                checkpoint[name] = array if isinstance(array, Weight) else array_weight(_kept(_in_memory(array)))
            except BurnError as error:
                problems.append(Problem("; ".join(map(str, error.problems)) or error.summary, tensor=name))
            except Exception as error:  # of whatever kind another library's tensor raises
                problems.append(Problem(f"it is no array: {error}", tensor=name))
        if problems:
            raise ModelError("these weights cannot be read", problems)
        return checkpoint

    def take_metadata(self, metadata: Any) -> None:
        """Keeps what of a file's metadata is text."""
        if isinstance(metadata, dict):
            self.metadata = {str(k): v for k, v in metadata.items() if isinstance(v, str)}
            self.layout = LAYOUTS.get(self.metadata.get("producer", ""), "")
            if self.metadata.get("format") == "pt":
                self.layout = "torch"


def overlaps(ranges: Iterable[tuple[int, int, str]]) -> list[Problem]:
    """Problems of tensors (begin, end, name) that share bytes."""
    taken = sorted(r for r in ranges if r[0] < r[1])
    problems = []
    for (_, end, first), (begin, _, second) in itertools.pairwise(taken):
        if begin < end:
            problems.append(Problem(f"its bytes overlap those of '{first}'", tensor=second))
    return problems


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `path` when all went well; otherwise nothing is left of it."""
    path = Path(path)
    try:
        with whole(path) as file:
            yield file
    except OSError as error:
        raise ModelError(f"cannot write {path}", [error.strerror or str(error)]) from None


def write_weight(weight: Weight, file: IO[bytes]) -> None:
    """A tensor's bytes, one element a byte or more; the pages of a mapped file are given back."""
    if weight.nbytes == 0:
        return
    if isinstance(weight.buffer, memoryview) and not weight.packed:
        file.write(weight.buffer)
        if weight.file is not None:
            weight.file.release(weight.offset, weight.nbytes)
        return
    file.write(np.ascontiguousarray(weight.array()).reshape(-1).view(np.uint8).data)


def _in_memory(array: Any) -> np.ndarray:
    """An array, or another library's tensor, as a numpy array. PyTorch's `numpy()` refuses parameters and bfloat16."""
    torch = sys.modules.get("torch")  # never imported here: only a caller that has it can have passed its tensors
    if torch is None or not isinstance(array, torch.Tensor):
        return np.asarray(array)
    from burn.importers.torch.dtypes import to_array

    return to_array(array.cpu())


def _kept(array: np.ndarray) -> np.ndarray:
    """An array whose elements stay as they are now: what its owner may write to is copied."""
    return array.copy() if array.flags.writeable else array
