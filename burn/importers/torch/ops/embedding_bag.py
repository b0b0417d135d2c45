"""Sums, means and maxima of bags of embeddings. Their gradients are in `gradients.py`."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, limit, number, number_like, part, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.pointwise import Cast, Mul
from burn.dialect.query import op_of, splat
from burn.dialect.shape import Iota
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.statistics import ones_like, tallied

MODES = ("sum", "mean", "max")


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    node: Node,
    weight: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: ir.Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> list[ir.Value | None]:
    """weight [v, d], indices [n]; bag b holds the indices from offsets[b] to the next offset -> [bags, d]. Rows of
    `padding_idx` are ignored; an empty bag is 0. The other results are for torch's gradient, which needs only the index of each
    maximum."""
    if any(map(node.uses, (1, 2))):
        node.fail("only the embeddings and where their maxima are is built, not which index went to which bag")
    if node.uses(3) and MODES[mode] != "max":
        node.fail("only maxima have an index")
    bags, depth = node.result_type(0).shape
    n = type_of(indices).shape[0]
    dtype = type_of(weight).dtype
    kind = MODES[mode]
    nothing = limit(dtype, highest=False) if kind == "max" else number(0, dtype)
    each = _each(offsets, bags, n)
    shape = (
        (n,) if each is None else (bags, each)
    )  # one shape from the rows to their sums, so that these are one kernel
    of = reshape(indices, shape)
    rows = ops.gather(weight, of, axis=0)
    if per_sample_weights is not None:
        rows = ops.mul(rows, reshape(convert(per_sample_weights, dtype), (*shape, 1)))
    counted = ops.ne(of, number_like(padding_idx, of)) if padding_idx >= 0 else None
    if counted is not None:
        rows = ops.select(reshape(counted, (*shape, 1)), rows, nothing)
    if each is None:
        out, sizes, bag = _of_any(rows, offsets, bags, nothing, kind, counted)
    else:
        out, sizes, bag = _of_equal(rows, kind, counted)
    if kind == "sum":
        return [out, None, None, None]
    sizes = reshape(sizes, (bags, 1))
    if kind == "max":
        largest = _largest(reshape(rows, (n, depth)), out, bag, indices) if node.uses(3) else None
        return [ops.select(ops.gt(sizes, number(0, "int64")), out, number(0, dtype)), None, None, largest]
    return [ops.div(out, convert(ops.max(sizes, number(1, "int64")), dtype)), None, None, None]


def _each(offsets: ir.Value, bags: Dim, n: Dim) -> Dim | None:
    """The number of indices in every bag, if it is written in the program: 0, k, 2 k, .. of `arange`, for n = k * bags."""
    op = op_of(offsets)
    if isinstance(op, Cast):
        op = op_of(op.x)
    if isinstance(op, Mul) and isinstance(op_of(op.lhs), Iota) and (step := splat(op.rhs)) is not None:
        each = int(step)
    elif isinstance(op, Iota):
        each = 1
    else:
        return None
    return each if type_of(offsets).shape == (bags,) and bags * each == n else None


def _of_equal(rows: ir.Value, kind: str, counted: ir.Value | None) -> tuple[ir.Value, ir.Value, ir.Value]:
    """rows [bags, k, d], counted [bags, k] (those that are not ignored) -> the sums or maxima of the bags, their sizes, and
    the bag of each row."""
    bags, each, _ = type_of(rows).shape
    out = ops.reduce(rows, kind="max" if kind == "max" else "sum", axes=(1,))
    if counted is None:
        sizes = ops.broadcast_to(dim_value(each), shape=(bags,))
    else:
        sizes = ops.reduce(convert(counted, "int64"), kind="sum", axes=(1,))
    bag = broadcast_to(reshape(ops.iota(shape=(bags,), axis=0), (bags, 1)), (bags, each))
    return out, sizes, reshape(bag, (bags * each,))


def _of_any(
    rows: ir.Value, offsets: ir.Value, bags: Dim, nothing: ir.Value, kind: str, counted: ir.Value | None
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The same for rows [n, d] of bags that begin at `offsets`. `nothing` is that of an empty bag."""
    n, depth = type_of(rows).shape
    starts = convert(part(offsets, 0, 0, bags), "int64")
    begun = tallied(starts, n + 1, ones_like(starts, "int64"))
    bag = ops.sub(part(ops.cumulative(begun, kind="sum", axis=0), 0, 0, n), number(1, "int64"))
    start = ops.broadcast_to(nothing, shape=(bags, depth))
    out = ops.scatter_nd(start, reshape(bag, (n, 1)), rows, reduction="max" if kind == "max" else "add")
    sizes = tallied(bag, bags, ones_like(bag, "int64") if counted is None else convert(counted, "int64"))
    return out, sizes, bag


def _largest(rows: ir.Value, out: ir.Value, bag: ir.Value, indices: ir.Value) -> ir.Value:
    """The index that gave each element of the maxima `out` [bags, d], the first of several; 0 for an empty bag."""
    n, depth = type_of(rows).shape
    bags = type_of(out).shape[0]
    row_numbers = ops.broadcast_to(reshape(ops.iota(shape=(n,), axis=0), (n, 1)), shape=(n, depth))
    last = dim_value(n, "int64")
    found = ops.select(ops.eq(rows, ops.gather(out, bag, axis=0)), row_numbers, last)
    first = ops.broadcast_to(last, shape=(bags, depth))
    first = ops.scatter_nd(first, reshape(bag, (n, 1)), found, reduction="min")
    nothing = ops.full(shape=(1,), dtype="int64", value=0)
    return ops.gather(ops.concat([convert(indices, "int64"), nothing], axis=0), first, axis=0)
