"""Shapes and arrangement: views, transpositions, joining, cutting, repeating, padding.

Where sizes, bounds or axes are known while importing (contents.py) they become numbers and symbolic sizes of the program.
Where they come from data, the same is worked out on small integer tensors, and the resulting sizes are read when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, dim_value, number, reshape, transpose
from burn.dialect.dims import Dim, dim_max, exact_div, floordiv, non_negative, product
from burn.dialect.mlir import ir
from burn.dialect.shape import slice_bounds
from burn.dialect.types import broadcast_shapes, type_of
from burn.importers.onnx.contents import slice_of_shape
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.runtime import axis_mask, integers, read_sizes, scattered

OPEN = 2**31 - 1
"""Bounds of this size and beyond mean: to the end."""


@onnx_op("Shape")
def shape(node: Node) -> ir.Value:
    return ops.dim_values(dims=node.type(0).shape[slice_of_shape(node)])


@onnx_op("Size")
def size(node: Node) -> ir.Value:
    return ops.dim_values(dims=(node.type(0).elements,), scalar=True)


# ---- views ---------------------------------------------------------------------------------------------------------------


@onnx_op("Reshape")
def reshape_(node: Node) -> ir.Value:
    x = node.required(0)
    if node.opset < 5:
        return reshape(x, _target(node, node.ints("shape")))
    target = node.dims(1)
    return reshape(x, _runtime_target(node) if target is None else _target(node, target))


def _target(node: Node, target: Sequence[Dim]) -> tuple[Dim, ...]:
    """0 keeps the operand's size (unless `allowzero`), one -1 takes what is left."""
    x = node.type(0)
    result: list[Dim] = list(target)
    if not node.int("allowzero", 0):
        for i, d in enumerate(result):
            if d == 0:
                if i >= x.rank:
                    node.fail(f"size 0 at place {i} keeps a size that {x} does not have")
                result[i] = x.shape[i]
    open_places = [i for i, d in enumerate(result) if d == -1]
    if len(open_places) > 1 or any(isinstance(d, int) and d < -1 for d in result):
        node.fail(f"[{', '.join(map(str, target))}] is not a shape")
    if open_places:
        rest = product(d for d in result if d != -1)
        total = x.elements
        if rest == 0:
            node.fail(f"the size left open in [{', '.join(map(str, target))}] is not determined")
        whole = exact_div(total, rest)
        if whole is None and isinstance(total, int) and isinstance(rest, int):
            node.fail(f"{total} elements of {x} do not fill [{', '.join(map(str, target))}]")
        result[open_places[0]] = floordiv(total, rest) if whole is None else whole
    return tuple(result)


def _runtime_target(node: Node) -> tuple[Dim, ...]:
    x, target = node.type(0), node.required(1)
    length = _length(node, 1)
    sizes = target if type_of(target).dtype == "int64" else ops.cast(target, dtype="int64")
    if not node.int("allowzero", 0):
        own = list(x.shape[:length]) + [0] * (length - x.rank)
        sizes = ops.select(ops.eq(sizes, number(0, "int64")), integers(node, own), sizes)
    left_open = ops.eq(sizes, number(-1, "int64"))
    given = ops.reduce(ops.select(left_open, number(1, "int64"), sizes), kind="prod", axes=(0,))
    rest = ops.div(dim_value(x.elements), given)
    return read_sizes(node, ops.select(left_open, rest, sizes))


def _length(node: Node, index: int) -> int:
    """How many numbers an operand of rank 0 or 1 holds."""
    type_ = node.type(index)
    count = type_.elements
    if type_.rank > 1 or not isinstance(count, int):
        node.fail(f"operand {index} must be a vector of known length, not {type_}")
    return count


@onnx_op("Flatten")
def flatten(node: Node) -> ir.Value:
    x = node.type(0)
    axis = node.int("axis", 1)
    axis = x.rank if axis == x.rank else node.axis(axis, max(x.rank, 1))
    return reshape(node.required(0), (product(x.shape[:axis]), product(x.shape[axis:])))


def _axes_operand(node: Node, index: int) -> tuple[int, ...] | None:
    """Axes that are known, else None."""
    array = node.constant(index)
    return None if array is None else tuple(int(a) for a in array.reshape(-1))


