"""Fusion: ops that one kernel can compute move into a `burn.group`.

Ops are taken in program order. Each joins the group of one of its operands where the group's kernel can compute it too
(`fusion/joins.py`, a table by the group's kind) and where that makes no cycle between groups; else it starts a group. Loops
that compute its other operands come along. Views and constants cost nothing at any place and are copied into every group that
reads them; a view that something else reads becomes a group of its own (a copy), or stays (a reshape, which is no work). Where
the device wants it, what several groups need is computed again in each rather than stored (`fusion/again.py`), and reductions of
what the same rows hold become one group (`fusion/together.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import settled
from burn.kernels.preferences import Preferences
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.fusion.again import repeat
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.rebuild import Rebuild
from burn.passes.fusion.together import together
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Fuse:
    """`max-ops` bounds a group's size."""

    name: ClassVar[str] = "fuse"
    max_ops: int = 48

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            self.block(program.block, env.preferences)

    def block(self, block: ir.Block, preferences: Preferences) -> None:
        for operation in block.operations:
            if operation.operation.name == "burn.group":
                continue  # fused before
            for region in operation.operation.regions:
                for inner in region.blocks:
                    self.block(inner, preferences)
        choice = Choice(block, self.max_ops, preferences)
        with settled():
            choice.run()
        if preferences.repeat_reads:
            repeat(choice)
        if preferences.sums_together:
            together(choice)
        Rebuild(choice).run()
