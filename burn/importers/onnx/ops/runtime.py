"""Axes and sizes that come from data: small integer tensors that say what others find while importing."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node

MAX_RANK = 64


def integers(node: Node, dims: Sequence[Dim]) -> ir.Value:
    """Known sizes as an int64 vector."""
    return node.sizes(dims)


def read_sizes(node: Node, vector: ir.Value, minimum: int = 0) -> tuple[Dim, ...]:
    """The elements of an int64 vector of known length, read as sizes."""
    (count,) = type_of(vector).shape
    assert isinstance(count, int)
    return tuple(node.read_dim(vector, k, minimum) for k in range(count))


def wrapped(axes: ir.Value, rank: int) -> ir.Value:
    """Axes with negative ones counted from the end, as a vector of int64."""
    if type_of(axes).dtype != "int64":
        axes = ops.cast(axes, dtype="int64")
    flat = ops.reshape(axes, shape=(type_of(axes).elements,))
    return ops.select(ops.lt(flat, number(0, "int64")), ops.add(flat, number(rank, "int64")), flat)


def axis_mask(node: Node, axes: ir.Value, rank: int) -> ir.Value:
    """A bool for each of `rank` axes: whether the vector lists it."""
    flat = wrapped(axes, rank)
    (count,) = type_of(flat).shape
    listed = ops.reshape(flat, shape=(1, count))
    return ops.reduce(ops.eq(ops.iota(shape=(rank, 1), axis=0), listed), kind="any", axes=(1,))


def sizes_kept(dims: ir.Value, dropped: ir.Value, count: int) -> ir.Value:
    """The first `count` of those sizes that are not dropped, in order."""
    (rank,) = type_of(dims).shape
    kept = ops.cast(ops.not_(dropped), dtype="int64")
    target = ops.sub(ops.cumulative(kept, kind="sum", axis=0), number(1, "int64"))
    here = ops.and_(ops.not_(dropped), ops.eq(ops.iota(shape=(count, rank), axis=0), target))
    return ops.reduce(ops.select(here, dims, number(0, "int64")), kind="sum", axes=(1,))


def scattered(node: Node, axes: ir.Value, onto: ir.Value, values: ir.Value) -> ir.Value:
    """One number an axis: `values` on the listed axes, `onto` on the rest."""
    (rank,) = type_of(onto).shape
    assert isinstance(rank, int)
    return ops.scatter_elements(onto, wrapped(axes, rank), values, axis=0)


def length(node: Node, index: int) -> int:
    """The length of a vector that has one number for each of some axes; a scalar is a vector of one."""
    type_ = node.type(index)
    count = type_.elements
    if type_.rank > 1 or not isinstance(count, int):
        node.fail(f"operand {index} must be a vector of known length, not {type_}")
    if count > MAX_RANK:
        node.fail(f"operand {index} has {count} elements, one for each axis; tensors have at most {MAX_RANK} axes")
    return count


def known_axes(node: Node, index: int) -> tuple[int, ...] | None:
    """Axes that are known, else None."""
    array = node.constant(index)
    return None if array is None else tuple(int(a) for a in array.reshape(-1))


def as_int64(node: Node, index: int) -> ir.Value:
    """A vector, or a scalar as one, in int64."""
    value = convert(node.required(index), "int64")
    return value if type_of(value).rank else reshape(value, (1,))