@onnx_op("Squeeze")
def squeeze(node: Node) -> ir.Value:
    x = node.type(0)
    if node.opset < 13:
        axes = node.ints("axes", None)
    elif node.has_input(1):
        axes = _axes_operand(node, 1)
        if axes is None:
            kept = _kept_sizes(node, 1, list(x.shape))
            return reshape(node.required(0), kept)
    else:
        axes = None
    if axes is None:
        at = tuple(i for i, d in enumerate(x.shape) if d == 1)
    else:
        at = node.axes(axes, x.rank)
        if wrong := [i for i in at if isinstance(x.shape[i], int) and x.shape[i] != 1]:
            node.fail(f"axis {wrong[0]} of {x} is not of size 1", "axes")
    return reshape(node.required(0), tuple(d for i, d in enumerate(x.shape) if i not in at))


def _kept_sizes(node: Node, index: int, dims: list[Dim]) -> tuple[Dim, ...]:
    """The sizes of those axes that an operand does not list, read at run time."""
    count = len(dims) - _length(node, index)
    chosen = axis_mask(node, node.required(index), len(dims))
    _, order = ops.sort(ops.cast(chosen, dtype="int64"), axis=0)
    first = ops.slice(order, starts=(0,), sizes=(count,), steps=(1,))
    return read_sizes(node, ops.gather(integers(node, dims), first, axis=0))


@onnx_op("Unsqueeze")
def unsqueeze(node: Node) -> ir.Value:
    x = node.type(0)
    axes = node.ints("axes") if node.opset < 13 else _axes_operand(node, 1)
    if axes is None:
        rank = x.rank + _length(node, 1)
        added = axis_mask(node, node.required(1), rank)
        own = ops.sub(ops.cumulative(ops.cast(ops.not_(added), dtype="int64"), kind="sum", axis=0), number(1, "int64"))
        sizes = ops.gather(integers(node, [*x.shape, 1]), ops.max(own, number(0, "int64")), axis=0)
        return reshape(node.required(0), read_sizes(node, ops.select(added, number(1, "int64"), sizes)))
    rank = x.rank + len(axes)
    at = node.axes(axes, rank)
    rest = iter(x.shape)
    return reshape(node.required(0), tuple(1 if i in at else next(rest) for i in range(rank)))


@onnx_op("Transpose")
def transpose_(node: Node) -> ir.Value:
    rank = node.type(0).rank
    permutation = node.ints("perm", tuple(reversed(range(rank))))
    return transpose(node.required(0), node.axes(permutation, rank, "perm"))


@onnx_op("Expand")
def expand(node: Node) -> ir.Value:
    x, target = node.type(0), node.read_dims(1)
    try:
        return broadcast_to(node.required(0), broadcast_shapes(x.shape, target))
    except ValueError as error:
        node.fail(str(error))


@onnx_op("Tile")
def tile(node: Node) -> ir.Value:
    """Each axis becomes two, [repeats, size], that are then taken together."""
    x, shape = node.required(0), node.type(0).shape
    if node.opset < 6:
        count, axis = node.read_dims(1), node.read_dims(2)
        if not isinstance(axis[0], int):
            node.fail("the axis (operand 2) must be a constant")
        repeats: tuple[Dim, ...] = tuple(count[0] if i == axis[0] else 1 for i in range(len(shape)))
    else:
        repeats = node.read_dims(1)
    if len(repeats) != len(shape):
        node.fail(f"{len(repeats)} repeats do not fit {node.type(0)}")
    pairs = [d for r, d in zip(repeats, shape, strict=True) for d in ((r, d) if r != 1 else (d,))]
    ones = [d for r, d in zip(repeats, shape, strict=True) for d in ((1, d) if r != 1 else (d,))]
    whole = broadcast_to(reshape(x, tuple(ones)), tuple(pairs))
    return reshape(whole, tuple(r * d for r, d in zip(repeats, shape, strict=True)))


# ---- joining and cutting -------------------------------------------------------------------------------------------------


@onnx_op("Concat")
def concat(node: Node) -> ir.Value:
    axis = node.int("axis", 1 if node.opset < 4 else 0)
    parts = node.tensors()
    return parts[0] if len(parts) == 1 else ops.concat(parts, axis=node.axis(axis, node.type(0).rank))


@onnx_op("Split")
def split(node: Node) -> list[ir.Value]:
    x = node.type(0)
    axis = node.axis(node.int("axis", 0), x.rank)
    starts: list[Dim] = [0]
    for size in (sizes := _split_sizes(node, x.shape[axis])):
        starts.append(starts[-1] + size)
    total = x.shape[axis]
    if isinstance(starts[-1], int) and isinstance(total, int) and starts[-1] != total:
        node.fail(f"sizes {', '.join(map(str, sizes))} do not add up to {total}")
    return [_cut(node.required(0), axis, a, b) for a, b in zip(starts, sizes, strict=False)]


