"""The table of ops that a fused program may hold, and how the interpreter runs each: `RUNS`.

The modules control, debug, groups, library, lists, strings and views fill it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burn.codegen.reference.machine import Machine

Run = Callable[["Machine", Any], None]


@dataclass(frozen=True)
class Operator:
    """run: reads the op's operands from the machine and gives it the results. computes: profiles list the op."""

    run: Run
    computes: bool


RUNS: dict[str, Operator] = {}


def runs(*names: str, computes: bool = True) -> Callable[[Run], Run]:
    """Registers a function for the ops of these names."""

    def register(function: Run) -> Run:
        RUNS.update(dict.fromkeys(names, Operator(function, computes)))
        return function

    return register
