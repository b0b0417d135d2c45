"""Matmuls with one-hot vectors, some frameworks' form of embeddings, become gathers; sums of one-hot vectors become
selects."""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, reshape, transpose
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast
from burn.dialect.query import is_named, op_of, result_type, splat
from burn.dialect.shape import Iota, Reshape, Weight
from burn.dialect.types import DTYPES, INTEGERS, type_of
from burn.passes.algebra.law import Rewriter, law


@law("dot_general")
def one_hot_matmul(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """cast(x == (0, 1, .. n - 1)) . w = gather(w, x), zero for an x that is none of these; for a finite constant w"""
    cast = is_named(op.lhs, "cast")
    test = is_named(cast.x, "eq") if cast is not None else None
    if test is None or op.lhs_batch or len(op.lhs_contract) != 1 or op.dtype is not None:
        return None
    lhs, table = type_of(op.lhs), type_of(op.rhs)
    (axis,), (row,) = op.lhs_contract, op.rhs_contract
    index = next(
        (a for a, b in ((test.lhs, test.rhs), (test.rhs, test.lhs)) if _counts(rewriter, b, axis, lhs.rank)), None
    )
    free = (*lhs.shape[:axis], *lhs.shape[axis + 1 :])
    if index is None or type_of(index).dtype not in INTEGERS or not _finite(rewriter, op.rhs):
        return None
    if type_of(index).shape != (*lhs.shape[:axis], 1, *lhs.shape[axis + 1 :]):
        return None
    rows = table.shape[row]
    moved = transpose(op.rhs, (row, *(a for a in range(table.rank) if a != row)))
    edge = (0,) * (table.rank - 1)
    padded = ops.pad(moved, number_like(0, moved), low=(0, *edge), high=(1, *edge))
    at = convert(reshape(index, free), "int64")  # a narrow type may not hold the number of rows
    inside = ops.and_(ops.ge(at, number_like(0, at)), ops.lt(at, number_like(rows, at)))
    return ops.gather(padded, ops.select(inside, at, number_like(rows, at)), axis=0)


@law("reduce")
def one_hot_sum(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """sum(select(x == (0, 1, .. n - 1), v, 0)) = select(0 <= x < n, v, 0), for one x and one v per row"""
    choice = is_named(op.x, "select")
    test = is_named(choice.condition, "eq") if choice is not None else None
    if choice is None or test is None or op.kind != "sum" or len(op.axes) != 1 or splat(choice.on_false) != 0:
        return None
    space = type_of(op.x)
    axis = op.axes[0] % space.rank
    line = tuple(1 if i == axis else d for i, d in enumerate(space.shape))
    index = next(
        (a for a, b in ((test.lhs, test.rhs), (test.rhs, test.lhs)) if _counts(rewriter, b, axis, space.rank)), None
    )
    if index is None or type_of(index).dtype not in INTEGERS or type_of(index).shape != line:
        return None
    value = choice.on_true
    if type_of(value).shape not in (line, ()):
        return None
    at = convert(index, "int64")
    inside = ops.and_(ops.ge(at, number_like(0, at)), ops.lt(at, number_like(space.shape[axis], at)))
    found = ops.select(inside, value, number_like(0, value))
    return found if op.keepdims else reshape(found, (*line[:axis], *line[axis + 1 :]))


def _counts(rewriter: Rewriter, value: ir.Value, axis: int, rank: int) -> bool:
    """True if a value is 0, 1, 2, .. along one axis of `rank`, and has size 1 along the others."""
    shape = type_of(value).shape
    at = axis - (rank - len(shape))
    if at < 0 or any(d != 1 for i, d in enumerate(shape) if i != at) or not type_of(value).is_static:
        return False
    source, bits = op_of(value), [DTYPES[type_of(value).dtype].bits]
    while source is not None and isinstance(source, Reshape | Cast):
        source = op_of(source.x)
        bits += [DTYPES[result_type(source).dtype].bits] if source is not None else []
    size = shape[at]
    if source is None or not isinstance(size, int) or size > 1 << (min(bits) - 1):
        return False  # a narrow type wraps
    if isinstance(source, Iota):
        elements = type_of(source.operation.results[0]).shape
        return sum(d != 1 for d in elements) <= 1 and (shape[at] == 1 or elements[source.axis] == shape[at])
    if not isinstance(source, Weight) or source.key not in rewriter.weights:
        return False
    numbers = rewriter.weights.get(source.key).reshape(-1)
    return bool((numbers == np.arange(numbers.size)).all())


def _finite(rewriter: Rewriter, value: ir.Value) -> bool:
    """True if a weight has no infinity and no NaN, which would affect every result."""
    op = is_named(value, "weight")
    return op is not None and op.key in rewriter.weights and bool(np.isfinite(rewriter.weights.get(op.key)).all())
