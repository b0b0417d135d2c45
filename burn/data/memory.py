"""Rows that are in memory: arrays that share their first axis, or a list of anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from burn.data.dataset import Dataset
from burn.errors import DataError, Problem


class Memory(Dataset):
    """Arrays, or a list of rows.

        Memory((images, labels))            # rows are tuples
        Memory({"x": x, "y": y})            # rows are dictionaries
        Memory(tokens)                      # rows of the array
        Memory([("a text", 0), ...])        # elements of the list

    Raises DataError for arrays whose first axes differ."""

    def __init__(self, data: Any) -> None:
        self.data = data if isinstance(data, list) else _arrays(data, "")
        lengths = {} if isinstance(data, list) else _lengths(self.data, "")
        if len(set(lengths.values())) > 1:
            raise DataError(
                "arrays of a dataset have first axes of one size",
                [Problem(f"has {length} rows", node=name) for name, length in lengths.items()],
            )
        self._length = next(iter(lengths.values()), len(data))

    def __len__(self) -> int:
        return self._length

    def row(self, index: int) -> Any:
        return self.data[index] if isinstance(self.data, list) else _at(self.data, index)

    def gather(self, indices: np.ndarray) -> Any:
        return None if isinstance(self.data, list) or _words(self.data) else _at(self.data, indices)


def _arrays(data: Any, path: str) -> Any:
    if isinstance(data, Mapping):
        return {k: _arrays(v, f"{path}.{k}" if path else str(k)) for k, v in data.items()}
    if isinstance(data, tuple):
        return tuple(_arrays(v, f"{path}.{i}" if path else str(i)) for i, v in enumerate(data))
    array = np.asarray(data)
    if not array.ndim:
        raise DataError("a dataset is made of arrays", [Problem(f"a {type(data).__name__} has no rows", node=path)])
    return array


def _lengths(data: Any, path: str) -> dict[str, int]:
    if not isinstance(data, (dict, tuple)):
        return {path: len(data)}
    named = data.items() if isinstance(data, dict) else enumerate(data)
    return {p: n for k, v in named for p, n in _lengths(v, f"{path}.{k}" if path else str(k)).items()}


def _at(data: Any, index: Any) -> Any:
    if isinstance(data, dict):
        return {k: _at(v, index) for k, v in data.items()}
    return tuple(_at(v, index) for v in data) if isinstance(data, tuple) else data[index]


def _words(data: Any) -> bool:
    """True if an array has elements that are not numbers; batches have lists of them."""
    if isinstance(data, (dict, tuple)):
        return any(map(_words, data.values() if isinstance(data, dict) else data))
    return data.dtype.kind in "OUSMm"
