"""Fusion of the kernels of a decoding step: around matmuls of a few rows with packed weights of few bits, and attention of a few
queries. Such a kernel takes as long as its launch, and the memory waits meanwhile.

- Two matmuls of the same rows become one kernel if an op combines their results, as in a gated layer: silu(x A) * (x B).
- Reductions of the rows, and the ops after them, become part of the kernel: a norm before the matmul. Each program of the kernel
  repeats them for its rows.
- Elementwise ops that compute a few queries become part of attention's kernel: rotary embeddings.
"""

from __future__ import annotations

from itertools import combinations

from burn.dialect.dims import estimate, product
from burn.dialect.op import Op
from burn.dialect.packed import PackedBlockDot
from burn.dialect.pointwise import Pointwise
from burn.dialect.reduction import Reduce
from burn.dialect.types import type_of
from burn.kernels.body import EXPENSIVE
from burn.kernels.builders.builder import accumulate_type
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, leads_to
from burn.passes.fusion.horizontal import is_elementwise

WEIGHTS = 2
"""The most weights of a kernel: a thread holds words of each."""

MORE = 2
"""Such a group may have this multiple of `max-ops`."""


def fuse_contractions(choice: Choice) -> None:
    clusters = dict.fromkeys(c for op in choice.ops[:-1] if (c := choice.cluster.get(op.operation)))
    by_rows: dict[object, list[Cluster]] = {}
    for cluster in clusters:
        matmuls = matmuls_of(cluster)
        if len(matmuls) == 1 and _in_fragments(matmuls[0]):
            by_rows.setdefault(_shape_of(matmuls[0]), []).append(cluster)
    for members in by_rows.values():
        for first, second in combinations(members, 2):
            if len(matmuls_of(first)) + len(matmuls_of(second)) == WEIGHTS and _combined(choice, first, second):
                choice.merge(first, second)
    for cluster in dict.fromkeys(c for members in by_rows.values() for c in members if c.members):
        if (rows := _rows_before(choice, cluster)) is not None:
            choice.merge(rows, cluster)
    for cluster in clusters:
        if cluster.kind == "attention" and (queries := _queries_before(choice, cluster)) is not None:
            choice.merge(queries, cluster)


def matmuls_of(cluster: Cluster) -> list[Op]:
    return [m for m in cluster.members if m.KERNEL == "contract"]


def _in_fragments(op: Op) -> bool:
    """True if a weight is packed as fragments of tensor cores (`burn.passes.block_fragments`)."""
    return isinstance(op, PackedBlockDot) and type_of(op.weight).rank == 6


def _shape_of(op: Op) -> object:
    """Equal for matmuls of the same rows with weights of one form."""
    parameters = tuple(None if v is None else type_of(v) for v in (op.weight, op.scale, op.zero))
    return op.x, op.bits, op.block, type_of(op.operation.results[0]), parameters


def _combined(choice: Choice, first: Cluster, second: Cluster) -> bool:
    """True if one group's ops read the other's result, and one kernel can compute both."""
    reads = any(choice.cluster_of(v) is first for m in second.members for v in m.operation.operands)
    reads |= any(choice.cluster_of(v) is second for m in first.members for v in m.operation.operands)
    return (
        reads
        and not first.closed
        and not second.closed
        and first.size + second.size <= MORE * choice.max_ops
        and not leads_to(first.needs - {second}, second)
        and not leads_to(second.needs - {first}, first)
    )


def _rows_before(choice: Choice, cluster: Cluster) -> Cluster | None:
    """The group that computes the rows of a group's matmuls, if these are its only readers and their kernel can compute it."""
    matmuls = matmuls_of(cluster)
    rows, shape = choice.cluster_of(matmuls[0].x), type_of(matmuls[0].x).shape
    count = choice.preferences.likely(product(shape[:-1]))
    if rows is None or rows.kind != "reduce" or rows.across or rows.space != shape or rows.axes != {len(shape) - 1}:
        return None
    if not isinstance(count, int) or count > choice.preferences.row_reductions:
        return None
    inside = {m.operation for m in rows.members}
    readers = {m.operation for m in matmuls}
    for member in rows.members:
        for use in member.operation.results[0].uses:
            user = use.owner.operation
            if user not in inside and (user not in readers or member.operation.results[0] != matmuls[0].x):
                return None
    fits = cluster.size + rows.size <= MORE * choice.max_ops and all(map(_repeatable, rows.members))
    return rows if fits and not leads_to(cluster.needs - {rows}, rows) else None


def _queries_before(choice: Choice, cluster: Cluster) -> Cluster | None:
    """The loop that computes a few queries of an attention, if nothing else reads them."""
    (op,) = (m for m in cluster.members if m.KERNEL == "attention")
    queries, few = choice.cluster_of(choice.source(op.q)), choice.preferences.small_loops
    if queries is None or queries is cluster or queries.kind != "loop" or queries.closed:
        return None
    fits = cluster.size + queries.size <= MORE * choice.max_ops and estimate(type_of(op.q).elements) <= few
    elementwise = all(is_elementwise(choice, m) for m in queries.members)
    reads = {choice.cluster_of(choice.source(v)) for v in (op.k, op.v, op.mask, op.lengths) if v is not None}
    alone = queries not in reads and choice.serves(queries, op, cluster, views=True)
    return queries if fits and elementwise and alone and not leads_to(cluster.needs - {queries}, queries) else None


def _repeatable(op: Op) -> bool:
    """True if each program of a kernel may repeat an op of its rows."""
    if isinstance(op, Reduce):
        return op.kind == "sum" and accumulate_type(type_of(op.x).dtype) == "float32"
    single = type_of(op.operation.results[0]).shape[-1:] == (1,)
    return isinstance(op, Pointwise) and (single or op.FUNCTION not in EXPENSIVE)
