"""Slice, with bounds, axes and steps that are known or come from data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import check_size, number, reshape
from burn.dialect.dims import Dim, Expr, dim_max
from burn.dialect.mlir import ir
from burn.dialect.shape import slice_bounds
from burn.dialect.types import DTYPES, TensorType, type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.runtime import as_int64, integers, known_axes, length, read_sizes, scattered

OPEN = 2**31 - 1
"""Bounds of this size and beyond mean: to the end."""


@onnx_op("Slice")
def slice_(node: Node) -> ir.Value:
    x = node.type(0)
    if node.opset < 10:
        starts, ends = node.ints("starts"), node.ints("ends")
        axes: Any = node.ints("axes", tuple(range(len(starts))))
        steps: Any = (1,) * len(starts)
    else:
        starts, ends = node.dims(1), node.dims(2)
        count = _count(node)
        axes = known_axes(node, 3) if node.has_input(3) else tuple(range(count))
        steps = known_axes(node, 4) if node.has_input(4) else (1,) * count
    if axes is None or steps is None:
        return _slice_along_data(node)
    if 0 in steps:
        node.fail("a step of 0 never ends", "steps")
    at = node.axes(axes, x.rank)
    if len(at) != len(steps):
        node.fail(f"{len(at)} axes and {len(steps)} steps do not go together")
    firsts: list[Dim] = [0] * x.rank
    sizes, strides = list(x.shape), [1] * x.rank
    given = [_length(node, i, len(at)) if known is None else len(known) for i, known in ((1, starts), (2, ends))]
    if not given[0] == given[1] == len(at):
        node.fail(f"{given[0]} starts, {given[1]} ends and {len(at)} axes do not go together")
    if starts is None or ends is None:
        bounds = _runtime_bounds(node, at, steps)
    else:
        bounds = [_bounds(x.shape[a], b, e, s, _far(x, a)) for a, b, e, s in zip(at, starts, ends, steps, strict=True)]
    for axis, (first, count_), step in zip(at, bounds, steps, strict=True):
        firsts[axis], sizes[axis], strides[axis] = first, count_, step
        if sizes[axis] == 0:
            firsts[axis] = 0
    if tuple(sizes) == x.shape and set(strides) == {1}:
        return node.required(0)
    return ops.slice(node.required(0), starts=tuple(firsts), sizes=tuple(sizes), steps=tuple(strides))


def _length(node: Node, index: int, count: int) -> int:
    """The length of a vector of bounds; count, if only a run finds it out."""
    return count if isinstance(node.type(index).elements, Expr) else length(node, index)


def _count(node: Node) -> int:
    """The number of axes to slice: the length of starts or of another operand. Without a known length it is that of all axes;
    bounds of the last ones are open then."""
    known = next((i for i in range(1, 5) if node.has_input(i) and isinstance(node.type(i).elements, int)), None)
    if known is None and node.type(1).rank < 2:
        return node.type(0).rank
    return length(node, 1 if known is None else known)


def _bound(node: Node, index: int, count: int) -> ir.Value:
    """Bounds from data as a vector of a known length. Every run checks that there are as many. Without axes there may be fewer,
    and bounds of the last axes are open."""
    vector = as_int64(node, index)
    (size,) = type_of(vector).shape
    if isinstance(size, int) and size == count:
        return vector
    if any(node.has_input(i) for i in (3, 4)):
        check_size(size, "==", count, f"operand {index} of Slice has a number for each axis")
        return reshape(vector, (count,))
    check_size(size, "<=", count, f"operand {index} of Slice has at most a number for each axis")
    check_size(size, "==", node.type(1).elements, f"operand {index} of Slice has as many numbers as operand 1")
    rest = ops.full(shape=(count,), dtype="int64", value=0 if index == 1 else OPEN)
    return ops.slice(ops.concat([vector, rest], axis=0), starts=(0,), sizes=(count,), steps=(1,))


def _far(x: TensorType, axis: int) -> int:
    """A bound beyond every index of an axis: a longer tensor would not fit into an address space of 2^47 bytes."""
    others = [d for i, d in enumerate(x.shape) if i != axis and isinstance(d, int) and d > 0]
    return min(OPEN, 2**47 // max(math.prod(others) * DTYPES[x.dtype].bits // 8, 1) + 1)


def _bounds(dim: Dim, start: Dim, end: Dim, step: int, far: int) -> tuple[Dim, Dim]:
    """The first element and the count, with far bounds taken as open ends."""

    def closed(bound: Dim) -> Dim | None:
        return None if isinstance(bound, int) and abs(bound) >= far else bound

    first, last = closed(start), closed(end)
    if isinstance(start, int) and first is None and start > 0 and step > 0:
        return 0, 0  # it begins behind the end
    if isinstance(end, int) and last is None and (end > 0) != (step > 0):
        return 0, 0
    if step < 0 and isinstance(start, int) and start < 0:  # unlike numpy, it never begins before the first element
        first = 0 if first is None else dim_max(dim + start, 0)
    return slice_bounds(dim, first, last, step)


def _clamped(node: Node, bound: ir.Value, dim: ir.Value, step: ir.Value, lowest: int) -> ir.Value:
    """A bound, counted from the end when negative, brought into what a slice may name; backwards from `lowest` on."""
    zero, one = number(0, "int64"), number(1, "int64")
    bound = ops.select(ops.lt(bound, zero), ops.add(bound, dim), bound)
    forward = ops.min(ops.max(bound, zero), dim)
    backward = ops.min(ops.max(bound, number(lowest, "int64")), ops.sub(dim, one))
    return ops.select(ops.gt(step, zero), forward, backward)


def _first_and_count(node: Node, dims: ir.Value, steps: ir.Value, starts: ir.Value, ends: ir.Value) -> Any:
    """Slices' first elements and sizes, worked out on int64 vectors when the program runs."""
    zero = number(0, "int64")
    # a far negative end of a backward slice means the beginning, which adding the size must not undo
    far = ops.lt(ends, ops.neg(dims))
    first = _clamped(node, starts, dims, steps, lowest=0)
    last = ops.select(
        far, ops.select(ops.gt(steps, zero), zero, number(-1, "int64")), _clamped(node, ends, dims, steps, lowest=-1)
    )
    span = ops.sub(last, first)
    count = ops.max(ops.neg(ops.floordiv(ops.neg(span), steps)), zero)
    return ops.max(first, zero), count


