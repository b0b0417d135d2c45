"""Errors for arguments of wrong types: `topk: k is an integer or a size, not 'a'`. Start at `explaining`.

Functions of tensors do not check the Python types of sizes, axes and numbers, so that calls stay fast.
If one fails, its arguments are compared with its annotations. The error then names the first argument that does not fit.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from burn.dialect.dims import Expr
from burn.errors import BurnError, WrongArgument

INTERNAL = (TypeError, ValueError, AttributeError, LookupError, AssertionError, OverflowError)
"""Exceptions of Python that wrong types cause. Errors of burn are raised unchanged, except for WrongArgument, which may name an
internal function."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Number, np.generic)) or _is_size(value) or hasattr(value, "dtype")


def _is_size(value: Any) -> bool:
    if isinstance(value, Expr) or hasattr(value, "dtype"):
        return True
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _are_sizes(value: Any) -> bool:
    return _is_list(value) and all(_are_sizes(each) if _is_list(each) else _is_size(each) for each in value)


def _are_numbers(value: Any) -> bool:
    return _is_list(value) and all(_is_number(each) for each in value)


Kind = tuple[str, Callable[[Any], bool]]

INTEGER: Kind = ("an integer", _is_size)
SIZE: Kind = ("an integer or a size", _is_size)
TENSOR: Kind = ("a tensor", lambda value: hasattr(value, "dtype"))
INTEGERS: Kind = ("a list of integers", _are_sizes)
SIZES: Kind = ("a list of sizes", _are_sizes)

KINDS: Mapping[str, Kind] = {
    "int": INTEGER,
    "Dim": SIZE,
    "float": ("a number", _is_number),
    "bool": ("True or False", lambda value: isinstance(value, (bool, np.bool_))),
    "str": ("a text", lambda value: isinstance(value, str)),
    "None": ("None", lambda value: value is None),
    "Sequence[int]": INTEGERS,
    "tuple[int, int]": INTEGERS,
    "Sequence[Dim]": SIZES,
    "Sequence[float]": ("a list of numbers", _are_numbers),
    "Sequence[Any]": ("a list", _is_list),
    "Base": TENSOR,
    "Tensor": TENSOR,
    "Shape": ("a size or a list of sizes", lambda value: _is_size(value) or _are_sizes(value)),
    "Axes": ("an integer or a list of integers, or None", lambda v: v is None or _is_size(v) or _are_sizes(v)),
}
"""Annotations and the values that they allow. A parameter with another annotation is not compared."""

SEVERAL = {"shape": SIZES, "sizes": SIZES, "repeats": SIZES, "axes": INTEGERS}
"""Parameters that take one list or several arguments, by name."""

WIDTHS = frozenset(("widths",))
"""Parameters that take one size or nested lists of sizes, by name."""


def explaining(function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """The function, whose errors name arguments of wrong types; itself if no parameter can be compared. name: in errors."""
    checks = checks_of(function)
    if not checks:
        return function

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except INTERNAL as error:
            if isinstance(error, BurnError) and not isinstance(error, WrongArgument):
                raise
            wrong = wrong_argument(function, checks, args, options)
            if wrong is None:
                raise
            raise WrongArgument(f"burn.{name or function.__name__}: {wrong}") from None

    return call


def explain_all(names: dict[str, Any], within: str) -> None:
    """Makes the public functions of a module `explaining` ones. names: its globals. within: what is before a name in errors."""
    for name, value in list(names.items()):
        if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == names["__name__"]:
            names[name] = explaining(value, f"{within}.{name}")


@functools.lru_cache(1024)
def checks_of(function: Callable[..., Any]) -> dict[str, tuple[str, tuple[Kind, ...]]]:
    """The text and the kinds of each parameter that can be compared."""
    found: dict[str, tuple[str, tuple[Kind, ...]]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            if parameter.name in SEVERAL:
                kind = SEVERAL[parameter.name]
                found[parameter.name] = kind[0], (kind,)
            continue
        if parameter.name in WIDTHS:
            found[parameter.name] = f"{SIZE[0]}, or {SIZES[0]}", (SIZE, SIZES)
            continue
        words = [word.strip() for word in str(parameter.annotation).split(" | ")]
        if all(word in KINDS for word in words) and words != ["bool"]:
            kinds = tuple(KINDS[word] for word in words)
            found[parameter.name] = " or ".join(dict.fromkeys(text for text, _ in kinds)), kinds
    return found


def wrong_argument(
    function: Callable[..., Any],
    checks: Mapping[str, tuple[str, tuple[Kind, ...]]],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
) -> str | None:
    """The first argument of a wrong type, as text; None if all fit."""
    try:
        given = inspect.signature(function).bind(*args, **options).arguments
    except TypeError:
        return None
    for name, (text, kinds) in checks.items():
        if name in given and not any(fits(given[name]) for _, fits in kinds):
            return f"{name} is {text}, not {_shown(name, given[name])}"
    return None


def _shown(name: str, value: Any) -> str:
    """A value as the caller wrote it."""
    shown = value[0] if name in SEVERAL and isinstance(value, tuple) and len(value) == 1 else value
    return f"{shown!r:.80}"
