"""Keeps what a program makes meanwhile within so many bytes: what the way back wants of the way forward is computed again there
until the rest fits, where that takes the least arithmetic for a byte first: norms and activations, then products, then attention.

Bytes are counted at given sizes, by the runtime's own planner, on a copy of the program that the passes behind this one have made
kernels of. As that takes a while, most choices are compared by an estimate (`again.py`), which is corrected by what the planner
says. Runs behind `rematerialise`, which computes again what costs less than to keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from burn.dialect.dims import Atom, Dim, Symbol, estimate, substitute
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import type_of
from burn.errors import CompileError, Problem
from burn.kernels.liveness import Liveness
from burn.passes import pipeline
from burn.passes.again import Sketch, apply
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.runtime import _native

BEHIND = "fuse,release,donate"
"""The passes that make kernels of what this one leaves."""

STOPS = 24
"""Choices that are estimated before the best of them is looked for more closely."""

TRIES = 6
"""Programs that the planner is asked about."""


@register
@dataclass(frozen=True)
class Recompute:
    """`memory`: bytes that results take which are no outputs, at most. `at`: the sizes at which they are counted, as
    "batch:8+length:128". A value of fewer than `least` bytes is kept, and one that is read no more than `far` ops later. Raises
    CompileError where the memory does not suffice, with the least that was found."""

    name: ClassVar[str] = "recompute"
    memory: int = 0
    at: str = ""
    least: int = 65536
    far: int = 32

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            search = _Search(self, program, env)
            apply(search.sketch, search.sketch.steps(search.dropped(search.count())))

    def sketch(self, program: Program) -> Sketch:
        return Sketch(program.block, self.count, self.far)

    @cached_property
    def sizes(self) -> dict[Atom, Dim]:
        pairs = (pair.split(":") for pair in self.at.split("+") if pair)
        return {Symbol(name): int(size) for name, size in pairs}

    def count(self, dim: Dim) -> int:
        """What a size comes out as."""
        return dim if isinstance(dim, int) else estimate(substitute(dim, self.sizes))


class _Search:
    """How many of the candidates, in their order, are not kept. slack: what the planner says above the estimate."""

    def __init__(self, options: Recompute, program: Program, env: Environment) -> None:
        self.options, self.program, self.env = options, program, env
        self.sketch = options.sketch(program)
        self.order: Sequence[int] = self.sketch.candidates(options.least)
        self._estimates: dict[int, int] = {}
        self.planned: dict[int, int] = {}

    def dropped(self, count: int) -> frozenset[int]:
        return frozenset(self.order[:count])

    def count(self) -> int:
        """With how many of them the memory suffices, by the planner's word. Raises CompileError."""
        memory, count = self.options.memory, 0
        while self._plan(count) > memory and len(self.planned) < TRIES:
            count = self._next(self.planned[count] - self._estimate(count))
            if count in self.planned:
                break
        fitting = [n for n, size in self.planned.items() if size <= memory]
        if not fitting:
            raise self._refused(min(self.planned.values()))
        return min(fitting)

    def _next(self, slack: int) -> int:
        """The fewest candidates with which the estimate fits; where none does, those with the least that are not tried yet."""
        fits = self.options.memory - slack
        stops = sorted({len(self.order) * i // STOPS for i in range(STOPS + 1)})
        for below, above in pairwise(stops):
            if self._estimate(above) <= fits:
                while above - below > 1:
                    middle = (below + above) // 2
                    below, above = (below, middle) if self._estimate(middle) <= fits else (middle, above)
                return above
        return min((n for n in stops if n not in self.planned), key=self._estimate, default=0)

    def _estimate(self, count: int) -> int:
        if count not in self._estimates:
            self._estimates[count] = max(self.sketch.alive(self.sketch.steps(self.dropped(count))), default=0)
        return self._estimates[count]

    def _plan(self, count: int) -> int:
        """The bytes of the arena, as the runtime will plan it."""
        program = self.program.copy()
        sketch = self.options.sketch(program)
        apply(sketch, sketch.steps(self.dropped(count)))
        pipeline.run(pipeline.parse(BEHIND), program, self.env)
        live = Liveness(program.block)
        outputs = live.written_directly(program.outputs)
        buffers = [v for v in live.buffers if v not in outputs]
        sizes = [max(0, self.options.count(type_of(v).bytes)) for v in buffers]
        self.planned[count] = _native.plan([live.range(v) for v in buffers], sizes)[1]
        return self.planned[count]

    def _refused(self, least: int) -> CompileError:
        at = self.options.at.replace(":", "=").replace("+", ", ")
        problem = f"{least / 1e6:.4g} MB is the least that was found, {self.options.memory / 1e6:.4g} MB is asked for"
        hint = "take a smaller batch, or blocks under burn.checkpoint, of which only arguments and results are kept"
        where = f" at {at}" if at else ""
        return CompileError(f"what is made on the way does not fit the memory{where}", [Problem(problem, hint=hint)])
