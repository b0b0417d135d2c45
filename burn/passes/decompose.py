"""Decomposes composites into other ops, until only primitives are left.

`keep` names composites that a later pass or the back end handles as a whole, and the features of composites
(`Op.kernel_features`) that it supports. `only` restricts the pass to the named ones.

A custom op (`burn.custom_op`) with several bodies gets the one that the back end prefers. Its burn functions replace the op. An
op with another body stays, and an attribute names that body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.passes.custom_bodies import choose_bodies
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Decompose:
    """Expands every op with a `decompose`, including those in nested regions, until no composite remains."""

    name: ClassVar[str] = "decompose"
    keep: str = ""  # names joined by "+"
    only: str = ""

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            self._block(program.block, frozenset(self.keep.split("+")), frozenset(filter(None, self.only.split("+"))))
            while not self.only and choose_bodies(program, env):
                self._block(program.block, frozenset(self.keep.split("+")), frozenset())

    def _block(self, block: ir.Block, kept: frozenset[str], wanted: frozenset[str]) -> None:
        """Repeats until nothing changes: an expansion may contain composites."""
        while composites := [o.opview for o in block.operations if _expands(o.opview, kept, wanted)]:
            for op in composites:
                expand(op)
        for operation in block.operations:
            for region in operation.operation.regions:
                for inner in region.blocks:
                    self._block(inner, kept, wanted)


def _expands(op: ir.OpView, kept: frozenset[str], wanted: frozenset[str]) -> bool:
    if not isinstance(op, Op) or op.decompose is None or kept.issuperset((op.OP_NAME, *op.kernel_features())):
        return False
    return not wanted or op.OP_NAME in wanted


def expand(op: Op) -> None:
    """Replaces one composite by its decomposition."""
    operation = op.operation
    with operation.location, ir.InsertionPoint(operation):
        assert op.decompose is not None
        values = op.decompose(*op.args, **op.attrs)
    values = [values] if isinstance(values, ir.Value) else list(values)
    for old, new in zip(operation.results, values, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
