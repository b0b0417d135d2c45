"""Ops that give a value another shape or order, or join values."""

from __future__ import annotations

import math

import numpy as np

from ..graph import Graph
from ..values import BOOL, Reject, Value, is_float, known
from .registry import negative, step

FAR = 2**63 - 1
FACTORS = (2, 3, 4, 5)


def has_axes(value: Value) -> bool:
    return value.rank > 0


def matrix(value: Value) -> bool:
    return value.rank >= 2


@step(7)
def transpose(graph: Graph) -> None:
    value = graph.pick(matrix)
    order = list(range(value.rank))
    graph.random.shuffle(order)
    graph.node("Transpose", value, perm=order if graph.chance(0.9) else None)


@step(7)
def reshape(graph: Graph) -> None:
    value = graph.pick(has_axes)
    shape = graph.choice([flat, rest, merged, divided, divided, factored])(graph, value)
    graph.node("Reshape", value, np.array(shape, np.int64))


def flat(graph: Graph, value: Value) -> list[int]:
    return [-1]


def rest(graph: Graph, value: Value) -> list[int]:
    """Some axes as they are, two in one, the others by number."""
    if value.rank < 2:
        raise Reject("rank")
    at = graph.random.randrange(value.rank - 1)
    return [0] * at + [-1, *known(value.dims[at + 2 :])]


def merged(graph: Graph, value: Value) -> list[int]:
    if value.rank < 2:
        raise Reject("rank")
    at = graph.random.randrange(value.rank - 1)
    one, other = value.dims[at : at + 2]
    return [0] * at + [-1 if one is None or other is None else one * other, *known(value.dims[at + 2 :])]


