"""Checks for NaN and infinity after every op that computes floats: `burn.debug.nans`.

The pass runs before all others, on the ops of the user's code or the model's file. Each check has its op's location, so that
an error names the op and the line. Constants, views and control flow compute no numbers and are not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.debug import CheckFinite
from burn.dialect.locations import PROGRAM, source_name
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import erase_dead
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

CHECKED = ("float64", "float32", "float16", "bfloat16")


@register
@dataclass(frozen=True)
class Nans:
    """Ends a run at the first op that produces a NaN from operands without one; with `infinite` also an infinity."""

    name: ClassVar[str] = "nans"
    infinite: bool = False

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            erase_dead(program.block)
            self._block(program.block)

    def _block(self, block: ir.Block) -> None:
        for operation in list(block.operations):
            op = operation.opview
            if len(operation.operation.regions):
                for region in operation.operation.regions:
                    for inner in region.blocks:
                        self._block(inner)
            elif isinstance(op, Op) and op.PURE and not op.has(Trait.VIEW | Trait.CONSTANT | Trait.STORED):
                self._check(op)

    def _check(self, op: Op) -> None:
        results = [v for v in op.operation.results if type_of(v).dtype in CHECKED]
        operands = [v for v in dict.fromkeys(op.operation.operands) if type_of(v).dtype in CHECKED]
        if not results:
            return
        with _located(op), ir.InsertionPoint.after(op.operation):
            CheckFinite.build([*results, *operands], made=len(results), infinite=self.infinite)


def _located(op: Op) -> ir.Location:
    """The op's location, under the op's own name if no module and no node names it."""
    location, name = op.operation.location, source_name(op)
    if name != PROGRAM:
        return location
    return ir.Location.name(op.OP_NAME, location.child_loc if isinstance(location, ir.NameLoc) else None)
