"""Packs weights of a few bits as GPU kernels read them.

They are fragments of tensor cores (`block_fragments.py`) if the target has them and rows are in half precision. Otherwise they
are words that are contiguous along the depth.

Each form of a `block_dot` that the pass `blocks` keeps becomes a `packed_block_dot`; words are panels of one column. Constant
folding computes the packed weight. The row operand keeps its type: tensor cores multiply half precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.blocks import BlockDot
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.passes.block_fragments import fits, in_fragments
from burn.passes.block_panels import packed
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class BlockWords:
    """See the module's docstring."""

    name: ClassVar[str] = "block_words"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        fragments = env.backend is not None and env.backend.layouts.fragments
        with context():
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Op) and isinstance(op, BlockDot):
                        with operation.operation.location, ir.InsertionPoint(operation.operation):
                            whole = fragments and fits(op)
                            made = in_fragments(op) if whole else packed(op, lambda matmul: 1, keep_type=True)
                        op.operation.results[0].replace_all_uses_with(made)
                        operation.operation.erase()
