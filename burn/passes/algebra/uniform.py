"""Weights of one repeated number, such as the scales of ones that exporters write where a layer has none."""

from __future__ import annotations

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import result_type
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full, uniform_number

MOST_BYTES = 1 << 16
"""Larger weights are not looked at: their pages are read once, when they are packed."""


@law("weight")
def uniform_weight(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A weight of one repeated number is that number."""
    if op.key not in rewriter.weights or rewriter.weights.weight(op.key).nbytes > MOST_BYTES:
        return None
    number = uniform_number(rewriter.weights.get(op.key), op.dtype)
    return full(number, result_type(op)) if number is not None else None
