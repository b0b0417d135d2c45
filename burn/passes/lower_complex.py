"""Replaces complex tensors by pairs of real ones.

The pass runs first, so that every other pass and every back end sees real tensors alone. Inputs and outputs keep their complex
types: numpy and PyTorch store the parts interleaved, so `view_as_real` of an input and `view_as_complex` of an output are the
same memory. In between a complex tensor is two real ones, also in loops and conditionals. Kernels then vectorise over elements. A
part that nothing uses is not computed.

A program without complex values is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.complexes.lowering import Lowering, needs_lowering
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.query import erase_dead
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class LowerComplex:
    """Raises CompileError naming every op that takes no complex tensors."""

    name: ClassVar[str] = "lower_complex"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            if needs_lowering(program):
                erase_dead(program.block)
                Lowering(program).run()
                erase_dead(program.block)
