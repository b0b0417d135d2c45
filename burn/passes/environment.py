"""The environment of passes: the back end that is compiled for, and how a program is run while compiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from burn.dialect.program import Program
from burn.kernels.layouts import Layouts
from burn.kernels.preferences import Preferences

if TYPE_CHECKING:
    import numpy as np

Evaluate = Callable[[Program], "Callable[..., Sequence[np.ndarray]]"]
"""Compiles a program to be run while compiling; what it gives takes the inputs and gives the outputs. Must leave the
program's weight store as it is."""


class Device(Protocol):
    """The properties of a back end that passes query."""

    @property
    def preferences(self) -> Preferences: ...

    @property
    def layouts(self) -> Layouts: ...


@dataclass(frozen=True)
class Environment:
    """`backend` is None where passes run for no device in particular; `evaluate` where nothing can be run."""

    backend: Device | None = None
    evaluate: Evaluate | None = None

    @property
    def preferences(self) -> Preferences:
        return Preferences() if self.backend is None else self.backend.preferences


ANYWHERE = Environment()
"""For passes that need neither."""