def _split_sizes(node: Node, total: Dim) -> list[Dim]:
    if node.opset < 13 and node.has("split"):
        sizes: Sequence[Dim] = node.ints("split")
    elif node.has_input(1):
        sizes = node.read_dims(1)
    else:
        count = node.int("num_outputs", len(node.outputs))
        if count < 1:
            node.fail("must be at least 1", "num_outputs")
        whole = exact_div(total, count)
        chunk = floordiv(total + (count - 1), count) if whole is None else whole
        sizes = [chunk] * (count - 1) + [total - chunk * (count - 1)]
        if isinstance(total, int) and isinstance(chunk, int):
            sizes = [max(0, min(chunk, total - i * chunk)) for i in range(count)]
    if len(sizes) < len(node.outputs) or any(isinstance(s, int) and s < 0 for s in sizes):
        node.fail(f"{', '.join(map(str, sizes))} are not sizes of {len(node.outputs)} outputs")
    return list(sizes)


def _cut(x: ir.Value, axis: int, start: Dim, size: Dim) -> ir.Value:
    shape = type_of(x).shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(size if i == axis else d for i, d in enumerate(shape))
    return x if sizes == shape else ops.slice(x, starts=starts, sizes=sizes, steps=(1,) * len(shape))


@onnx_op("Slice")
def slice_(node: Node) -> ir.Value:
    x = node.type(0)
    if node.opset < 10:
        starts, ends = node.ints("starts"), node.ints("ends")
        axes: Any = node.ints("axes", tuple(range(len(starts))))
        steps: Any = (1,) * len(starts)
    else:
        starts, ends = node.dims(1), node.dims(2)
        count = _length(node, 1)
        axes = _axes_operand(node, 3) if node.has_input(3) else tuple(range(count))
        steps = _axes_operand(node, 4) if node.has_input(4) else (1,) * count
    if axes is None or steps is None:
        return _slice_along_data(node)
    if 0 in steps:
        node.fail("a step of 0 never ends", "steps")
    at = node.axes(axes, x.rank)
    if len(at) != len(steps):
        node.fail(f"{len(at)} axes and {len(steps)} steps do not go together")
    firsts: list[Dim] = [0] * x.rank
    sizes, strides = list(x.shape), [1] * x.rank
    if starts is None or ends is None:
        bounds = _runtime_bounds(node, at, steps)
    else:
        if not len(starts) == len(ends) == len(at):
            node.fail(f"{len(starts)} starts, {len(ends)} ends and {len(at)} axes do not go together")
        bounds = [_bounds(x.shape[a], b, e, s) for a, b, e, s in zip(at, starts, ends, steps, strict=True)]
    for axis, (first, count_), step in zip(at, bounds, steps, strict=True):
        firsts[axis], sizes[axis], strides[axis] = first, count_, step
        if sizes[axis] == 0:
            firsts[axis] = 0
    if tuple(sizes) == x.shape and set(strides) == {1}:
        return node.required(0)
    return ops.slice(node.required(0), starts=tuple(firsts), sizes=tuple(sizes), steps=tuple(strides))


