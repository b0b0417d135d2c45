"""Packs weights of a few bits in words that are contiguous along the depth, as GPU kernels read them.

Each form of a `block_dot` that the pass `blocks` keeps becomes a `packed_block_dot` with panels of one column. Constant folding
computes the packed weight. The row operand keeps its type: tensor cores multiply half precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.blocks import BlockDot
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.passes.block_panels import packed
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class BlockWords:
    """See the module's docstring."""

    name: ClassVar[str] = "block_words"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Op) and isinstance(op, BlockDot):
                        with operation.operation.location, ir.InsertionPoint(operation.operation):
                            made = packed(op, lambda matmul: 1, keep_type=True)
                        op.operation.results[0].replace_all_uses_with(made)
                        operation.operation.erase()
