"""The walk that assigns every op of a block to a group."""

from __future__ import annotations

from burn.dialect.dropout import RandomKept
from burn.dialect.library import Sort
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast, Pointwise
from burn.dialect.shape import Concat, Reshape, Transpose
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.body import EXPENSIVE
from burn.kernels.builders.sort import is_sortable
from burn.kernels.lower import has_rule
from burn.passes.fusion.choice import FREE, Choice
from burn.passes.fusion.cluster import TILED, Cluster, leads_to
from burn.passes.fusion.columns import reduce_columns
from burn.passes.fusion.concat_gradients import gradients_of
from burn.passes.fusion.inlining import streams
from burn.passes.fusion.joins import JOINS
from burn.passes.fusion.materialize import materialize_views
from burn.passes.fusion.producers import merge_producers, take_operands
from burn.passes.fusion.reads import keeps_columns
from burn.passes.fusion.sliding_windows import has_sliding_windows

MANY_STREAMS = 4
"""From this many tensors beside a transposed one on, a loop gets it transposed by a kernel of its own. With an
in-register transpose the loop would read all of them a few elements at a time."""


def assign(choice: Choice) -> None:
    """Assigns each op of the block to a group, except views and constants that every reader computes."""
    for op in choice.ops[:-1]:
        if _has_kernel(choice, op) or (has_rule(op) and not op.has(FREE)):
            _assign_op(choice, op)
        elif op.has(Trait.VIEW):
            _store_in_order(choice, op)
        elif not op.has(Trait.GENERATED):
            choice.opaque[op.operation] = unit = Cluster("opaque", (), [op])
            choice.order.add(unit, choice.reads(op))
    reduce_columns(choice)
    loops = {c for c in choice.cluster.values() if c.kind == "loop"}
    choice.crowded = {c for c in loops if streams(choice, c) >= MANY_STREAMS}
    materialize_views(choice)


def _has_kernel(choice: Choice, op: Op) -> bool:
    if isinstance(op, Sort):
        return choice.preferences.parallel_sort and is_sortable(type_of(op.x).dtype)
    return bool(op.KERNEL)


def _assign_op(choice: Choice, op: Op) -> None:
    if choice.preferences.concat_gradients and isinstance(op, Concat) and (found := gradients_of(choice, op)):
        cluster, between = found
        for member in (*between, op):
            choice.join(member, cluster)
        cluster.closed = True
        return
    alone = isinstance(op, RandomKept) or _widens(choice, op)
    for cluster in choice.producers(op) if not alone else ():
        if _is_deferred_to_reduction(choice, op, cluster) or cluster.is_update != choice.is_update(op):
            continue
        if cluster.size < choice.max_ops and not cluster.closed and _joins(choice, op, cluster):
            choice.join(op, cluster)
            merge_producers(choice, op, cluster)
            return
    cluster = choice.start(op)
    merge_producers(choice, op, cluster, new=True)
    if isinstance(op, Concat) and choice.preferences.concat_in_place:
        take_operands(choice, op, cluster)


def _joins(choice: Choice, op: Op, cluster: Cluster) -> bool:
    return JOINS[cluster.kind](choice, op, cluster) and not _makes_cycle(choice, op, cluster)


def _makes_cycle(choice: Choice, op: Op, cluster: Cluster) -> bool:
    """True if the op reads a value that itself depends on the cluster."""
    return leads_to(choice.reads(op) - {cluster}, cluster)


def _widens(choice: Choice, op: Op) -> bool:
    """True if an op widens bytes that a matmul reads from memory: other readers should also read the bytes."""
    if not isinstance(op, Cast) or type_of(op.x).dtype not in ("int8", "uint8"):
        return False
    users = [use.owner.opview for use in op.x.uses]
    return type_of(op.operation.results[0]).element_bytes > 1 and any(
        isinstance(user, Op) and user.has(Trait.CONTRACTION) for user in users
    )


def _is_deferred_to_reduction(choice: Choice, op: Op, cluster: Cluster) -> bool:
    """True if a cheap op after a matmul is computed in a reduction of its result, from values that the matmul
    stores for another reduction anyway. A norm's backward pass then stores one tensor instead of three."""
    if cluster.kind != "contract" or not isinstance(op, Pointwise) or op.FUNCTION in EXPENSIVE:
        return False
    if choice.preferences.repeat_reads or not _is_summed(op.operation.results[0]):
        return False  # recomputation is decided at the end if the target prefers it
    return any(choice.cluster_of(v) is cluster and _is_summed(v) for v in op.operation.operands)


def _store_in_order(choice: Choice, op: Op) -> None:
    """Adds a transpose or reshape to a contraction if it is the result's only reader: the kernel stores in that order."""
    cluster = choice.cluster_of(op.x)
    if cluster is None or cluster.kind not in TILED or not isinstance(op, Transpose | Reshape):
        return
    if isinstance(op, Transpose) and not keeps_columns(op) and not has_sliding_windows(choice, cluster):
        return
    alone = len(list(op.x.uses)) == 1 and isinstance(op, Transpose)
    if alone or (isinstance(op, Reshape) and _is_then_transposed(choice, op)):
        choice.join(op, cluster)
        cluster.closed = True


def _is_then_transposed(choice: Choice, op: Op) -> bool:
    users = [u.owner for u in op.operation.results[0].uses]
    if len(list(op.x.uses)) != 1 or len(users) != 1 or users[0].name != "burn.transpose":
        return False
    return keeps_columns(users[0].opview)


def _is_summed(value: ir.Value) -> bool:
    return any(use.owner.name == "burn.reduce" for use in value.uses)
