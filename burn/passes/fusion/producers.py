"""Producers of an op's operands join the op's group, if its kernel can compute them."""

from __future__ import annotations

from collections import Counter

from burn.dialect.dims import Dim, product
from burn.dialect.indexing import Gather
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of
from burn.dialect.reduction import ArgReduce
from burn.dialect.shape import Concat, Pad, Transpose
from burn.dialect.types import type_of
from burn.kernels.body import EXPENSIVE
from burn.kernels.builders.concat import MAKERS
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, leads_to
from burn.passes.fusion.joins import JOINS, computes_operands, reads_rows
from burn.passes.fusion.reads import affine, keeps_columns
from burn.passes.fusion.sliding_windows import is_crossed, multiplies_windows, slides

LITTLE = 4
"""The most ops of a loop that is recomputed instead of run as a kernel of its own."""

MANY = 16
"""The least number of recomputations per element; with fewer, the results themselves are large."""


def merge_producers(choice: Choice, op: Op, cluster: Cluster, new: bool = False) -> None:
    """Merges the loops that compute the op's other operands, if the cluster's kernel can compute them, and the
    producers of a concat's operands. new: the op started the cluster because it could join none."""
    todo = [op]
    while todo:
        reader = todo.pop()
        for other in choice.producers(reader):
            if (
                other is not cluster
                and other.is_update == cluster.is_update
                and (other.kind == "loop" or (reader is op and not new and _shares_rows(choice, other, cluster)))
                and (
                    other.kind == "reduce"
                    or (reader is op and not new and _computes(choice, other, op, cluster))
                    or (reader is op and _recomputes(choice, other, op, cluster))
                    or _computes_operand(choice, other, op, cluster)
                    or (reader is op and _pads(choice, other, op))
                    or (reader is op and _feeds(choice, other, op))
                )
                and cluster.size + other.size <= choice.max_ops
                and not leads_to(cluster.needs - {other}, other)
            ):
                todo += other.members if computes_operands(choice, op) else []
                choice.merge(other, cluster)


def take_operands(choice: Choice, op: Op, cluster: Cluster) -> None:
    """Moves a concat's operand, if the concat is its only reader, into the concat's cluster: its kernel writes into
    the result."""
    axis = op.axis % len(cluster.space)
    parts = list(op.xs)
    makes = Counter(id(choice.cluster_of(x)) for x in parts)
    for x in parts:
        other, size = choice.cluster_of(x), type_of(x).shape[axis]
        if (
            other is not None
            and other is not cluster
            and other.kind in MAKERS
            and isinstance(size, int)
            and makes[id(other)] == 1
            and len(list(x.uses)) == 1
            and choice.serves(other, op)  # not what makes another part: each part is a kernel of its own
            and cluster.size + other.size <= choice.max_ops
            and not leads_to(cluster.needs - {other}, other)
        ):
            choice.merge(other, cluster)
            cluster.kind = "concat"


def _shares_rows(choice: Choice, other: Cluster, cluster: Cluster) -> bool:
    """True if two kernels reduce the same rows, which one kernel then reads once."""
    return (
        choice.preferences.column_reduction_width > 0
        and other.kind == cluster.kind == "reduce"
        and (other.space, other.axes) == (cluster.space, cluster.axes)
        and not other.across
        and not cluster.across
        and not any(isinstance(m, ArgReduce) for m in (*other.members, *cluster.members))
        and not other.closed
        and all(reads_rows(choice, m, other) for m in cluster.members)
    )


def _computes(choice: Choice, other: Cluster, op: Op, cluster: Cluster) -> bool:
    """True if a cluster's kernel can compute a loop over the same space."""
    together = cluster.kind in ("loop", "reduce", "window")
    return (together or (cluster.kind == "contract" and choice.serves(other, op, cluster))) and all(
        (_is_elementwise(m) or (cluster.kind == "loop" and isinstance(m, Gather)))
        and JOINS[cluster.kind](choice, m, cluster)
        for m in other.members
    )


