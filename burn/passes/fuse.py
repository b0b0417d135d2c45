"""Fusion: moves ops that one kernel can compute into a `burn.group`.

It visits ops in program order. Each joins the group of one of its operands if the group's kernel can compute it and no
cycle between groups results (`fusion/joins.py`, a table by the group's kind). Otherwise it starts a group. Loops that
compute its other operands join the same group. Views and constants cost nothing, so every group that reads them gets a
copy. A view with other readers becomes a group of its own (a copy), or stays (a reshape, which is free). If the target
prefers it, values that several groups need are recomputed in each instead of stored (`fusion/recompute.py`), and reductions
over the same rows become one group (`fusion/horizontal.py`). A matmul with a weight of few bits takes a norm before it, and a
second matmul of the same rows (`fusion/contractions.py`). Loops over different tensors, such as the updates of all
parameters, become one group of kind "foreach" (`fusion/foreach.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import settled
from burn.kernels.preferences import Preferences
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.fusion.assign import assign
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.contractions import fuse_contractions
from burn.passes.fusion.foreach import fuse_foreach
from burn.passes.fusion.horizontal import fuse_horizontally, fuse_small_loops
from burn.passes.fusion.materialize import materialize_views
from burn.passes.fusion.rebuild import Rebuild
from burn.passes.fusion.recompute import repeat
from burn.passes.fusion.recompute_columns import recompute_columns
from burn.passes.fusion.separate import separate
from burn.passes.fusion.transposed import store_transposed
from burn.passes.fusion.updates import updates_of
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Fuse:
    """`max-ops` bounds a group's size."""

    name: ClassVar[str] = "fuse"
    max_ops: int = 48

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            updates = updates_of(program.block, program.renews) if env.preferences.foreach else set()
            self.block(program.block, env.preferences, updates)

    def block(self, block: ir.Block, preferences: Preferences, updates: Collection[ir.Value] = ()) -> None:
        for operation in block.operations:
            if operation.operation.name == "burn.group":
                continue  # fused before
            for region in operation.operation.regions:
                for inner in region.blocks:
                    self.block(inner, preferences)
        store_transposed(block)
        choice = Choice(block, self.max_ops, preferences, updates)
        with settled():
            assign(choice)
        if preferences.repeat_reads:
            repeat(choice)
            recompute_columns(choice)
            separate(choice)
        elif preferences.repeat_dequantised and repeat(choice):
            separate(choice)
        if preferences.fuse_reductions:
            fuse_horizontally(choice)
        if preferences.small_loops:
            fuse_small_loops(choice)
        if preferences.row_reductions:
            fuse_contractions(choice)
        if preferences.foreach:
            fuse_foreach(choice)
        materialize_views(choice)  # an op may have moved to a group that reads its operand from memory
        Rebuild(choice).run()
