"""Splits ensembles of trees by depth, for devices that walk all trees of an ensemble to the same depth.

`burn.tree_leaves` is decomposed into as many steps as its deepest tree has. A few deep trees would make all others take these
steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.trees import TreeLeaves
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops

LANES = 16
"""Trees of a part are a multiple, so that vectors are full."""

PART = 256
"""A further part costs as much as so many steps of one tree."""


@register
@dataclass(frozen=True)
class SplitTrees:
    """Runs before `tree_leaves` is decomposed. Trees stay in their order, so importers put deep trees first."""

    name: ClassVar[str] = "split_trees"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        return {"split": replace_ops(program, TreeLeaves, _split)}


def _split(op: TreeLeaves) -> ir.Value | None:
    found = parts(op.depths)
    if len(found) < 2:
        return None
    with op.operation.location, ir.InsertionPoint(op.operation):
        return ops.concat([_part(op, start, stop) for start, stop in found], axis=1)


def _part(op: TreeLeaves, start: int, stop: int) -> ir.Value:
    """The leaves of some trees."""
    roots = ops.slice(op.roots, starts=(start,), sizes=(stop - start,), steps=(1,))
    return ops.tree_leaves(
        op.x, op.nodes, roots, op.sets, depths=op.depths[start:stop], features=op.features, comparison=op.comparison
    )


def parts(depths: tuple[int, ...]) -> list[tuple[int, int]]:
    """Ranges of trees, each walked as deep as its deepest tree: those with the fewest steps in all."""
    count = len(depths)
    ends = [*range(0, count, LANES), count]
    best: dict[int, tuple[float, list[tuple[int, int]]]] = {0: (0.0, [])}
    for stop in ends[1:]:
        deepest, choices = 0, []
        for start in reversed([end for end in ends if end < stop]):
            deepest = max(deepest, *depths[start : min(stop, start + LANES)])
            cost, before = best[start]
            choices.append((cost + (stop - start) * deepest + PART, [*before, (start, stop)]))
        best[stop] = min(choices, key=lambda choice: choice[0])
    return best[count][1]
