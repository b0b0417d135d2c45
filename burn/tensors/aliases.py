"""Argument names of other libraries: `x.sum(dim=0, keepdim=True)` is `x.sum(axis=0, keepdims=True)`.

One mechanism serves every function: if the function lacks an argument but has its alias, the alias is used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from burn.tensors.argument_types import explaining

T = TypeVar("T", bound=type)

MEANINGS = {
    "dim": "axis",
    "dims": "axes",
    "keepdim": "keepdims",
    "dim0": "first",
    "dim1": "second",
    "correction": "ddof",
}
"""torch's names, and burn's."""


def accepting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with aliases for its arguments, and errors that name arguments of wrong types."""
    own = inspect.signature(function).parameters
    function = explaining(function)
    names = {word: meaning for word, meaning in MEANINGS.items() if meaning in own and word not in own}
    if not names:
        return function

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if options and not names.keys().isdisjoint(options):
            for word in names.keys() & options.keys():
                if names[word] in options:
                    raise TypeError(f"{function.__name__}() is given both '{word}' and '{names[word]}', which are one")
                options[names[word]] = options.pop(word)
        return function(*args, **options)

    return call


def accepted(cls: T) -> T:
    """A class whose methods, including inherited ones, accept aliases."""
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        if not name.startswith("_") and inspect.isfunction(method):
            other = accepting(method)
            if other is not method:
                setattr(cls, name, other)
    return cls