def _recomputes(choice: Choice, other: Cluster, op: Op, cluster: Cluster) -> bool:
    """True if a cluster's kernel should recompute a small loop for each of its many elements."""
    if not choice.preferences.repeat_small or cluster.kind not in ("loop", "reduce", "contract", "attention"):
        return False
    return (
        not op.KERNEL
        and not isinstance(op, Concat)
        and is_little(other)
        and is_wider(cluster.space, other.space)
        and choice.serves(other, op, cluster, views=True)
    )


def _computes_operand(choice: Choice, other: Cluster, op: Op, cluster: Cluster) -> bool:
    """True if a loop computes an operand of a concat and is cheap enough to be evaluated for all elements of the
    result."""
    return computes_operands(choice, op) and _is_chain(choice, other) and choice.serves(other, op, cluster, views=True)


def _is_chain(choice: Choice, cluster: Cluster) -> bool:
    """True if a loop is cheap enough to be evaluated for all elements of a concat."""
    few = len(cluster.members) <= choice.preferences.concat_chain
    return few and all(
        m.FUNCTION not in EXPENSIVE if isinstance(m, Pointwise) else computes_operands(choice, m)
        for m in cluster.members
    )


def _feeds(choice: Choice, other: Cluster, op: Op) -> bool:
    """True if a loop is cheap and only computes what a scatter or a cumulative reduction reads, element by element on one thread.
    Their kernel reads each element once, so that the loop's results need not be in memory."""
    if op.KERNEL not in ("scatter", "cumulative") or choice.preferences.parallel_scatter:
        return False
    few = len(other.members) <= choice.preferences.concat_chain
    cheap = all(
        isinstance(m, Gather) or (isinstance(m, Pointwise) and m.FUNCTION not in EXPENSIVE) for m in other.members
    )
    return few and cheap and choice.serves(other, op, views=True)


def _pads(choice: Choice, other: Cluster, op: Op) -> bool:
    """True if a loop only pads an operand of a depthwise convolution, or of its weight's gradient, whose kernel loads
    each element once. The same for the image of another weight's gradient, if its kernel reads zeros outside of images."""
    if not choice.preferences.sliding_windows or not all(isinstance(m, Pad) for m in other.members):
        return False
    padded = [v for v in op.operation.operands if choice.cluster_of(choice.source(v)) is other]
    # A view that is in memory would be a kernel between this loop and its reader.
    inline = all(affine(v, choice.is_materialised) for v in padded)
    able = slides(op, choice.preferences) or (choice.preferences.padded_windows and multiplies_windows(op))
    crossed = is_crossed(choice, op) and any(_is_transposed(choice, v) for v in padded)
    return able and not crossed and inline and choice.serves(other, op, views=True)


def _is_transposed(choice: Choice, value: ir.Value) -> bool:
    """True if a transpose that changes the contiguous axis is among the views between a value and its source."""
    source = choice.source(value)
    while value != source and (op := op_of(value)) is not None:
        if isinstance(op, Transpose) and not keeps_columns(op):
            return True
        value = op.x
    return False


def is_little(cluster: Cluster) -> bool:
    """True if a loop applies only a few cheap functions to an element."""
    return len(cluster.members) <= LITTLE and all(
        isinstance(m, Pointwise) and m.FUNCTION not in EXPENSIVE for m in cluster.members
    )


def is_wider(space: tuple[Dim, ...], other: tuple[Dim, ...]) -> bool:
    """True if a space is many times larger than another, whose sizes are all numbers."""
    many, few = product(space), product(other)
    return isinstance(few, int) and (not isinstance(many, int) or many >= MANY * few)


def _is_elementwise(op: Op) -> bool:
    """True if an op costs the same in any kernel."""
    return isinstance(op, Pointwise | Pad)
