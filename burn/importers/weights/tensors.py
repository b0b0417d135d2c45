"""From the objects of a torch checkpoint to tensors by name: nested dicts become dotted names, `TensorRef`s become weights.

A tensor that lies in its storage row by row stays in the file; a transposed or strided one is copied into that order. All
sizes, strides and offsets are the file's word: they are checked against the storage, and copies against a budget, before
anything is allocated. Enter at `flatten` and `Storages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import MappedFile, Weight, array_weight, byte_size
from burn.errors import ModelError, Problem
from burn.importers.weights.allowed import Global, Opaque, StorageRef, TensorRef, Unsupported

MAX_LEAVES = 1 << 20
MAX_WORK = 1 << 24  # values looked at
MAX_DEPTH = 64
MAX_LETTERS = 1 << 28  # of all names together
MAX_RANK = 64  # torch's own limit
FREE_COPY = 256 << 20  # bytes of strided tensors that are copied whatever the file's size

QUANTISED = ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")

STATE_DICTS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "model_state", "weights")
"""Where training scripts put a model's state dict beside other things."""

TRAINING = ("optimizer", "optim", "scheduler", "sched", "scaler", "rng", "epoch", "loss", "step", "callback", "loop")
"""Words in the names of other saved state, which may hold tensors of its own."""


@dataclass(frozen=True)
class Location:
    """Where a storage's bytes are."""

    file: MappedFile
    offset: int
    length: int


class Storages:
    """Makes weights of tensors. find: where a storage is, by its key; raises ModelError where there is none."""

    def __init__(self, find: Callable[[str], Location], size: int, swapped: bool = False) -> None:
        """size: of the file. swapped: the elements' bytes are in the order of big-endian machines."""
        self.find, self.swapped = find, swapped
        self.budget = 4 * size + FREE_COPY

    def weight(self, ref: TensorRef) -> Weight:
        """Raises ModelError when the tensor does not lie in its storage, or is of a kind that burn lacks."""
        dtype = ref.dtype
        if dtype in QUANTISED:
            raise ModelError(f"a quantised tensor ({dtype}) cannot be read: dequantize it before saving")
        if dtype not in DTYPES:
            raise ModelError(f"the element type {dtype} is not supported")
        shape, strides = _sizes(ref.shape, "sizes"), _sizes(ref.strides, "strides")
        (offset,) = _sizes((ref.offset,), "offset")
        if len(shape) != len(strides):
            raise ModelError(f"{len(shape)} sizes do not go with {len(strides)} strides")
        if len(shape) > MAX_RANK:
            raise ModelError(f"{len(shape)} axes are too many")
        size = DTYPES[dtype].size
        nbytes = byte_size(dtype, shape, packed=False)
        location, count = self._elements(ref.storage, size)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if nbytes else offset - 1
        if last >= count:
            raise ModelError(f"elements {offset} to {last} of a storage of {count}")
        start = location.offset + offset * size
        flagged = ref.negated or ref.conjugated
        if _row_major(shape, strides) and not self.swapped and not flagged:
            return Weight(dtype, shape, location.file.view(start, nbytes), False, location.file, start)
        copied = self._copy(location, start, last - offset + 1, dtype, shape, strides)
        return _resolved(copied, ref) if flagged else copied

    def _elements(self, storage: StorageRef, size: int) -> tuple[Location, int]:
        """Where a storage is, and how many elements of `size` bytes it has. Its file may hold more, never less."""
        location = self.find(storage.view[0] if storage.view else storage.key)
        unit = 1 if storage.dtype == "untyped" else DTYPES[storage.dtype].size if storage.dtype in DTYPES else 0
        if not unit:
            raise ModelError(f"a storage of {storage.dtype} cannot be read")
        skip, count = (storage.view[1], storage.view[2]) if storage.view else (0, storage.count)
        if (skip + count) * unit > location.length:
            raise ModelError(f"storage '{storage.key}' has {location.length} bytes and needs {(skip + count) * unit}")
        return Location(location.file, location.offset + skip * unit, count * unit), count * unit // size

    def _copy(
        self, location: Location, start: int, span: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Weight:
        size = DTYPES[dtype].size
        self.budget -= prod(shape) * size
        if self.budget < 0:
            raise ModelError("its tensors are expanded to far more than the file holds")
        if 0 in shape:
            return array_weight(np.empty(shape, numpy_dtype(dtype)))
        flat = np.frombuffer(location.file.view(start, span * size), np.uint8).view(np.dtype((np.void, size)))
        steps = tuple(s * size for s in strides)
        array = np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False))
        array = array.reshape(-1).view(np.uint8)
        if self.swapped:
            unit = size // 2 if DTYPES[dtype].kind == "complex" else size
            array = np.ascontiguousarray(array.reshape(-1, unit)[:, ::-1]).reshape(-1)
        return Weight(dtype, shape, array.data)


def _resolved(weight: Weight, ref: TensorRef) -> Weight:
    """The elements that a negated or conjugated view of a storage stands for."""
    array = np.asarray(weight.array())
    kind = DTYPES[weight.dtype].kind
    if kind == "bool" or (ref.conjugated and kind != "complex"):
        raise ModelError(f"a tensor of {weight.dtype} is neither negated nor conjugated")
    array = np.conjugate(array) if ref.conjugated else array
    return array_weight(np.ascontiguousarray(np.negative(array) if ref.negated else array))


