"""Collation of rows to a batch: containers keep their structure, and their leaves are stacked.

Arrays and numbers become arrays with a new leading axis, Python floats as float32, ints as int64. Strings and everything else
become lists.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.errors import DataError, Problem

Join = Callable[[list[np.ndarray], str], Any]
"""Joins the arrays of one component of the rows; the second argument names the component in errors."""


def collate(rows: Sequence[Any]) -> Any:
    """The batch of rows. Raises DataError where rows differ in their containers or arrays in their shapes."""
    return _joined(list(rows), "", _stacked)


@dataclass(frozen=True)
class Padded:
    """A collation that fills arrays of different lengths up to the longest of the batch: `Loader(..., collate=Padded(0))`.

    Every axis that differs is filled at its end with `value`. With `multiple`, the first axis gets a length that is a multiple of
    it, so that there are fewer lengths. With `mask`, each array becomes a pair: it, and where its elements are the rows' own."""

    value: float = 0
    multiple: int = 1
    mask: bool = False

    def __call__(self, rows: Sequence[Any]) -> Any:
        return _joined(list(rows), "", self._filled)

    def _filled(self, arrays: list[np.ndarray], path: str) -> Any:
        if len({a.ndim for a in arrays}) > 1:
            raise _differ(arrays, path)
        longest = [max(sizes) for sizes in zip(*(a.shape for a in arrays), strict=True)]
        longest[:1] = [-(-size // self.multiple) * self.multiple for size in longest[:1]]
        batch = np.full((len(arrays), *longest), self.value, arrays[0].dtype)
        own = np.zeros(batch.shape, np.bool_)
        for i, array in enumerate(arrays):
            inside = (i, *map(slice, array.shape))
            batch[inside], own[inside] = array, True
        return (batch, own) if self.mask and longest else batch


def _joined(items: list[Any], path: str, join: Join) -> Any:
    first = items[0]
    parts = [_parts(item) for item in items]
    if parts[0] is not None:
        keys = list(parts[0])
        wrong = next((p for p in parts if p is None or set(p) != set(keys)), parts[0])
        if wrong is not parts[0]:
            found = "something else" if wrong is None else ", ".join(map(str, wrong)) or "nothing"
            raise DataError(
                "rows do not make a batch",
                [Problem(f"one has {', '.join(map(str, keys))}, another {found}", node=path)],
            )
        inner = {k: _joined([p[k] for p in parts if p], f"{path}.{k}" if path else str(k), join) for k in keys}
        return _like(first, inner)
    arrays = [a for item in items if (a := _array(item)) is not None]
    return join(_alike(arrays, items), path) if len(arrays) == len(items) else items


def _parts(value: Any) -> dict[Any, Any] | None:
    """The items of a container, by name or number; None for other values."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


def _like(first: Any, inner: dict[Any, Any]) -> Any:
    if isinstance(first, Mapping):
        return inner
    if isinstance(first, tuple):
        return type(first)(*inner.values()) if hasattr(first, "_fields") else tuple(inner.values())
    return dataclasses.replace(first, **inner)


def _array(value: Any) -> np.ndarray | None:
    """A number, an array or a list of numbers as an array; None for what is none of them."""
    if isinstance(value, (bool, int, float, complex, list)) or hasattr(value, "__array__"):
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            return None
        return array if array.dtype.kind not in "OUSMm" else None
    return None


_NARROW = {"f": np.float32, "i": np.int64, "c": np.complex64}


def _alike(arrays: list[np.ndarray], items: list[Any]) -> list[np.ndarray]:
    """Arrays of one element type. Python's own numbers have no width: what is made of them alone gets the usual one."""
    dtype = np.result_type(*([a for a in arrays if a.size] or arrays))
    if not any(hasattr(item, "__array__") for item in items):
        dtype = np.dtype(_NARROW.get(dtype.kind, dtype))
    return [a.astype(dtype, copy=False) for a in arrays]


def _stacked(arrays: list[np.ndarray], path: str) -> np.ndarray:
    if len({a.shape for a in arrays}) > 1:
        raise _differ(arrays, path)
    return np.stack(arrays)


def _differ(arrays: list[np.ndarray], path: str) -> DataError:
    shapes = list(dict.fromkeys(str(list(a.shape)) for a in arrays))
    return DataError(
        "rows do not make a batch",
        [Problem(f"arrays of shapes {', '.join(shapes[:4])}", node=path, hint="data.Padded() fills them up")],
    )
