"""Fusion of the kernels of a decoding step: around matmuls of a few rows with packed weights of few bits, and attention of a few
queries. Such a kernel takes as long as its launch, and the memory waits meanwhile.

- Two matmuls of the same rows become one kernel if an op combines their results, as in a gated layer: silu(x A) * (x B).
- Reductions of the rows, and the ops after them, become part of the kernel: a norm before the matmul. Each program of the kernel
  repeats them for its rows.
- Elementwise ops that compute a few queries become part of attention's kernel: rotary embeddings.
"""

from __future__ import annotations

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
from burn.passes.fusion.joins import reads_directly

WEIGHTS = 2
"""The most weights of a kernel: a thread holds words of each."""

MORE = 2
"""Such a group may have this multiple of `max-ops`."""


def fuse_contractions(choice: Choice) -> None:
    matmuls = [op for op in choice.ops if _is_few_rows(choice, op) and choice.cluster[op.operation].kind == "contract"]
    for op in matmuls:
        if (other := _second_matmul(choice, op)) is not None:
            choice.merge(other, choice.cluster[op.operation])
    for cluster in dict.fromkeys(choice.cluster[op.operation] for op in matmuls):
        if (rows := _rows_before(choice, cluster)) is not None:
            choice.merge(rows, cluster)
    for cluster in dict.fromkeys(choice.cluster.values()):
        if cluster.kind == "attention" and (queries := _queries_before(choice, cluster)) is not None:
            choice.merge(queries, cluster)


def _is_few_rows(choice: Choice, op: Op) -> bool:
    """True for a few rows times a weight that is packed as fragments of tensor cores (`burn.passes.block_fragments`). Kernels of
    many rows have neither reductions nor a second weight."""
    if not isinstance(op, PackedBlockDot) or type_of(op.weight).rank != 6:
        return False
    count = choice.preferences.likely(product(type_of(op.x).shape[:-1]))
    return isinstance(count, int) and count <= choice.preferences.row_reductions


def _matmuls_of(cluster: Cluster) -> list[Op]:
    return [m for m in cluster.members if m.KERNEL == "contract"]


def _shape_of(op: Op) -> object:
    """Equal for matmuls of the same rows with weights of one form."""
    parameters = tuple(None if v is None else type_of(v) for v in (op.weight, op.scale, op.zero))
    return op.x, op.bits, op.block, type_of(op.operation.results[0]), parameters


def _second_matmul(choice: Choice, op: Op) -> Cluster | None:
    """The group of another matmul of the same rows whose results the ops after a matmul read, if one kernel can compute both."""
    cluster = choice.cluster[op.operation]
    if len(_matmuls_of(cluster)) == WEIGHTS:
        return None
    read = (choice.cluster_of(v) for m in cluster.members for v in m.operation.operands)
    for other in dict.fromkeys(c for c in read if c is not None and c is not cluster and c.kind == "contract"):
        matmuls = _matmuls_of(other)
        alike = all(isinstance(m, PackedBlockDot) and _shape_of(m) == _shape_of(op) for m in matmuls)
        if alike and len(matmuls) == 1 and _fit(choice, other, cluster):
            return other
    return None


def _fit(choice: Choice, other: Cluster, cluster: Cluster) -> bool:
    """True if one kernel can compute a group and another whose results it reads. The kernel has one element of each result."""
    return (
        not other.closed
        and not cluster.closed
        and other.size + cluster.size <= MORE * choice.max_ops
        and all(reads_directly(choice, m, other) for m in cluster.members)
        and not leads_to(cluster.needs - {other}, other)
    )


def _rows_before(choice: Choice, cluster: Cluster) -> Cluster | None:
    """The group that computes the rows of a group's matmuls, if these are its only readers and their kernel can compute it."""
    matmuls = _matmuls_of(cluster)
    rows, shape = choice.cluster_of(matmuls[0].x), type_of(matmuls[0].x).shape
    if rows is None or rows.kind != "reduce" or rows.across or rows.space != shape or rows.axes != {len(shape) - 1}:
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
