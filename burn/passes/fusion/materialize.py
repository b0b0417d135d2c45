"""Views and constants that a kernel reads from memory get a group of their own."""

from __future__ import annotations

from burn.dialect.op import Op
from burn.dialect.shape import Concat, Pad, Reshape, Transpose
from burn.kernels.lower import has_rule
from burn.passes.fusion.choice import FREE, Choice
from burn.passes.fusion.cluster import Cluster
from burn.passes.fusion.inlining import reads_memory
from burn.passes.fusion.joins import lowers_elementwise
from burn.passes.fusion.producers import is_little
from burn.passes.fusion.reads import keeps_columns


def materialize_views(choice: Choice) -> None:
    """Gives views (and constants) a cluster of their own if something reads them from memory."""
    while _materialize_views(choice):  # a view in memory changes how the views after it can be read
        pass


def _materialize_views(choice: Choice) -> bool:
    """One pass over all ops; returns True if it started a cluster."""
    started = False
    for op in reversed(choice.ops[:-1]):
        if not op.has(FREE) or not has_rule(op) or op.operation in choice.cluster:
            continue
        result = op.operation.results[0]
        wanted = any(reads_memory(choice, use.owner, result) for use in result.uses)
        if wanted and not isinstance(op, Reshape):
            _take_producer(choice, op, choice.start(op))
            started = True
    return started


def _take_producer(choice: Choice, op: Op, cluster: Cluster) -> None:
    """Computes a cheap loop that only a transpose in memory reads where the transpose reads it. Examples are a weight's cast,
    the padding of a first convolution's image, and a concat of the gradients of queries, keys and values."""
    if not isinstance(op, Transpose) or not choice.preferences.repeat_small:
        return
    other = choice.cluster_of(choice.source(op.x))
    if other is None or other.kind != "loop" or other.closed or cluster.size + other.size > choice.max_ops:
        return
    little = is_little(other) or all(isinstance(m, Pad) for m in other.members) or _concatenates_rows(choice, other, op)
    if little and choice.serves(other, op, views=True):
        choice.merge(other, cluster)


def _concatenates_rows(choice: Choice, cluster: Cluster, op: Op) -> bool:
    """True if a loop only joins tensors, whose runs of contiguous elements a transpose keeps."""
    joins = [m for m in cluster.members if isinstance(m, Concat)]
    return len(joins) == len(cluster.members) == 1 and lowers_elementwise(choice, joins[0]) and keeps_columns(op)
