"""Loops over different tensors become one group of kind "foreach", if none depends on another. A GPU runs those that are alike in
one launch (PyTorch's multi-tensor apply).

These are the updates of parameters at the end of a training step, and loops over a program's inputs: the casts of its weights. A
second launch has the loops over results of the first: a convolution reads a cast weight transposed, and its gradient reads it
flipped and transposed.
"""

from __future__ import annotations

from collections.abc import Collection

from burn.dialect.dims import estimate, product
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of
from burn.dialect.shape import Slice, Transpose
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, leads_to


def fuse_foreach(choice: Choice) -> None:
    """Merges updates, loops over inputs, and loops over results of these, up to `Preferences.foreach` of each in a group."""
    clusters = [
        c
        for c in dict.fromkeys(choice.cluster[op.operation] for op in choice.ops if op.operation in choice.cluster)
        if _is_plain(choice, c)
    ]
    updates = [c for c in clusters if c.is_update]
    for crowded in (False, True):  # which decides how a group reads transposed tensors
        _merge(choice, [c for c in updates if (c in choice.crowded) == crowded])
    others = [c for c in clusters if not c.is_update and c not in choice.crowded]
    first = [c for c in others if _reads_inputs(choice, c)]
    members = [m.operation for c in first for m in c.members]
    _merge(choice, first)
    made = {choice.cluster[operation] for operation in members}
    _merge(choice, [c for c in others if c not in first and _reads_inputs(choice, c, made)])


def _merge(choice: Choice, clusters: list[Cluster]) -> None:
    merged: Cluster | None = None
    count = 0
    for cluster in clusters:
        apart = merged is not None and not leads_to(cluster.needs, merged) and not leads_to(merged.needs, cluster)
        if merged is None or not apart or count >= choice.preferences.foreach:
            merged, count = cluster, 1
            continue
        choice.merge(cluster, merged)
        merged.kind = "foreach"
        count += 1


def _is_plain(choice: Choice, cluster: Cluster) -> bool:
    """True if a loop has a known number of elements, not too many, and each is computed from single elements."""
    return (
        cluster.kind == "loop"
        and not cluster.closed
        and isinstance(product(cluster.space), int)
        and all(isinstance(m, Pointwise | Slice | Transpose) for m in cluster.members)
        and _bytes(choice, cluster) <= choice.preferences.foreach_bytes
    )


def _bytes(choice: Choice, cluster: Cluster) -> int:
    """That a loop reads and writes, at most."""
    read = {v for m in cluster.members for v in m.operation.operands if choice.cluster_of(v) is not cluster}
    written = {
        result
        for m in cluster.members
        for result in m.operation.results
        if any(choice.cluster.get(use.owner.operation) is not cluster for use in result.uses)
    }
    return sum(estimate(type_of(value).bytes) for value in read | written)


def _reads_inputs(choice: Choice, cluster: Cluster, made: Collection[Cluster] = ()) -> bool:
    """True if all tensors that a loop reads are inputs of the program or results of `made`, and other kernels read its results.
    An output may write to a donated input: it must not run before a kernel that may fail and was before it."""
    end = choice.ops[-1].operation
    if any(use.owner.operation == end for m in cluster.members for use in m.operation.results[0].uses):
        return False
    for value in (v for m in cluster.members for v in m.operation.operands if choice.cluster_of(v) is not cluster):
        source = choice.source(value)
        op = op_of(source)
        if op is not None and not op.has(Trait.GENERATED) and choice.cluster_of(source) not in made:
            return False
    return True
