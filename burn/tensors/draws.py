"""Random numbers drawn again: a block that is computed twice must draw the same ones both times."""

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
    """Where drawing stands: in a program the number of places that draw, and the iterations of the loops around; elsewhere the
    process's generator."""

    program: Program | None
    iterations: tuple[Any, ...]
    at: Any

    @staticmethod
    def now() -> Draws:
        tracer = active()
        if tracer is None:
            return Draws(None, (), process.place)
        return Draws(tracer.program, *tracer.program.place)

    @contextmanager
    def again(self, iterations: Sequence[Any]) -> Iterator[None]:
        """What draws inside draws what it did from here on. iterations: as they are called now."""
        if self.program is None:
            with process.from_place(self.at):
                yield
            return
        with self.program.from_place(tuple(iterations), self.at):
            yield
