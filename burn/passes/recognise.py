"""Recognition: replaces the small ops that an exporter wrote by the composite that they implement
(`burn.passes.patterns`).

Graphs of old exporters then run like those of new ones, back ends find the ops that they have kernels for, and imported
source stays readable. A composite that nothing claims is decomposed again into the same arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.query import erase_dead
from burn.passes import patterns
from burn.passes.algebra.law import Rewriter
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.patterns.match import PATTERNS
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Recognise:
    """Replaces written-out activations, normalisations and attention by composites. Expects simplified programs.

    Numbers change only by rounding, with two exceptions. Attention rows without any unmasked key are zero, where a softmax
    without a guard gives NaN. A causal mask of finite numbers hides all later keys (`Preferences.finite_masks`).
    """

    name: ClassVar[str] = "recognise"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        patterns.load()
        with context():
            while Rewriter(PATTERNS, program.weights, env.preferences).sweep(program.block):
                erase_dead(program.block)
            erase_dead(program.block)
