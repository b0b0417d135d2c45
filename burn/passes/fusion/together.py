"""Reductions of what the same rows hold, formed in one kernel.

The way back of a normalisation sums what it is owed, and the products of that with its input: two groups, as the one's sum is
needed behind the other's, that read the same tensor. Together they read it once.
"""

from __future__ import annotations

from itertools import combinations

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.reduction import ArgReduce
from burn.dialect.types import type_of
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, leads_to
from burn.passes.fusion.joins import JOINS

MORE = 2
"""How many times as many ops as usual such a group may have: most of them compute a number a row."""


def together(choice: Choice) -> None:
    """Merges groups of reductions along the same axes that read a tensor of their space in common."""
    clusters = {c: None for op in choice.ops[:-1] if (c := choice.cluster.get(op.operation)) and c.kind == "reduce"}
    into: dict[Cluster, Cluster] = {}
    for found in _readers(choice, list(clusters)).values():
        for pair in combinations(found, 2):
            first, second = (_last(c, into) for c in pair)
            if first is not second and _fit(choice, first, second):
                choice.merge(first, second)
                into[first] = second


def _last(cluster: Cluster, into: dict[Cluster, Cluster]) -> Cluster:
    while cluster in into:
        cluster = into[cluster]
    return cluster


def _readers(choice: Choice, clusters: list[Cluster]) -> dict[tuple[ir.Value, frozenset[int]], list[Cluster]]:
    """The groups that read a tensor of their whole space, by tensor and axes."""
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
    """Whether one kernel can be both: neither needs what needs the other, and each reads of the other its own row's results."""
    members = [*first.members, *second.members]
    return (
        first.space == second.space
        and not first.across
        and not second.across
        and len(members) <= MORE * choice.max_ops
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
