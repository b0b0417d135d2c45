"""A tensor with one of its views overwritten: the counterparts of `diagonal` and `as_strided`.

Parts of an axis (`slice_scatter`, `select_scatter`) are in view.py; indexing by tensors is in index.py."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, reshape, transpose
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.view import memory_order, strided_indices


@aten("diagonal_scatter.default")
def diagonal_scatter(node: Node, x: ir.Value, src: ir.Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> ir.Value:
    """Element k of src's last axis goes to row k + max(-offset, 0) of the matrices over the axes dim1 and dim2."""
    count = type_of(src).shape[-1]
    if count == 0:
        return x
    rank, a, b = type_of(x).rank, node.axis(dim1, x), node.axis(dim2, x)
    order = (*(i for i in range(rank) if i not in (a, b)), a, b)
    height, width = type_of(x).shape[a], type_of(x).shape[b]
    row, column = ops.iota(shape=(height, 1), axis=0), ops.iota(shape=(1, width), axis=1)
    inside = ops.eq(ops.sub(column, row), number(offset, "int64"))
    index = ops.sub(ops.iota(shape=(height,), axis=0), number(max(-offset, 0), "int64"))
    index = ops.min(ops.max(index, number(0, "int64")), ops.sub(dim_value(count), number(1, "int64")))
    rows = ops.gather(node.as_result(src), index, axis=rank - 2)
    written = ops.select(inside, reshape(rows, (*type_of(rows).shape, 1)), transpose(x, order))
    return transpose(written, tuple(order.index(i) for i in range(rank)))


@aten("as_strided_scatter.default")
def as_strided_scatter(
    node: Node, x: ir.Value, src: ir.Value, size: list[Dim], stride: list[Dim], offset: Any = None
) -> ir.Value:
    """src at indices of torch's memory of x; if several elements of src have one index, the last wins."""
    total, order = type_of(src).elements, memory_order(node)
    memory = transpose(x, order)
    indices = reshape(strided_indices(node, size, stride, offset), (total, 1))
    flat = reshape(memory, (type_of(x).elements,))
    updates = reshape(convert(src, type_of(x).dtype), (total,))
    written = reshape(ops.scatter_nd(flat, indices, updates, reduction="none"), type_of(memory).shape)
    return transpose(written, tuple(order.index(axis) for axis in range(len(order))))
