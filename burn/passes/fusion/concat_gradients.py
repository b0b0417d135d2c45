"""A concat of the gradients of queries, keys and values: the kernels of an attention's backward pass write into its result.

Models with one projection for all three split its result, and the backward pass joins the gradients again. A kernel of its own
for that would read and write each once more.
"""

from __future__ import annotations

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Concat, Reshape, Transpose
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster


def gradients_of(choice: Choice, op: Concat) -> tuple[Cluster, list[Op]] | None:
    """The cluster whose gradients are the operands of a concat, and the views between that are in no cluster. None if one of the
    operands is another value, or has another reader."""
    clusters: set[Cluster | None] = set()
    between: list[Op] = []
    results: set[ir.Value] = set()
    for operand in op.operation.operands:
        value = operand
        while (view := op_of(value)) is not None and isinstance(view, Reshape | Transpose):
            if len(list(value.uses)) != 1 or not choice.local(view):
                return None
            if choice.cluster_of(value) is None:
                between.append(view)
            value = view.x
        if len(list(value.uses)) != 1 or value in results:
            return None
        results.add(value)
        clusters.add(choice.cluster_of(value))
    if len(clusters) != 1:
        return None
    (cluster,) = clusters
    if cluster is None or cluster.kind != "attention_gradient":
        return None
    return cluster, sorted(between, key=lambda view: choice.position[view.operation])
