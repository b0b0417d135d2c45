"""The environment of passes: the target, and a way to run programs at compile time."""

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
"""Compiles a program to be run at compile time: a function from inputs to outputs. Must not change the program's weight
store."""


class Device(Protocol):
    """The interface of a back end for passes."""

    @property
    def preferences(self) -> Preferences: ...

    @property
    def layouts(self) -> Layouts: ...

    @property
    def name(self) -> str: ...

    @property
    def custom_bodies(self) -> tuple[str, ...]:
        """The kinds of bodies of custom ops that run there, best first (`burn.dialect.custom.BODIES`)."""
        ...


@dataclass(frozen=True)
class Environment:
    """`backend` is None if passes run for no particular target; `evaluate` is None if programs cannot be run."""

    backend: Device | None = None
    evaluate: Evaluate | None = None

    @property
    def preferences(self) -> Preferences:
        return Preferences() if self.backend is None else self.backend.preferences


ANYWHERE = Environment()
"""The environment of passes that need neither a target nor evaluation."""
