"""Where the layers' random numbers come from: a seed and a count of what was drawn with it, one for the process.

Each draw has a stream of its own: initial weights take numpy's generator for it when they are first wanted (the draw is numbered
when the parameter is made, so that the order of use does not matter), dropout takes it as the key of the dialect's random ops.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from burn.errors import TypeMismatch
from burn.importers.trace import active
from burn.tensor import Tensor, from_numpy


@dataclass
class Generator:
    """Numbers its draws: (seed, 0), (seed, 1), ... Any number of threads may draw."""

    seed: int = 0
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def reset(self, seed: int) -> None:
        with self._lock:
            self.seed, self.count = seed, 0

    def draw(self) -> tuple[int, int]:
        with self._lock:
            self.count += 1
            return self.seed, self.count - 1


_process = Generator()


def manual_seed(seed: int) -> None:
    """What is drawn from here on, initial weights and dropout, is the same for the same seed."""
    if not isinstance(seed, int) or seed < 0:
        raise TypeMismatch("a seed is a number >= 0", [f"not {seed!r}"])
    _process.reset(seed)


def draw() -> tuple[int, int]:
    """The name of a stream of random numbers that nothing else has."""
    return _process.draw()


def key(user: str) -> Tensor:
    """A key for the dialect's random ops, uint32[2]. Raises TypeMismatch in a traced function, where it would be a constant and
    every run would see the same numbers."""
    if active() is not None:
        raise TypeMismatch(
            f"{user} in training mode draws random numbers, which a compiled function takes as an input",
            ["call .eval() on the module before it is compiled, or give the layer a `key` (uint32[2]) in its call"],
        )
    return from_numpy(np.random.default_rng(draw()).integers(0, 2**32, 2, np.uint32))
