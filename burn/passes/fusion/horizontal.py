"""Horizontal fusion: reductions over the same rows become one kernel, like small loops of one shape.

The backward pass of a normalisation sums the incoming gradient, and the gradient times its input. These are two groups,
because one sum depends on the other, but both read the same tensor. One kernel reads it once.

A small loop takes as long as its launch. A decoder appends keys and values to its cache by two loops of one shape.
"""

from __future__ import annotations

from itertools import combinations

from burn.dialect.dims import Dim, estimate, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.reduction import ArgReduce
from burn.dialect.shape import Concat
from burn.dialect.types import type_of
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, leads_to, size_of
from burn.passes.fusion.joins import JOINS, lowers_elementwise

Shape = tuple[Dim, ...]

MORE = 2
"""Such a group may have this multiple of `max-ops`: most of its ops compute one number per row."""


def fuse_horizontally(choice: Choice) -> None:
    """Merges groups that reduce along the same axes and read a common tensor of their full space."""
    clusters = {c: None for op in choice.ops[:-1] if (c := choice.cluster.get(op.operation)) and c.kind == "reduce"}
    into: dict[Cluster, Cluster] = {}
    for found in _readers(choice, list(clusters)).values():
        for pair in combinations(found, 2):
            first, second = (_last(c, into) for c in pair)
            if first is not second and _fit(choice, first, second):
                choice.merge(first, second)
                into[first] = second


def fuse_small_loops(choice: Choice) -> None:
    """Merges independent loops of one shape with few elements."""
    shapes: dict[Shape, list[Cluster]] = {}
    for cluster in dict.fromkeys(c for op in choice.ops[:-1] if (c := choice.cluster.get(op.operation))):
        small = estimate(product(cluster.space)) <= choice.preferences.small_loops
        own = cluster.closed or cluster.is_update
        plain = cluster.kind == "loop" and not own and all(is_elementwise(choice, m) for m in cluster.members)
        if small and plain:
            shapes.setdefault(cluster.space, []).append(cluster)
    for first, *others in shapes.values():
        merged = first
        for cluster in others:
            apart = not leads_to(cluster.needs, merged) and not leads_to(merged.needs, cluster)
            if apart and merged.size + cluster.size <= choice.max_ops:
                choice.merge(merged, cluster)
            merged = cluster


def is_elementwise(choice: Choice, op: Op) -> bool:
    return lowers_elementwise(choice, op) if isinstance(op, Concat) else isinstance(op, Pointwise)


def _last(cluster: Cluster, into: dict[Cluster, Cluster]) -> Cluster:
    while cluster in into:
        cluster = into[cluster]
    return cluster


def _readers(choice: Choice, clusters: list[Cluster]) -> dict[tuple[ir.Value, frozenset[int]], list[Cluster]]:
    """The groups that read a tensor of their full space, by tensor and axes."""
    found: dict[tuple[ir.Value, frozenset[int]], list[Cluster]] = {}
    for cluster in clusters:
        outside = {
            v: None for m in cluster.members for v in m.operation.operands if choice.cluster_of(v) is not cluster
        }
        for value in outside:
            if type_of(value).shape == cluster.space:
                found.setdefault((value, cluster.axes), []).append(cluster)
    return found


def _fit(choice: Choice, first: Cluster, second: Cluster) -> bool:
    """True if one kernel can compute both: no third group depends on one and feeds the other, and each reads the
    other's results at its own row."""
    members = [*first.members, *second.members]
    return (
        first.space == second.space
        and not first.across
        and not second.across
        and sum(map(size_of, members)) <= MORE * choice.max_ops
        and not any(isinstance(m, ArgReduce) for m in members)
        and not leads_to(second.needs - {first}, first)
        and not leads_to(first.needs - {second}, second)
        and all(_reads_rows(choice, m, second) for m in first.members)
        and all(_reads_rows(choice, m, first) for m in second.members)
    )


def _reads_rows(choice: Choice, op: Op, other: Cluster) -> bool:
    if all(choice.cluster_of(choice.source(v)) is not other for v in op.operation.operands):
        return True
    return isinstance(op, Pointwise) and JOINS["reduce"](choice, op, other)
