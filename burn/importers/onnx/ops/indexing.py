"""Indexing by tensors: gathers, scatters, sorting, one-hot codes, and finding elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import along, broadcast_to, check_size, convert, dim_value, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, type_of
from burn.importers.onnx.node import Node, onnx_op

REDUCTIONS = ("none", "add", "mul", "max", "min")


@onnx_op("Gather")
def gather(node: Node) -> ir.Value:
    axis = node.axis(node.int("axis", 0), node.type(0).rank)
    return ops.gather(node.required(0), node.required(1), axis=axis)


@onnx_op("GatherElements")
def gather_elements(node: Node) -> ir.Value:
    axis = node.axis(node.int("axis", 0), node.type(0).rank)
    return ops.gather_elements(node.required(0), node.required(1), axis=axis)


@onnx_op("GatherND")
def gather_nd(node: Node) -> ir.Value:
    return ops.gather_nd(node.required(0), node.required(1), batch_dims=node.int("batch_dims", 0))


def _reduction(node: Node) -> str:
    reduction = node.string("reduction", "none")
    if reduction not in REDUCTIONS:
        node.fail(f"'{reduction}' is none of {', '.join(REDUCTIONS)}", "reduction")
    return reduction


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(node: Node) -> ir.Value:
    axis = node.axis(node.int("axis", 0), node.type(0).rank)
    data, indices, updates = (node.required(i) for i in range(3))
    return ops.scatter_elements(data, indices, updates, axis=axis, reduction=_reduction(node))


@onnx_op("ScatterND")
def scatter_nd(node: Node) -> ir.Value:
    data, indices, updates = (node.required(i) for i in range(3))
    return ops.scatter_nd(data, indices, updates, reduction=_reduction(node))


@onnx_op("TensorScatter")
def tensor_scatter(node: Node) -> ir.Value:
    """Writes the update into the cache from `write_indices` on, along the sequence axis; one index a sample."""
    cache, update = node.required(0), node.required(1)
    rank = node.type(0).rank
    axis = node.axis(node.int("axis", -2), rank)
    mode = node.string("mode", "linear")
    if mode not in ("linear", "circular"):
        node.fail(f"'{mode}' is neither linear nor circular", "mode")
    shape = node.type(1).shape
    wrapped = ops.iota(shape=shape, axis=axis)
    if node.has_input(2):
        wrapped = ops.add(wrapped, along(convert(node.required(2), "int64"), 0, rank))
    if mode == "circular":
        wrapped = ops.mod(wrapped, dim_value(node.type(0).shape[axis]))
    return ops.scatter_elements(cache, wrapped, update, axis=axis)


@onnx_op("OneHot")
def one_hot(node: Node) -> ir.Value:
    """The second of `values` at the given index along the new axis, the first elsewhere, also for indices out of range."""
    indices, rank = convert(node.required(0), "int64"), node.type(0).rank
    axis = node.axis(node.int("axis", -1), rank + 1)
    depth = _depth(node)
    size = dim_value(depth)
    wrapped = ops.select(ops.lt(indices, number(0, "int64")), ops.add(indices, size), indices)
    shape = type_of(indices).shape
    wrapped = reshape(wrapped, (*shape[:axis], 1, *shape[axis:]))
    wanted = ops.iota(shape=tuple(depth if i == axis else 1 for i in range(rank + 1)), axis=axis)
    off, on = (reshape(ops.slice(node.required(2), starts=(i,), sizes=(1,), steps=(1,)), ()) for i in (0, 1))
    return ops.select(ops.eq(wrapped, wanted), on, off)


def _depth(node: Node) -> Dim:
    known = node.scalar(1)
    if isinstance(known, float):
        return int(known)
    if known is not None:
        return known
    depth = node.required(1)
    return node.read_dim(convert(depth, "int64"), hint="depth") if node.type(1).dtype in FLOATS else node.read_one(1)


@onnx_op("NonZero")
def non_zero(node: Node) -> ir.Value:
    """A scalar has no axes, so its result has no rows of indices."""
    if not node.type(0).rank:
        count = ops.nonzero(reshape(node.required(0), (1,)), count=node.fresh("nonzero"))
        return ops.slice(count, starts=(0, 0), sizes=(0, type_of(count).shape[1]), steps=(1, 1))
    return ops.nonzero(node.required(0), count=node.fresh("nonzero"))


@onnx_op("Compress")
def compress(node: Node) -> ir.Value:
    x, known = node.required(0), node.constant(1)
    if known is not None:  # the number of elements is also known
        wrapped = node.array(np.flatnonzero(known), "chosen")
    else:
        wrapped = ops.nonzero(node.required(1), count=node.fresh("compress"))
        wrapped = reshape(wrapped, (type_of(wrapped).shape[1],))
    if not node.has("axis"):
        return ops.gather(reshape(x, (node.type(0).elements,)), wrapped, axis=0)
    return ops.gather(x, wrapped, axis=node.axis(node.int("axis"), node.type(0).rank))


@onnx_op("TopK")
def top_k(node: Node) -> Any:
    x, shape = node.required(0), node.type(0).shape
    axis = node.axis(node.int("axis", -1), len(shape))
    count: Dim = node.int("k") if node.opset < 10 else node.read_one(1)
    size = shape[axis]
    if isinstance(count, int) and isinstance(size, int) and not 0 <= count <= size:
        node.fail(f"k = {count} is not between 0 and the {size} elements of axis {axis}")
    check_size(count, "<=", size, "TopK has so many elements to choose")
    sizes = tuple(count if i == axis else d for i, d in enumerate(shape))
    node.no_effect("sorted", because="elements in order are what any order may be")
    ordered = ops.sort(x, axis=axis, descending=bool(node.int("largest", 1)))
    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    return [ops.slice(v, starts=zeros, sizes=sizes, steps=ones) for v in ordered]


@onnx_op("Unique")
def unique(node: Node) -> Any:
    type_ = node.type(0)
    axis = node.axis(node.int("axis"), type_.rank) if node.has("axis") else None
    x, by_value = node.required(0), bool(node.int("sorted", 1))
    if type_.dtype != "string" or not by_value:
        return ops.unique(x, count=node.fresh("unique"), axis=axis, sorted=by_value)
    # strings are compared by identity; their order is that of their ranks
    _, first, inverse, counts = ops.unique(ops.string_rank(x), count=node.fresh("unique"), axis=axis, sorted=True)
    values = ops.gather(x if axis is not None else reshape(x, (type_.elements,)), first, axis=axis or 0)
    return [values, first, inverse, counts]


@onnx_op("ArgMax", "ArgMin")
def arg_reduce(node: Node) -> ir.Value:
    return ops.arg_reduce(
        node.required(0),
        kind="max" if node.op == "ArgMax" else "min",
        axis=node.axis(node.int("axis", 0), node.type(0).rank),
        keepdims=bool(node.int("keepdims", 1)),
        last=bool(node.int("select_last_index", 0)),
    )


@onnx_op("ReverseSequence")
def reverse_sequence(node: Node) -> ir.Value:
    """Turns round the first `sequence_lens` steps of each sample."""
    x, shape = node.required(0), node.type(0).shape
    rank = len(shape)
    batch = node.axis(node.int("batch_axis", 1), rank, "batch_axis")
    time = node.axis(node.int("time_axis", 0), rank, "time_axis")
    if batch == time:
        node.fail("the batch and time axes must differ", "time_axis")
    lengths = along(convert(node.required(1), "int64"), batch, rank)
    steps = ops.iota(shape=tuple(d if i == time else 1 for i, d in enumerate(shape)), axis=time)
    turned = ops.sub(ops.sub(lengths, number(1, "int64")), steps)
    wrapped = ops.select(ops.lt(steps, lengths), turned, steps)
    return ops.gather_elements(x, broadcast_to(wrapped, shape), axis=time)
