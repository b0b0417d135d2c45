"""Hooks: functions called before or after a module, which may observe or replace its arguments and results."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

Before = Callable[[Any, tuple[Any, ...]], Any]
After = Callable[[Any, tuple[Any, ...], Any], Any]


class Hooks:
    """A module's hooks, in the order in which they were registered."""

    def __init__(self) -> None:
        self.before: dict[int, Before] = {}
        self.after: dict[int, After] = {}

    def arguments(self, module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self.before.values()):
            other = hook(module, args)
            if other is not None:
                args = other if isinstance(other, tuple) else (other,)
        return args

    def result(self, module: Any, args: tuple[Any, ...], result: Any) -> Any:
        for hook in list(self.after.values()):
            other = hook(module, args, result)
            result = result if other is None else other
        return result


class Handle:
    """Removes a hook."""

    _numbers = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> None:
        self._hooks, self._number = hooks, next(self._numbers)
        hooks[self._number] = hook

    def remove(self) -> None:
        self._hooks.pop(self._number, None)
