"""Batching rules of reads and writes at indices: the mapped axis is one of their batch axes, or one more index."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.rules import Call, later, moved
from burn.dialect.compose import broadcast_to, convert, reshape
from burn.dialect.deferred import Value
from burn.dialect.types import type_of


def gather(call: Call) -> Value:
    x, indices = call.operands
    axis = call.attrs["axis"] % x.type.rank
    if not indices.mapped:
        return call.build([x.value, indices.value], axis=axis + 1)
    if not x.mapped:
        return moved(call.build([x.value, indices.value], axis=axis), axis, 0)
    # each example reads its own: [B, d, a.., b..] at [B, i.., 1]
    where = reshape(indices.value, (*type_of(indices.value).shape, 1))
    read = ops.gather_nd(moved(x.value, axis + 1, 1), where, batch_dims=1)  # [B, i.., a.., b..]
    count, rank = indices.type.rank, type_of(read).rank
    first = (0, *range(1 + count, 1 + count + axis))
    order = (*first, *range(1, 1 + count), *range(1 + count + axis, rank))
    return read if order == tuple(range(rank)) else ops.transpose(read, permutation=order)


def gather_elements(call: Call) -> Value:
    return _by_example(call)


def scatter_elements(call: Call) -> Value:
    return _by_example(call)


def _by_example(call: Call) -> Value:
    """All operands have the axes of x."""
    axis = later(call.attrs["axis"])
    return call.build([item.all(call.size) for item in call.operands], axis=axis)


def gather_nd(call: Call) -> Value:
    x, indices = call.operands
    if not x.mapped and not call.attrs["batch_dims"]:
        return call.build([x.value, indices.value])
    return call.build([x.all(call.size), indices.all(call.size)], batch_dims=call.attrs["batch_dims"] + 1)


def scatter_nd(call: Call) -> Value:
    """The number of the example is a further index."""
    x, indices, updates = (item.all(call.size) for item in call.operands)
    indices = convert(indices, "int64")  # a narrow type may not hold the number of examples
    shape = type_of(indices).shape
    example = reshape(ops.iota(shape=(call.size,), axis=0), (call.size, *(1,) * (len(shape) - 1)))
    example = broadcast_to(example, (*shape[:-1], 1))
    return call.build([x, ops.concat([example, indices], axis=len(shape) - 1), updates])
