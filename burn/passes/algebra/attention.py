"""Attention that is computed twice: for its result and for its backward pass."""

from __future__ import annotations

from burn.dialect.attention_gradient import AttentionForward
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.passes.algebra.law import Rewriter, law


@law("attention")
def keep_residuals(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """attention(q, k, v) = the first of attention_forward(q, k, v)"""
    for use in op.q.uses:
        other = use.owner.opview
        if not isinstance(other, AttentionForward) or other.operation.block != op.operation.block:
            continue
        if list(other.operation.operands) == list(op.operation.operands) and other.attrs == op.attrs:
            if not other.operation.is_before_in_block(op.operation):
                other.operation.move_before(op.operation)
            return other.operation.results[0]
    return None
