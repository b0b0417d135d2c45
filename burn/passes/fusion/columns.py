"""Column reductions move into the kernel that reads the same rows.

The backward pass of a norm sums the gradient, and the gradient times the normalised input, over all rows. The kernel that
computes the gradient of the norm's input, row by row, has both in registers.
"""

from __future__ import annotations

from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.reduction import ArgReduce
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, axes_of, leads_to
from burn.passes.fusion.joins import reduces_columns


def reduce_columns(choice: Choice) -> None:
    """Moves column reductions into a cluster that reads one of their operands row by row."""
    if not choice.preferences.column_reduction_width:
        return
    readers: dict[ir.Value, list[Cluster]] = {}
    for group in (groups := reductions(choice)):
        for value in read_whole(choice, group):
            readers.setdefault(value, []).append(group)
    gone: set[Cluster] = set()
    for group in filter(is_column_reduction, groups):
        others = dict.fromkeys(c for value in read_whole(choice, group) for c in readers[value])
        for other in others:
            if other not in gone and fits(choice, group, other):
                move(choice, group, other)
                gone.add(group)
                break


def reductions(choice: Choice) -> list[Cluster]:
    """The clusters that reduce, in program order."""
    found = (choice.cluster.get(op.operation) for op in choice.ops)
    return list(dict.fromkeys(c for c in found if c is not None and c.kind == "reduce"))


def read_whole(choice: Choice, cluster: Cluster) -> list[ir.Value]:
    """The values that a cluster reads from memory for every element of its space. A broadcast one has fewer elements."""
    read = (v for m in cluster.members for v in m.operation.operands)
    return [v for v in dict.fromkeys(read) if choice.cluster_of(v) is not cluster and _is_whole(choice, cluster, v)]


def _is_whole(choice: Choice, cluster: Cluster, value: ir.Value) -> bool:
    source = choice.source(value)
    op = op_of(source)
    generated = op is not None and op.has(Trait.GENERATED)
    return (
        type_of(value).shape == cluster.space and not generated and type_of(source).elements == product(cluster.space)
    )


def is_column_reduction(cluster: Cluster) -> bool:
    """True if a cluster only reduces along leading axes. It holds one number for each column, and no index."""
    last = len(cluster.space) - 1
    return (
        last not in cluster.axes and not cluster.across and not any(isinstance(m, ArgReduce) for m in cluster.members)
    )


def fits(choice: Choice, group: Cluster, other: Cluster, more: float = 0.0) -> bool:
    """True if a cluster's kernel can also compute a column reduction. more: ops that are added to it."""
    return (
        other is not group
        and group.space == other.space
        and group.size + other.size + more <= choice.max_ops
        and sum(axes_of(m) == group.axes for m in _reductions(group, other)) <= choice.preferences.column_sums
        and not leads_to(group.needs, other)
        and not leads_to(other.needs, group)
        and reduces_columns(choice, other, group.axes)
        and reduces_columns(choice, group, other.axes)
    )


def _reductions(*clusters: Cluster) -> list[Op]:
    return [m for cluster in clusters for m in cluster.members if m.has(Trait.REDUCTION)]


def move(choice: Choice, group: Cluster, other: Cluster) -> None:
    """Moves a column reduction into a cluster that `fits`."""
    other.across = group.axes
    choice.merge(group, other)
