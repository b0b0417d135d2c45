"""Checks of values against annotations: the type, and the range of an `Annotated` type. Start at `problem_of`.

It checks all configurations, hand-written or derived from constructors. An annotation of another kind (a module) accepts every
value.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import numpy as np

from burn.dialect.types import DTYPES


@dataclass(frozen=True)
class Range:
    """Bounds on a number, in an annotation: `Annotated[float, Range(0, 1)]`; `open` leaves the lower bound itself out."""

    low: float | None = None
    high: float | None = None
    open: bool = False

    def problem(self, value: Any) -> str:
        if not isinstance(value, (int, float)):
            return ""
        above = self.low is None or (value > self.low if self.open else value >= self.low)
        if above and (self.high is None or value <= self.high):
            return ""
        wanted = [] if self.low is None else [f"{'greater than' if self.open else 'at least'} {self.low:g}"]
        wanted += [] if self.high is None else [f"at most {self.high:g}"]
        return f"must be {' and '.join(wanted)}, not {value!r}"


@dataclass(frozen=True)
class ElementType:
    """Names of element types, in an annotation."""

    def problem(self, value: Any) -> str:
        return "" if value in DTYPES else f"must be an element type ({', '.join(DTYPES)}), not {value!r}"


Count = Annotated[int, Range(0)]
"""A count."""
Positive = Annotated[int, Range(1)]
"""A size of at least one."""
Probability = Annotated[float, Range(0, 1)]
Epsilon = Annotated[float, Range(0)]
DTypeName = Annotated[str, ElementType()]
PerAxis = Positive | Sequence[Positive]
"""One number for all axes, or one for each."""
Pads = Count | Sequence[Count | tuple[Count, Count]]
"""One number for all borders, or one for each axis, or a pair (before, after) for each."""

_SCALARS: dict[Any, tuple[type, ...]] = {
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    str: (str,),
    bool: (bool, np.bool_),
    type(None): (type(None),),
}


def problem_of(value: Any, annotation: Any) -> str:
    """The error of a value, as the rest of a sentence ("must be int, not 'a'"); empty if it fits."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _SCALARS:
        fits = isinstance(value, _SCALARS[annotation])
        if isinstance(value, (bool, np.bool_)) and annotation in (int, float):
            fits = False
        return "" if fits else f"must be {spelled(annotation)}, not {value!r}"
    if origin is Annotated:
        inner, *notes = arguments
        found = [problem_of(value, inner)]
        found += [note.problem(value) for note in notes if isinstance(note, (Range, ElementType))]
        return next(filter(None, found), "")
    if origin in (Union, types.UnionType):
        found = [problem_of(value, choice) for choice in arguments]
        if not all(found):
            return ""
        # if only the range is wrong, report the range
        close = [p for p in found if not p.startswith("must be ") or p.startswith(("must be at", "must be greater"))]
        return close[0] if close else f"must be {spelled(annotation)}, not {value!r}"
    if origin is Callable:
        return "" if callable(value) else f"must be a function, not {value!r}"
    if origin is Literal:
        return "" if value in arguments else f"must be {' or '.join(map(repr, arguments))}, not {value!r}"
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        if not isinstance(value, (tuple, list)) or len(value) != len(arguments):
            return f"must be {spelled(annotation)}, not {value!r}"
        return _first(problem_of(v, a) for v, a in zip(value, arguments, strict=True))
    if origin in (tuple, list, Sequence):
        if not isinstance(value, (tuple, list)):
            return f"must be {spelled(annotation)}, not {value!r}"
        return _first(problem_of(v, arguments[0]) for v in value)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            return f"must be {spelled(annotation)}, not {value!r}"
        return _first(problem_of(v, a) for item in value.items() for v, a in zip(item, arguments, strict=True))
    if isinstance(annotation, type) and hasattr(annotation, "__config_fields__"):
        return "" if isinstance(value, annotation) else f"must be a {annotation.__qualname__}, not {value!r}"
    return ""


def _first(problems: typing.Iterable[str]) -> str:
    return next((f"has an entry that {p}" for p in problems if p), "")


def spelled(annotation: Any) -> str:
    """An annotation as text for messages: without the metadata of `Annotated`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is type(None):
        return "None"
    if origin is Annotated:
        return spelled(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(spelled, arguments)))
    if origin is Callable:
        return "a function"
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in (tuple, list, Sequence, dict, Mapping):
        inner = ", ".join("..." if a is Ellipsis else spelled(a) for a in arguments)
        return f"{'tuple' if origin is Sequence else origin.__name__.lower()}[{inner}]"
    return getattr(annotation, "__name__", str(annotation))


def frozen(value: Any) -> Any:
    """An immutable copy of a value: tuples for lists, read-only dictionaries, Python numbers for numpy's. An iterator becomes
    empty, because its consumer exhausts it."""
    if isinstance(value, Iterator):
        return ()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return tuple(map(frozen, value))
    if isinstance(value, Mapping):
        return FrozenDict({k: frozen(v) for k, v in value.items()})
    return value


class FrozenDict(dict[Any, Any]):
    """A read-only dictionary."""

    def _refuse(self, *_: Any, **__: Any) -> typing.NoReturn:
        raise TypeError("a configuration cannot be changed; make a copy with other values")

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = _refuse  # type: ignore[assignment]
    __ior__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return self
