"""The ops allowed in a fused program, with the printer of each into the entry function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder

Emit = Callable[["EntryBuilder", Any], None]
EMITTERS: dict[str, Emit] = {}


def emits(*names: str) -> Callable[[Emit], Emit]:
    def register(function: Emit) -> Emit:
        for name in names:
            EMITTERS[name] = function
        return function

    return register
