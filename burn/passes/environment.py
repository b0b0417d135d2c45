"""What a compilation tells its passes: the machine that is compiled for, and how a program is run while compiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from burn.dialect.program import Program

if TYPE_CHECKING:
    import numpy as np

Evaluate = Callable[[Program], "Callable[..., Sequence[np.ndarray]]"]
"""Compiles a program to be run while compiling; what it gives takes the inputs and gives the outputs. Must leave the
program's weight store as it is."""


class Machine(Protocol):
    """What passes know of a target."""

    @property
    def vector_bytes(self) -> int: ...


@dataclass(frozen=True)
class Environment:
    """`target` is None where passes run for no machine in particular; `evaluate` where nothing can be run."""

    target: Machine | None = None
    evaluate: Evaluate | None = None


ANYWHERE = Environment()
"""For passes that need neither."""