def _sizes(value: Any, what: str) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or not all(type(v) is int and 0 <= v < 2**48 for v in value):
        raise ModelError(f"a tensor's {what} are not natural numbers")
    return tuple(value)


def _row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True


# ---- names ---------------------------------------------------------------------------------------------------------------


@dataclass
class Flat:
    """The leaves of nested dicts by dotted name: tensors, and what else there is, in words."""

    tensors: dict[str, TensorRef]
    others: dict[str, str]
    problems: list[Problem]


def flatten(root: Any) -> Flat:
    """Dicts, lists and tuples are walked; a tensor's name is the path to it, "encoder.0.weight"."""
    flat = Flat({}, {}, [])
    todo: list[tuple[str, Any, int]] = [("", root, 0)]
    worth: dict[int, bool] = {}  # a memoised value may occur many times in a pickle; it is searched once
    leaves = work = letters = 0
    while todo:
        name, value, depth = todo.pop()
        leaves += 1
        letters += len(name)
        is_container = isinstance(value, (dict, list, tuple))
        if is_container and id(value) not in worth:
            work += len(value)
            worth[id(value)] = work <= MAX_WORK and _holds_tensors(value)
        if leaves > MAX_LEAVES or work > MAX_WORK or letters > MAX_LETTERS or depth > MAX_DEPTH:
            raise ModelError("the checkpoint is malformed", ["its dicts are nested too deep, or hold too much"])
        if is_container and worth[id(value)]:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            if leaves + len(todo) + len(value) > MAX_LEAVES or letters + len(name) * len(value) > MAX_LETTERS:
                raise ModelError("the checkpoint is malformed", ["its dicts hold too much"])
            todo += [(_join(name, key), item, depth + 1) for key, item in reversed(list(items))]
        elif isinstance(value, TensorRef):
            name = name or "value"
            if name in flat.tensors:
                flat.problems.append(Problem("two tensors have this name", tensor=name))
            flat.tensors[name] = value
        elif isinstance(value, Unsupported):
            flat.problems.append(Problem(f"{value.kind} cannot be read", tensor=name, hint="save it as a plain tensor"))
        elif name:
            flat.others[name] = describe(value)
    return flat


def _holds_tensors(value: Any) -> bool:
    """True if a value is worth walking; a list of numbers is one leaf."""
    items = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict) or any(isinstance(v, (TensorRef, Unsupported, dict, list, tuple)) for v in items)


def _join(prefix: str, key: Any) -> str:
    text = key if isinstance(key, str) else str(key) if isinstance(key, (int, bool)) else repr(key)
    return f"{prefix}.{text}" if prefix else text


def describe(value: Any) -> str:
    """A short description of a leaf."""
    if isinstance(value, (bool, int, float, str)):
        text = repr(value[:64] if isinstance(value, str) else value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    if isinstance(value, Opaque):
        return value.kind
    if isinstance(value, Global):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"{len(value)} values"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return "nothing" if value is None else type(value).__name__


def select(root: Any, key: str | None, notes: list[str]) -> tuple[Any, dict[str, str]]:
    """The state dict inside a saved object, and the other contents.

    key: the path to it, "state_dict" or "models.student". Without one it is taken by itself only where there can be no
    doubt: one of `STATE_DICTS` is the only thing there that has tensors, but for an optimizer's. Raises ModelError when
    there is nothing under the key."""
    if key is not None:
        value = root
        for part in key.split("."):
            inner = {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}
            if part not in inner:
                held = ", ".join(f"'{k}'" for k in list(inner)[:20]) or "no keys"
                raise ModelError(f"there is nothing under the top-level key '{key}'", [f"there is {held}"])
            value = inner[part]
        return value, {}
    if not isinstance(root, dict):
        return root, {}
    holding = _holding(root)
    having = [k for k, v in root.items() if isinstance(v, (TensorRef, Unsupported)) or id(v) in holding]
    named = [k for k in having if k in STATE_DICTS and isinstance(root[k], dict)]
    rest = [k for k in having if k not in named and not any(w in str(k).lower() for w in TRAINING)]
    if len(named) == 1 and not rest:
        others = {str(k): _size(v) for k, v in root.items() if k != named[0]}
        notes.append(f"the state dict is what lies under '{named[0]}'")
        return root[named[0]], others
    if len(named) > 1 or (named and rest):
        keys = ", ".join(f"'{k}'" for k in named)
        notes.append(f"there are nested dicts with tensors under {keys}: top_level_key chooses one")
    return root, {}


def _size(value: Any) -> str:
    return f"a dict of {len(value)}" if isinstance(value, dict) else describe(value)


def _holding(root: Any) -> set[int]:
    """The ids of the dicts, lists and tuples that have a tensor anywhere in them.

    Each is searched once, however often it occurs: the cost is linear in the objects that the pickle built."""
    parents: dict[int, list[int]] = {id(root): []}
    todo, found = [root], []
    while todo:
        item = todo.pop()
        for child in item.values() if isinstance(item, dict) else item:
            if isinstance(child, (TensorRef, Unsupported)):
                found.append(id(item))
            elif isinstance(child, (dict, list, tuple)):
                if id(child) not in parents:
                    parents[id(child)] = []
                    todo.append(child)
                parents[id(child)].append(id(item))
    holding: set[int] = set()
    while found:
        identity = found.pop()
        if identity not in holding:
            holding.add(identity)
            found += parents[identity]
    return holding
