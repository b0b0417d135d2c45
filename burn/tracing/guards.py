"""Guards: captures the state of non-tensor objects that a traced function may have read, and compares it at later calls.

A traced program may depend on all attributes of modules and of static objects (`self` of a jitted method), except the elements of
parameters. `Captured` captures this state, deep enough for typical models, and checks it quickly.
"""

from __future__ import annotations

import functools
import operator
import types
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

import numpy as np

from burn.runtime._native import all_same
from burn.tensors import Tensor
from burn.tracing.changes import changes

DEEPEST = 3
"""Objects inside of each other that are looked into, besides modules."""
LONGEST = 4096
"""Maximum length of a container whose elements are compared; a longer one is compared by identity and length."""
LARGEST = 1 << 20
"""Maximum bytes of an array whose elements are compared; a larger one is compared by identity."""

_OPAQUE = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
_PLAIN = (bool, int, str, bytes, type(None))
GUARDED = "__guarded__"
"""The method of an object that says which of its parts a program may depend on: containers or objects, in place of its
attributes."""
_IGNORED = frozenset({"_arguments", "_config", "training"})
"""Attributes that do not count: the constructor's arguments, and the mode, which may be the class's."""


class Same:
    """An object compared by identity. It is kept alive, so that its address is not reused."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Captured:
    """The captured state of some objects.

    `_state` compares by value. `_parts` are the containers that were read, with their items: if all items are
    identical, the state need not be compared. `_reads` are those whose items a function gives. `_verified`: the count of changes
    of parameters (`Changes.kinds`) up to which the parameters' element types and `trainable` are known to be the same."""

    def __init__(self, owners: Iterable[Any]) -> None:
        self._owners = tuple(owners)
        self._parts: list[tuple[dict[Any, Any] | list[Any], tuple[Any, ...]]] = []
        self._reads: list[tuple[Callable[[], Collection[Any]], tuple[Any, ...]]] = []
        self._verified = changes.kinds
        self._arrays: list[tuple[np.ndarray, bytes]] = []
        self._long: list[tuple[Any, int]] = []
        self._parameters: list[tuple[Any, bool, Any]] = []
        self._tensors: list[tuple[Tensor, object]] = []
        self._looked: set[int] = set()
        self._state: Hashable = tuple(self._of(owner, DEEPEST) for owner in self._owners)

    def holds(self) -> bool:
        """True if the state is unchanged."""
        if (
            all_same(self._parts)
            and all(_are(read(), there) for read, there in self._reads)
            and all(array.tobytes() == data for array, data in self._arrays)
            and all(len(container) == length for container, length in self._long)
            and all(tensor._value is value for tensor, value in self._tensors)
            and self._parameters_hold()
        ):
            return True
        now = Captured(self._owners)
        if now._state != self._state:
            return False
        self._parts, self._reads, self._arrays, self._long = now._parts, now._reads, now._arrays, now._long
        self._verified = now._verified
        self._parameters, self._tensors = now._parameters, now._tensors
        return True

    def _parameters_hold(self) -> bool:
        now = changes.kinds
        if self._verified != now:
            if not all(p.trainable is trainable and p.type is type_ for p, trainable, type_ in self._parameters):
                return False
            self._verified = now
        return True

    def _of(self, value: Any, depth: int) -> Hashable:
        if isinstance(value, _PLAIN):
            return type(value), value
        if isinstance(value, (float, complex)):
            return type(value), repr(value)  # a NaN is itself, and 0.0 is not -0.0
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, (list, tuple, set, frozenset, dict, deque)):
            return self._container(value, depth)
        inside = None if isinstance(value, _OPAQUE) else getattr(value, "__dict__", None)
        is_module = hasattr(value, "named_parameters")
        if inside is None or id(value) in self._looked or (depth == 0 and not is_module):
            return Same(value)
        self._looked.add(id(value))
        if hasattr(type(value), GUARDED):
            read = getattr(value, GUARDED)
            self._reads.append((read, read()))
            return Same(value), tuple(self._of(part, DEEPEST) for part in read())
        self._parts.append((inside, _inside(inside)))
        depth = DEEPEST if is_module else depth - 1
        attributes = tuple((n, self._of(v, depth)) for n, v in list(inside.items()) if n not in _IGNORED)
        return Same(value), getattr(value, "training", None), attributes

    def _tensor(self, tensor: Tensor) -> Hashable:
        """A tensor is itself, with its value. Of a parameter, training may be switched off, and the element type may change."""
        trainable = getattr(tensor, "trainable", None)
        if trainable is None:
            self._tensors.append((tensor, tensor._value))
            return Same(tensor), Same(tensor._value)
        if id(tensor) not in self._looked:
            self._looked.add(id(tensor))
            self._parameters.append((tensor, trainable, tensor.type))
        return Same(tensor), trainable, tensor.type

    def _array(self, array: np.ndarray) -> Hashable:
        if array.nbytes > LARGEST:
            return Same(array)
        data = array.tobytes()
        if array.flags.writeable:
            self._arrays.append((array, data))
        return str(array.dtype), array.shape, data

    def _container(self, value: Any, depth: int) -> Hashable:
        if len(value) > LONGEST or id(value) in self._looked:
            self._long.append((value, len(value)))
            return Same(value), len(value)
        self._looked.add(id(value))
        if isinstance(value, (dict, list)):
            self._parts.append((value, _inside(value)))
        elif not isinstance(value, (tuple, frozenset)):  # which do not change
            read = functools.partial(_inside, value)
            self._reads.append((read, read()))
        if isinstance(value, dict):
            return dict, tuple((self._of(k, depth), self._of(v, depth)) for k, v in list(value.items()))
        items = [self._of(v, depth) for v in list(value)]
        return type(value), frozenset(items) if isinstance(value, (set, frozenset)) else tuple(items)


def _inside(container: Any) -> tuple[Any, ...]:
    return (*container, *container.values()) if isinstance(container, dict) else tuple(container)


def _are(values: Collection[Any], there: tuple[Any, ...]) -> bool:
    return len(values) == len(there) and all(map(operator.is_, values, there))