def divided(graph: Graph, value: Value) -> list[int]:
    """One axis becomes two."""
    dims = value.dims
    axes = [
        axis for axis, size in enumerate(dims) if size and size > 3 and any(size % factor == 0 for factor in FACTORS)
    ]
    if not axes:
        raise Reject("no axis to divide")
    axis = graph.choice(axes)
    size = dims[axis] or 1
    factor = graph.choice([factor for factor in FACTORS if size % factor == 0])
    parts: list[int | None] = [factor, size // factor]
    graph.random.shuffle(parts)
    shape = [0] * axis + parts + dims[axis + 1 :]
    if shape.count(None) == 1:
        shape[shape.index(None)] = -1
    elif None not in shape and graph.chance(0.5):
        shape[graph.random.randrange(axis, len(shape))] = -1
    return known(shape)


def factored(graph: Graph, value: Value) -> list[int]:
    """The same number of elements, cut anew."""
    total, shape = math.prod(known(value.dims)), []
    for factor in (2, 3, 5, 7):
        while total and total % factor == 0 and len(shape) < 3 and graph.chance(0.6):
            shape.append(factor)
            total //= factor
    shape.append(total)
    graph.random.shuffle(shape)
    return shape


@step(3)
def reshape_computed(graph: Graph) -> None:
    """The shape as exporters compute it: Shape, Gather, Concat, Reshape."""
    value = graph.pick(matrix)
    merged_at = graph.random.randrange(value.rank - 1)
    (shape,) = graph.node("Shape", value)
    parts: list[str | np.ndarray] = []
    for axis in range(value.rank):
        if axis == merged_at:
            parts.append(np.array([-1], np.int64))
        elif axis != merged_at + 1:
            parts += graph.node("Gather", shape, np.array([axis], np.int64), axis=0)
    (target,) = graph.node("Concat", *parts, axis=0)
    graph.node("Reshape", value, target)


@step(7)
def slice(graph: Graph) -> None:
    value = graph.pick(has_axes)
    axes = graph.random.sample(range(value.rank), graph.random.randint(1, min(value.rank, 3)))
    bounds = [_bounds(graph) for _ in axes]
    dtype = graph.choice([np.int64, np.int64, np.int32])
    limits = np.iinfo(dtype)
    columns = [
        np.array([min(max(n, limits.min), limits.max) for n in column], dtype) for column in zip(*bounds, strict=True)
    ]
    starts, ends, steps = columns
    graph.node("Slice", value, starts, ends, np.array([negative(graph, a, value.rank) for a in axes], dtype), steps)


def _bounds(graph: Graph) -> tuple[int, int, int]:
    step = graph.choice([1, 1, 1, 2, 3, -1, -1, -2, -3])
    if step > 0:
        return graph.choice([0, 0, 1, 2, -2, -3, -100]), graph.choice([2**31 - 1, FAR, 3, 5, -1, -2, 100, 4]), step
    return graph.choice([-1, -1, 2**31 - 1, 3, 100, 5]), graph.choice([-(2**31), -FAR - 1, 0, 1, -100, -4]), step


@step(2)
def slice_computed(graph: Graph) -> None:
    """Bounds that are read from a shape, or that are scalars made while the model runs."""
    value, other = graph.pick(has_axes), graph.pick(has_axes)
    axis = graph.random.randrange(value.rank)
    (shape,) = graph.node("Shape", other)
    (end,) = graph.node("Gather", shape, np.array([graph.random.randrange(other.rank)], np.int64))
    if graph.chance(0.4):
        (end,) = graph.node("Sub", end, np.array([1], np.int64))
    graph.node("Slice", value, np.array([0], np.int64), end, np.array([axis], np.int64))


@step(5)
def concat(graph: Graph) -> None:
    value = graph.pick(has_axes)
    axis = graph.random.randrange(value.rank)

    def others(array: np.ndarray) -> tuple[int, ...]:
        return array.shape[:axis] + array.shape[axis + 1 :]

    def fits(other: Value) -> bool:
        pairs = zip(value.arrays, other.arrays, strict=True)
        return other.dtype == value.dtype and other.rank == value.rank and all(others(a) == others(b) for a, b in pairs)

    operands: list[Value | np.ndarray] = [value]
    for _ in range(graph.random.randint(1, 3)):
        dims = value.dims
        dims[axis] = graph.choice([1, 2])
        if graph.chance(0.2) and None not in dims:
            operands.append(graph.numbers(known(dims), value.dtype))
        else:
            operands.append(graph.pick(fits, 0.2))
    graph.random.shuffle(operands)
    graph.node("Concat", *operands, axis=negative(graph, axis, value.rank, 0.3))


@step(3)
def split(graph: Graph) -> None:
    value = graph.pick(lambda v: any(size and size > 1 for size in v.dims))
    axis = graph.choice([axis for axis, size in enumerate(value.dims) if size and size > 1])
    total = value.dims[axis] or 0
    if graph.chance(0.4) and graph.opset >= 18:
        count = graph.random.randint(2, min(total, 4))
        graph.node("Split", value, outputs=count, axis=axis, num_outputs=count)
        return
    first = graph.random.randint(1, total - 1)
    parts = [first, 1, total - first - 1] if total - first > 1 and graph.chance(0.4) else [first, total - first]
    graph.node("Split", value, np.array(parts, np.int64), outputs=len(parts), axis=axis)


@step(4)
def pad(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank > 0 and v.dtype != BOOL)
    mode = graph.choice(["constant", "constant", "reflect", "edge", *(["wrap"] if graph.opset >= 19 else [])])
    widths = [_pad_width(graph, mode, least) for least in value.least * 2]
    fill = np.asarray(graph.choice([1, 2, 0]), value.dtype) if mode == "constant" and graph.chance(0.5) else None
    graph.node("Pad", value, np.array(widths, np.int64), fill, mode=mode)


def _pad_width(graph: Graph, mode: str, least: int) -> int:
    if mode == "constant":
        return graph.choice([0, 0, 1, 2, -1 if least > 3 else 0, -2 if least > 5 else 0])
    if mode == "edge":
        return graph.choice([0, 1, 3]) if least else 0
    return graph.choice([0, graph.random.randint(0, max(least - 1, 0))])


@step(3)
def expand(graph: Graph) -> None:
    value = graph.pick()
    if graph.chance(0.3):
        (shape,) = graph.node("Shape", graph.pick(lambda other: other.rank >= value.rank))
        graph.node("Expand", value, shape)
        return
    sizes = [graph.choice([2, 3]) if size == 1 and graph.chance(0.7) else 1 for size in value.dims]
    if graph.chance(0.4) and value.rank < 5:
        sizes = [graph.choice([1, 2, 3]), *sizes]
    graph.node("Expand", value, np.array(sizes, np.int64))


@step(2)
def tile(graph: Graph) -> None:
    value = graph.pick(has_axes)
    graph.node("Tile", value, np.array([graph.choice([1, 1, 2, 3]) for _ in range(value.rank)], np.int64))


@step(2)
def squeeze(graph: Graph) -> None:
    value = graph.pick(lambda v: 1 in v.dims)
    ones = [axis for axis, size in enumerate(value.dims) if size == 1]
    axes = graph.random.sample(ones, graph.random.randint(1, len(ones)))
    graph.node("Squeeze", value, np.array([negative(graph, axis, value.rank) for axis in axes], np.int64))


@step(2)
def unsqueeze(graph: Graph) -> None:
    value, count = graph.pick(lambda v: v.rank < 4), graph.random.randint(1, 2)
    rank = value.rank + count
    axes = [negative(graph, axis, rank) for axis in graph.random.sample(range(rank), count)]
    graph.node("Unsqueeze", value, np.array(axes, np.int64))


@step(1)
def flatten(graph: Graph) -> None:
    value = graph.pick(has_axes)
    graph.node("Flatten", value, axis=graph.random.randint(-value.rank, value.rank))


@step(2)
def triangle(graph: Graph) -> None:
    diagonal = np.asarray(graph.random.randint(-3, 3), np.int64) if graph.chance(0.6) else None
    graph.node("Trilu", graph.pick(matrix), diagonal, upper=graph.choice([0, 1]))


@step(1)
def depth(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank == 4 and is_float(v))
    if graph.chance(0.5):
        graph.node("DepthToSpace", value, blocksize=2, mode=graph.choice(["DCR", "CRD"]))
    else:
        graph.node("SpaceToDepth", value, blocksize=graph.choice([2, 3]))


@step(1)
def crop(graph: Graph) -> None:
    value = graph.pick(has_axes)
    axes = graph.random.sample(range(value.rank), graph.random.randint(1, value.rank))
    graph.node("CenterCropPad", value, np.array([graph.choice([1, 2, 3, 5, 8]) for _ in axes], np.int64), axes=axes)
