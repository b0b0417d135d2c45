"""What a compilation tells its passes: the machine that is compiled for, and how a program is run while compiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from burn.dialect.program import Program
from burn.kernels.wants import Convolution, Product, Wants

if TYPE_CHECKING:
    import numpy as np

Evaluate = Callable[[Program], "Callable[..., Sequence[np.ndarray]]"]
"""Compiles a program to be run while compiling; what it gives takes the inputs and gives the outputs. Must leave the
program's weight store as it is."""


class Device(Protocol):
    """What passes ask of a back end."""

    @property
    def wants(self) -> Wants: ...

    @property
    def byte_run(self) -> int: ...

    def panel(self, product: Product) -> int: ...

    def at_points(self, convolution: Convolution, pays: bool) -> bool: ...


@dataclass(frozen=True)
class Environment:
    """`backend` is None where passes run for no device in particular; `evaluate` where nothing can be run."""

    backend: Device | None = None
    evaluate: Evaluate | None = None

    @property
    def wants(self) -> Wants:
        return Wants() if self.backend is None else self.backend.wants


ANYWHERE = Environment()
"""For passes that need neither."""