def _runtime_bounds(node: Node, axes: Sequence[int], steps: Sequence[int]) -> list[tuple[Dim, Dim]]:
    """Bounds that come from data, on known axes with known steps."""
    dims = integers(node, [node.type(0).shape[a] for a in axes])
    first, count = _first_and_count(
        node, dims, integers(node, list(steps)), *(_bound(node, i, len(axes)) for i in (1, 2))
    )
    return list(zip(read_sizes(node, first), read_sizes(node, count), strict=True))


def _slice_along_data(node: Node) -> ir.Value:
    """Axes or steps that come from data: the operands are spread over all axes, and each axis is gathered."""
    x, shape = node.required(0), node.type(0).shape
    rank, count = len(shape), length(node, 1)
    axes = as_int64(node, 3) if node.has_input(3) else integers(node, list(range(count)))
    dims = integers(node, list(shape))
    spread = partial(scattered, node, axes)
    steps = spread(integers(node, [1] * rank), as_int64(node, 4)) if node.has_input(4) else integers(node, [1] * rank)
    starts = spread(ops.select(ops.gt(steps, number(0, "int64")), number(0, "int64"), dims), as_int64(node, 1))
    whole = ops.select(ops.gt(steps, number(0, "int64")), dims, ops.sub(ops.neg(dims), number(1, "int64")))
    first, sizes = _first_and_count(node, dims, steps, starts, spread(whole, as_int64(node, 2)))
    for axis, size in enumerate(read_sizes(node, sizes)):
        indices = ops.iota(shape=(size,), axis=0)
        begin, step = (ops.slice(v, starts=(axis,), sizes=(1,), steps=(1,)) for v in (first, steps))
        x = ops.gather(x, ops.add(begin, ops.mul(indices, step)), axis=axis)
    return x