def _bounds(dim: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """The first element and the count, with far bounds taken as open ends."""

    def closed(bound: Dim) -> Dim | None:
        return None if isinstance(bound, int) and abs(bound) >= OPEN else bound

    first, last = closed(start), closed(end)
    if isinstance(start, int) and first is None and (start > 0) == (step > 0):
        return 0, 0  # it begins behind the end
    if isinstance(end, int) and last is None and (end > 0) != (step > 0):
        return 0, 0
    return slice_bounds(dim, first, last, step)


def _clamped(node: Node, bound: ir.Value, dim: ir.Value, step: ir.Value) -> ir.Value:
    """A bound, counted from the end when negative, brought into what a slice may name."""
    zero, one = number(0, "int64"), number(1, "int64")
    bound = ops.select(ops.lt(bound, zero), ops.add(bound, dim), bound)
    forward = ops.min(ops.max(bound, zero), dim)
    backward = ops.min(ops.max(bound, number(-1, "int64")), ops.sub(dim, one))
    return ops.select(ops.gt(step, zero), forward, backward)


def _first_and_count(node: Node, dims: ir.Value, steps: ir.Value, starts: ir.Value, ends: ir.Value) -> Any:
    """Slices' first elements and sizes, worked out on int64 vectors when the program runs."""
    zero = number(0, "int64")
    # a far negative end of a backward slice means the beginning, which adding the size must not undo
    far = ops.lt(ends, ops.neg(dims))
    first = _clamped(node, starts, dims, steps)
    last = ops.select(far, ops.select(ops.gt(steps, zero), zero, number(-1, "int64")), _clamped(node, ends, dims, steps))
    span = ops.sub(last, first)
    count = ops.max(ops.neg(ops.floordiv(ops.neg(span), steps)), zero)
    return ops.max(first, zero), count


def _int64(node: Node, index: int) -> ir.Value:
    value = node.required(index)
    return value if type_of(value).dtype == "int64" else ops.cast(value, dtype="int64")


def _runtime_bounds(node: Node, axes: Sequence[int], steps: Sequence[int]) -> list[tuple[Dim, Dim]]:
    """Bounds that come from data, on known axes with known steps."""
    dims = integers(node, [node.type(0).shape[a] for a in axes])
    first, count = _first_and_count(node, dims, integers(node, list(steps)), _int64(node, 1), _int64(node, 2))
    return list(zip(read_sizes(node, first), read_sizes(node, count), strict=True))


def _slice_along_data(node: Node) -> ir.Value:
    """Axes or steps that come from data: the operands are spread over all axes, and each axis is gathered."""
    x, shape = node.required(0), node.type(0).shape
    rank, count = len(shape), _length(node, 1)
    axes = _int64(node, 3) if node.has_input(3) else integers(node, list(range(count)))
    dims = integers(node, list(shape))
    spread = partial(scattered, node, axes)
    steps = spread(integers(node, [1] * rank), _int64(node, 4)) if node.has_input(4) else integers(node, [1] * rank)
    starts = spread(ops.select(ops.gt(steps, number(0, "int64")), number(0, "int64"), dims), _int64(node, 1))
    whole = ops.select(ops.gt(steps, number(0, "int64")), dims, ops.sub(ops.neg(dims), number(1, "int64")))
    first, sizes = _first_and_count(node, dims, steps, starts, spread(whole, _int64(node, 2)))
    for axis, size in enumerate(read_sizes(node, sizes)):
        places = ops.iota(shape=(size,), axis=0)
        begin, step = (ops.slice(v, starts=(axis,), sizes=(1,), steps=(1,)) for v in (first, steps))
        x = ops.gather(x, ops.add(begin, ops.mul(places, step)), axis=axis)
    return x


# ---- padding -------------------------------------------------------------------------------------------------------------


@onnx_op("Pad")
def pad(node: Node) -> ir.Value:
    x, rank = node.required(0), node.type(0).rank
    mode = node.string("mode", "constant")
    low, crop_low, high, crop_high = _pads(node, rank)
    if mode == "constant":
        dtype = type_of(x).dtype
        if node.opset < 11:
            value = number(node.float("value", 0.0), dtype)
        else:
            value = reshape(node.input(2), ()) if node.has_input(2) else number(0, dtype)
        x = _cropped(x, crop_low, crop_high)
        return x if not any((*low, *high)) else ops.pad(x, value, low=tuple(low), high=tuple(high))
    if mode not in ("reflect", "edge", "wrap"):
        node.fail(f"'{mode}' is none of constant, reflect, edge, wrap", "mode")
    for axis in range(rank):
        before, after = low[axis] - crop_low[axis], high[axis] - crop_high[axis]
        if before != 0 or after != 0:
            places = _reflected(mode, type_of(x).shape[axis], before, after)
            x = ops.gather(x, places, axis=axis)
    return x


def _pads(node: Node, rank: int) -> tuple[list[Dim], list[Dim], list[Dim], list[Dim]]:
    """What to add and what to take off: before each axis, and after it."""
    if node.opset < 11:
        given: Sequence[Dim] | None = node.ints("pads" if node.opset >= 2 else "paddings")
    else:
        given = node.dims(1)
    axes: Any = tuple(range(rank))
    if node.has_input(3):
        axes = _axes_operand(node, 3)
    if given is None or axes is None:
        return _runtime_pads(node, rank)
    at = node.axes(axes, rank)
    if len(given) != 2 * len(at):
        node.fail(f"{len(given)} pads do not fit {len(at)} axes", "pads")
    before: list[Dim] = [0] * rank
    after: list[Dim] = [0] * rank
    for place, axis in enumerate(at):
        before[axis], after[axis] = given[place], given[place + len(at)]
    return _positive(before), _positive([p * -1 for p in before]), _positive(after), _positive([p * -1 for p in after])


def _positive(pads: list[Dim]) -> list[Dim]:
    return [p if non_negative(p) else dim_max(p, 0) for p in pads]


def _runtime_pads(node: Node, rank: int) -> tuple[list[Dim], list[Dim], list[Dim], list[Dim]]:
    pads, count = _int64(node, 1), _length(node, 1)
    halves = [ops.slice(pads, starts=(i * (count // 2),), sizes=(count // 2,), steps=(1,)) for i in (0, 1)]
    if node.has_input(3):
        zeros = integers(node, [0] * rank)
        halves = [scattered(node, _int64(node, 3), zeros, half) for half in halves]
    elif count != 2 * rank:
        node.fail(f"{count} pads do not fit {node.type(0)}", "pads")
    zero = number(0, "int64")
    before, after = ([ops.max(half, zero), ops.max(ops.neg(half), zero)] for half in halves)
    low, crop_low, high, crop_high = (list(read_sizes(node, part)) for part in (*before, *after))
    return low, crop_low, high, crop_high


def _cropped(x: ir.Value, before: Sequence[Dim], after: Sequence[Dim]) -> ir.Value:
    if not any((*before, *after)):
        return x
    shape = type_of(x).shape
    sizes = tuple(d - a - b for d, a, b in zip(shape, before, after, strict=True))
    return ops.slice(x, starts=tuple(before), sizes=sizes, steps=(1,) * len(shape))


def _reflected(mode: str, dim: Dim, before: Dim, after: Dim) -> ir.Value:
    """The place that each element of a padded axis comes from."""
    places = ops.sub(ops.iota(shape=(before + dim + after,), axis=0), dim_value(before))
    zero, last = number(0, "int64"), dim_value(dim - 1)
    if mode == "edge":
        return ops.min(ops.max(places, zero), last)
    if mode == "wrap":
        return ops.mod(places, dim_value(dim))
    period = ops.max(ops.mul(last, number(2, "int64")), number(1, "int64"))
    return ops.sub(last, ops.abs(ops.sub(ops.mod(places, period), last)))


# ---- rearranging ---------------------------------------------------------------------------------------------------------


@onnx_op("DepthToSpace")
def depth_to_space(node: Node) -> ir.Value:
    x, (n, c, *spatial), block = _blocks(node)
    k = len(spatial)
    inner = _parts(node, c, block**k)
    if node.string("mode", "DCR") == "CRD":
        split = reshape(x, (n, inner, *[block] * k, *spatial))
        order = (0, 1, *(axis for i in range(k) for axis in (2 + k + i, 2 + i)))
    else:
        split = reshape(x, (n, *[block] * k, inner, *spatial))
        order = (0, k + 1, *(axis for i in range(k) for axis in (2 + k + i, 1 + i)))
    return reshape(transpose(split, order), (n, inner, *(d * block for d in spatial)))


@onnx_op("SpaceToDepth")
def space_to_depth(node: Node) -> ir.Value:
    x, (n, c, *spatial), block = _blocks(node)
    k = len(spatial)
    sizes = [_parts(node, d, block) for d in spatial]
    split = reshape(x, (n, c, *(d for size in sizes for d in (size, block))))
    order = (0, *(3 + 2 * i for i in range(k)), 1, *(2 + 2 * i for i in range(k)))
    if node.string("mode", "DCR") == "CRD":
        order = (0, 1, *(3 + 2 * i for i in range(k)), *(2 + 2 * i for i in range(k)))
    return reshape(transpose(split, order), (n, c * math.prod([block] * k), *sizes))


def _parts(node: Node, size: Dim, block: int) -> Dim:
    """size / block; a symbolic size is taken to divide."""
    whole = exact_div(size, block)
    if whole is None and isinstance(size, int):
        node.fail(f"size {size} does not split into blocks of {block}", "blocksize")
    return floordiv(size, block) if whole is None else whole


def _blocks(node: Node) -> tuple[ir.Value, tuple[Dim, ...], int]:
    x, block = node.required(0), node.int("blocksize")
    if block < 1:
        node.fail(f"must be at least 1, not {block}", "blocksize")
    if type_of(x).rank < 3:
        node.fail(f"takes a batch of images, not {type_of(x)}")
    return x, type_of(x).shape, block


@onnx_op("Trilu")
def trilu(node: Node) -> ir.Value:
    """Keeps the triangle above (or below) the k-th diagonal of the last two axes."""
    x, shape = node.required(0), node.type(0).shape
    if len(shape) < 2:
        node.fail(f"takes matrices, not {node.type(0)}")
    rows, columns = (ops.iota(shape=shape[-2:], axis=axis) for axis in (0, 1))
    k = reshape(node.input(1), ()) if node.has_input(1) else number(0, "int64")
    distance = ops.sub(columns, rows)
    kept = ops.ge(distance, k) if node.int("upper", 1) else ops.le(distance, k)
    dtype = type_of(x).dtype
    return ops.select(kept, x, number(0, dtype))
