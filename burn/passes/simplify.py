"""Simplification: applies the laws of `burn.passes.algebra` to a fixed point, with CSE and dead code elimination.

Each round applies every law to every op in program order, merges equal ops and erases unused ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.query import erase_dead
from burn.passes import algebra
from burn.passes.algebra import control
from burn.passes.algebra.law import LAWS, WHOLE, Rewriter
from burn.passes.cleanup import merge_equal
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import LIMIT, Counts, register


@register
@dataclass(frozen=True)
class Simplify:
    """Without `absorb`, constant factors do not move into weights, so that `recognise` finds its formulas whole.
    `rounds` bounds the sweeps over a program. If it still changes in the last one, it is correct but not fully
    simplified; the pass reports that it stopped at its limit."""

    name: ClassVar[str] = "simplify"
    absorb: bool = True
    rounds: int = 12

    def run(self, program: Program, env: Environment = ANYWHERE) -> Counts:
        algebra.load()
        with context():
            rewriter = Rewriter(LAWS if self.absorb else WHOLE, program.weights)
            merge_equal(program)
            rounds = applied = 0
            changed = 1
            while changed and rounds < self.rounds:
                changed = rewriter.sweep(program.block) + control.resolve(program)
                erase_dead(program.block)
                if changed:
                    merge_equal(program)
                rounds, applied = rounds + 1, applied + changed
        return {"rounds": rounds, "laws applied": applied, LIMIT: int(changed > 0)}
