"""Limits the memory of intermediate values by recomputation: the backward pass recomputes forward values until the rest
fits. Values with the least arithmetic per byte come first: norms and activations, then matmuls, then attention.

Bytes are counted at given sizes by the runtime's memory planner, on a copy of the program after the later passes. As
that is slow, most choices are compared by an estimate (`sketch.py`), corrected by the planner. Runs after
`rematerialise`, which recomputes values that cost less than keeping them.
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
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.sketch import Sketch, apply
from burn.runtime import _native

LATER = "fuse,release,donate"
"""The passes after this one that form kernels."""

STOPS = 24
"""The number of choices that are estimated before the best of them is refined."""

TRIES = 6
"""The most programs that the planner evaluates."""


@register
@dataclass(frozen=True)
class Recompute:
    """`memory`: the most bytes of results that are not outputs. `at`: the sizes at which they are counted, such as
    "batch:8+length:128". Values of fewer than `least` bytes, or read at most `far` ops later, are kept. Raises
    CompileError if the memory does not suffice, with the least that was found."""

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
        """The value of a size at `at`."""
        return dim if isinstance(dim, int) else estimate(substitute(dim, self.sizes))


class _Search:
    """Searches the number of candidates to drop, in order. slack: the planner's result above the estimate."""

    def __init__(self, options: Recompute, program: Program, env: Environment) -> None:
        self.options, self.program, self.env = options, program, env
        self.sketch = options.sketch(program)
        self.order: Sequence[int] = self.sketch.candidates(options.least)
        self._estimates: dict[int, int] = {}
        self.planned: dict[int, int] = {}

    def dropped(self, count: int) -> frozenset[int]:
        return frozenset(self.order[:count])

    def count(self) -> int:
        """The number of dropped candidates for which the planner's result fits. Raises CompileError."""
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
        """The fewest candidates for which the estimate fits; if none, those with the least estimate that are not tried
        yet."""
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
        """The bytes of the arena, as the runtime plans it."""
        program = self.program.copy()
        sketch = self.options.sketch(program)
        apply(sketch, sketch.steps(self.dropped(count)))
        pipeline.run(pipeline.parse(LATER), program, self.env)
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
