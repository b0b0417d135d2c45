"""Deprecation of public names and arguments: `deprecated` and `renamed`. docs/dev/versions.md states the policy.

    @deprecated(since="0.3", removed="0.5", instead="burn.load")
    def open_model(path): ...

    @renamed(axis="dim", since="0.3", removed="0.5")      # the argument that was called dim is now called axis
    def total(x, axis=None): ...

A call warns with DeprecationWarning at the caller's line. `KNOWN` lists everything that is deprecated. A test fails if a name
is still there in the version that was to remove it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Deprecation:
    """name: of a function, class or argument ("burn.total(dim)"). since, removed: versions. instead: the new name."""

    name: str
    since: str
    removed: str
    instead: str

    def __str__(self) -> str:
        return f"{self.name} is deprecated since burn {self.since} and will be removed in {self.removed}; use {self.instead}"

    def warn(self, stacklevel: int = 3) -> None:
        """Warns at the line of the caller `stacklevel` frames up."""
        warnings.warn(str(self), DeprecationWarning, stacklevel=stacklevel)


KNOWN: list[Deprecation] = []


def deprecated(*, since: str, removed: str, instead: str) -> Callable[[_F], _F]:
    """Decorates a function, method or class that another one replaces. Calls warn; the docstring says so."""

    def decorate(target: _F) -> _F:
        notice = _known(_name(target), since, removed, instead)
        text = f"{target.__doc__ or ''}\n\nDeprecated: {notice}."
        if isinstance(target, type):
            _wrap_constructor(target, notice)
            target.__doc__ = text
            return target  # type: ignore[return-value]

        @functools.wraps(target)
        def warned(*args: Any, **kwargs: Any) -> Any:
            notice.warn()
            return target(*args, **kwargs)

        warned.__doc__ = text
        return warned  # type: ignore[return-value]

    return decorate


def renamed(*, since: str, removed: str, **names: str) -> Callable[[_F], _F]:
    """Decorates a function whose arguments have new names: `new="old"`. The old names warn. A call with both is a TypeError."""

    def decorate(function: _F) -> _F:
        notices = {
            old: (new, _known(f"{_name(function)}({old})", since, removed, f"the argument {new}"))
            for new, old in names.items()
        }

        @functools.wraps(function)
        def moved(*args: Any, **kwargs: Any) -> Any:
            for old in notices.keys() & kwargs.keys():
                new, notice = notices[old]
                if new in kwargs:
                    raise TypeError(f"{function.__name__}() got both '{new}' and its old name '{old}'")
                notice.warn()
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return moved  # type: ignore[return-value]

    return decorate


def _known(name: str, since: str, removed: str, instead: str) -> Deprecation:
    notice = Deprecation(name, since, removed, instead)
    KNOWN.append(notice)
    return notice


def _name(target: Any) -> str:
    return f"{target.__module__}.{target.__qualname__}"


def _wrap_constructor(cls: type, notice: Deprecation) -> None:
    made = cls.__init__

    @functools.wraps(made)
    def warned(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is cls:  # a subclass is another class
            notice.warn()
        made(self, *args, **kwargs)

    cls.__init__ = warned  # type: ignore[misc]
