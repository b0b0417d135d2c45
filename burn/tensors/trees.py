"""Containers of tensors (pytrees), flattened to leaves and unflattened: arguments and results of calls.

Lists, tuples, named tuples, dictionaries and instances of dataclasses are containers. Arrays, tensors and numbers are leaves;
everything else (None, strings, bools, modules, functions ...) belongs to the structure. A structure can be compared and hashed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Leaf:
    """A leaf of a structure; `path` leads to it ("cache.0.key")."""

    path: str


@dataclass(frozen=True)
class Fixed:
    """A value that is not a leaf. Two are equal if type and value are equal, or, without a hash, if they are one object.
    Zeros of different sign differ, and all NaNs are equal."""

    value: Any

    def _identity(self) -> Hashable:
        try:
            hash(self.value)
        except TypeError:
            return type(self.value), id(self.value)
        return identity(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


@dataclass(frozen=True)
class Node:
    """A container of a class, with its keys or fields, if any. Keys are equal as values of `Fixed` are."""

    cls: type
    keys: tuple[Hashable, ...]
    children: tuple[Structure, ...]

    def _identity(self) -> Hashable:
        keys = self.keys if all(type(key) is str for key in self.keys) else identity(self.keys)
        return self.cls, keys, self.children

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


Structure = Leaf | Fixed | Node


def identity(value: Hashable) -> Hashable:
    """A key that is finer than Python's equality, by which 1, 1.0 and True are equal, and 0.0 and -0.0. A NaN equals itself."""
    if type(value) is float:
        return float, value.hex()
    if type(value) is complex:
        return complex, value.real.hex(), value.imag.hex()
    if type(value) is tuple:
        return tuple, tuple(map(identity, value))
    if type(value) is frozenset:
        return frozenset, frozenset(map(identity, value))
    return type(value), value


def is_array(value: object) -> bool:
    """An array, a tensor, or anything with shape and dtype or DLPack."""
    return isinstance(value, np.generic) or (
        (hasattr(value, "shape") and hasattr(value, "dtype")) or hasattr(value, "__dlpack__")
    )


def is_leaf(value: object) -> bool:
    """An array, or a number."""
    return is_array(value) or (isinstance(value, (int, float, complex)) and not isinstance(value, bool))


def flatten(value: Any, leaf: Callable[[Any], bool] = is_leaf, path: str = "") -> tuple[list[Any], Structure]:
    """The leaves of a value in order, and its structure."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaf, path, leaves)


def _flatten(value: Any, leaf: Callable[[Any], bool], path: str, leaves: list[Any]) -> Structure:
    if leaf(value):
        leaves.append(value)
        return Leaf(path)
    parts = _parts(value)
    if parts is None:
        return Fixed(value)
    keys, items = parts
    named = keys or range(len(items))
    children = (_flatten(v, leaf, f"{path}.{k}" if path else str(k), leaves) for k, v in zip(named, items, strict=True))
    return Node(type(value), keys, tuple(children))


def _parts(value: Any) -> tuple[tuple[Hashable, ...], list[Any]] | None:
    """A container's keys (none for lists and tuples) and its items; None if the value is not a container."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(value._fields), list(value)  # type: ignore[attr-defined]
    if isinstance(value, (list, tuple)):
        return (), list(value)
    if isinstance(value, Mapping):
        return tuple(value.keys()), list(value.values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(f.name for f in dataclasses.fields(value) if f.init)
        return names, [getattr(value, name) for name in names]
    return None


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The value of a structure with these leaves."""
    return _build(structure, iter(leaves))


def _build(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    if isinstance(structure, Fixed):
        return structure.value
    items = [_build(child, leaves) for child in structure.children]
    cls = structure.cls
    if not structure.keys:
        return cls(items) if cls is not dict else {}
    if issubclass(cls, tuple):
        return cls(*items)
    if issubclass(cls, Mapping):
        return cls(zip(structure.keys, items, strict=True))  # type: ignore[call-arg]
    return cls(**dict(zip(map(str, structure.keys), items, strict=True)))


def paths(structure: Structure) -> list[str]:
    """Every leaf's path, in order."""
    if isinstance(structure, Leaf):
        return [structure.path]
    return [p for child in structure.children for p in paths(child)] if isinstance(structure, Node) else []
