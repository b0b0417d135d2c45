"""Where programs that draw random numbers get their state: a seed, and a number that is new at each call.

`process` is this process's generator, which `burn.manual_seed` sets; an executable draws from it until it is given a
seed of its own (`Executable.seed`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from burn.errors import TypeMismatch

Source = Callable[[], tuple[int, int]]
"""Gives a seed and a number, each below 2**64, which together are new at each call."""


class Generator:
    """Numbers its draws from a seed on. Any number of threads may draw."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self.reset(seed)

    def reset(self, seed: int) -> None:
        with self._lock:
            self.seed, self.count = checked_seed(seed), 0

    def draw(self) -> tuple[int, int]:
        """The seed, and a number that was not given before."""
        with self._lock:
            self.count += 1
            return self.seed, self.count - 1

    def go_to(self, position: tuple[int, int]) -> None:
        """Continues from an earlier value of `position`."""
        seed, count = checked_seed(position[0]), checked_seed(position[1])
        with self._lock:
            self.seed, self.count = seed, count

    @property
    def position(self) -> tuple[int, int]:
        """The seed, and how many draws were made from it."""
        with self._lock:
            return self.seed, self.count

    @contextmanager
    def from_position(self, position: tuple[int, int]) -> Iterator[None]:
        """Replays the draws after `position` inside the block, and then restores the present position."""
        with self._lock:
            before = self.seed, self.count
            self.seed, self.count = position
        try:
            yield
        finally:
            with self._lock:
                self.seed, self.count = before


def checked_seed(seed: int) -> int:
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise TypeMismatch("a seed is a number from 0 to 2**64 - 1", [f"not {seed!r}"])
    return seed


process = Generator(int.from_bytes(os.urandom(8), "little"))
