"""Attention results that are read both transposed and by their gradient are stored transposed alone.

The next matmul reads heads beside each other, [batch, row, head, column]; the gradient reads [batch, head, row, column]. Both
have the same contiguous axis, so the gradient's kernel reads the transposed result, and no kernel copies it.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Transpose
from burn.dialect.traits import Trait


def store_transposed(block: ir.Block) -> None:
    """Lets gradients read attention's results through the transpose that another op reads. The transpose keeps the last axis and
    precedes them in the block."""
    found = [o.opview for o in block.operations if isinstance(o.opview, Transpose)]
    for transpose in found:
        attention = op_of(transpose.operation.operands[0])
        if attention is None or attention.KERNEL != "attention" or not _keeps_last(transpose):
            continue
        stored: ir.Value = transpose.operation.operands[0]
        others = [u.owner for u in stored.uses if u.owner != transpose.operation]
        if not others or not all(_is_gradient(o) and _precedes(transpose, o) for o in others):
            continue
        order = transpose.permutation
        with transpose.operation.location, ir.InsertionPoint.after(transpose.operation):
            back = ops.transpose(
                transpose.operation.results[0], permutation=tuple(order.index(i) for i in range(len(order)))
            )
        for other in others:
            for number, operand in enumerate(other.operands):
                if operand == stored:
                    other.operands[number] = back


def _keeps_last(op: Transpose) -> bool:
    return op.permutation[-1] == len(op.permutation) - 1


def _is_gradient(operation: ir.Operation | ir.OpView) -> bool:
    op = operation.operation.opview
    return isinstance(op, Op) and op.has(Trait.ATTENTION) and op.KERNEL == "attention_gradient"


def _precedes(first: Op, second: ir.Operation | ir.OpView) -> bool:
    return first.operation.block == second.operation.block and first.operation.is_before_in_block(second.operation)
