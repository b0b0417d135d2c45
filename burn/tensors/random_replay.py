"""Replay of random numbers: a block that is recomputed must draw the same numbers both times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from burn.dialect.program import Program
from burn.runtime.random import process
from burn.tensors.tracer import active


@dataclass(frozen=True)
class Draws:
    """State of the random numbers. In a program: the number of draws so far and the iterations of the surrounding loops.
    Elsewhere: the position of the process's generator."""

    program: Program | None
    iterations: tuple[Any, ...]
    at: Any

    @staticmethod
    def now() -> Draws:
        tracer = active()
        if tracer is None:
            return Draws(None, (), process.position)
        return Draws(tracer.program, *tracer.program.random_position)

    @contextmanager
    def again(self, iterations: Sequence[Any]) -> Iterator[None]:
        """Draws inside repeat the draws that followed this state. iterations: the surrounding loops' iterations as values of
        the present region."""
        if self.program is None:
            with process.from_position(self.at):
                yield
            return
        with self.program.replaying(tuple(iterations), self.at):
            yield
