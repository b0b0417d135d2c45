"""Reads of a group: the views and constants that its kernel computes, and those that it reads from memory."""

from __future__ import annotations

from collections.abc import Iterator

from burn.dialect.contraction import Conv
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Reshape, Transpose
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.lower import has_rule
from burn.passes.fusion.choice import FREE, Choice
from burn.passes.fusion.cluster import Cluster
from burn.passes.fusion.reads import affine, contiguous, keeps_columns
from burn.passes.fusion.sliding_windows import has_sliding_windows, is_crossed


def inlines(choice: Choice, cluster: Cluster, user: Op, value: ir.Value) -> bool:
    """True if a view or constant is computed inside the cluster rather than read from memory."""
    op = op_of(value)
    if op is None or not choice.local(op) or not has_rule(op) or not op.has(FREE):
        return False
    if _reads_transposed(choice, op, cluster):
        return False
    if user.has(Trait.CONTRACTION):
        if not op.has(Trait.VIEW) or not affine(value, choice.is_materialised):
            return False
        if isinstance(user, Conv) and has_sliding_windows(choice, cluster):
            # The result is stored in the order in which operands are read, or the kernel pads the operand itself.
            return isinstance(cluster.members[-1], Transpose) or _is_view_of_result(choice, cluster, op)
        if user.has(Trait.PACKED) and value != user.operands[0]:
            return False  # panels must be in memory
        return contiguous(user, value, choice.is_materialised, choice.preferences.strided_columns)
    if cluster in choice.crowded and isinstance(op, Transpose) and not user.has(Trait.VIEW):
        return keeps_columns(op) or _is_view_of_result(choice, cluster, op)
    if user.has(Trait.ATTENTION) and not any(value == x for x in (user.mask, user.lengths) if x is not None):
        return op.has(Trait.VIEW) and affine(value, choice.is_materialised)
    return True


def _reads_transposed(choice: Choice, op: Op, cluster: Cluster) -> bool:
    """True for a transpose that a group reads from memory, so that both operands of a weight's gradient are contiguous along
    one axis."""
    if not isinstance(op, Transpose) or not choice.preferences.sliding_windows or keeps_columns(op):
        return False
    return any(is_crossed(choice, m) for m in cluster.members)


def is_stored_for(choice: Choice, cluster: Cluster, user: Op, value: ir.Value) -> bool:
    """True if a view that no group computes would need a kernel of its own for this reader."""
    op = op_of(value)
    stored = op is None or not op.has(Trait.VIEW) or isinstance(op, Reshape) or choice.is_materialised(op)
    return not stored and not inlines(choice, cluster, user, value)


def is_in_memory(choice: Choice, cluster: Cluster, op: Op) -> bool:
    """True if a cluster reads an op's result from memory. It does not for a view of its own result, even if the
    view is in memory for others: it would depend on itself."""
    return op.operation in choice.cluster and not _is_view_of_result(choice, cluster, op)


def _is_view_of_result(choice: Choice, cluster: Cluster, op: Op) -> bool:
    """True if an op is a view of the cluster's own result, possibly through views in memory."""
    inner: Op | None = op
    while inner is not None and inner.has(Trait.VIEW) and choice.cluster.get(inner.operation) is not cluster:
        inner = op_of(inner.x)
    return inner is not None and inner is not op and choice.cluster.get(inner.operation) is cluster


def reads_memory(choice: Choice, user: ir.Operation | ir.OpView, value: ir.Value) -> bool:
    """True if a user reads a view or constant from memory: the kernel that needs it does not compute it."""
    operation = user.operation
    if operation not in choice.position:
        return True  # in a nested region
    op = operation.opview
    if operation in choice.cluster:
        return not inlines(choice, choice.cluster[operation], op, value)
    if op.has(FREE):  # a view of a view: inline it if that is only ever computed inline
        result = op.operation.results[0]
        if isinstance(op, Reshape) and any(reads_memory(choice, u.owner, result) for u in result.uses):
            return True
        viewed = op_of(value)
        return viewed is not None and any(
            _reads_transposed(choice, viewed, reader) for reader in _readers(choice, result)
        )
    return True


def _readers(choice: Choice, value: ir.Value) -> Iterator[Cluster]:
    """The groups that read a value, and views of it that are in no group."""
    for use in value.uses:
        operation = use.owner.operation
        if operation in choice.cluster:
            yield choice.cluster[operation]
        elif operation in choice.position and operation.opview.has(FREE):
            yield from _readers(choice, operation.results[0])


def streams(choice: Choice, cluster: Cluster) -> int:
    """The number of tensors of a loop's own shape that it loads and stores contiguously."""
    inside = {m.operation for m in cluster.members}
    read = {
        v
        for m in cluster.members
        for v in m.operation.operands
        if not isinstance(v.owner, ir.Operation) or v.owner not in inside
    }
    made = [r for m in cluster.members for r in m.operation.results]
    written = [r for r in made if any(use.owner.operation not in inside for use in r.uses)]
    transposes = {v for v in read if (op := op_of(v)) is not None and isinstance(op, Transpose)}
    return sum(type_of(v).shape == cluster.space for v in (*(read - transposes), *written))
