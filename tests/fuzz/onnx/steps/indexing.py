"""Ops that read or write by index."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..values import Reject, Value, is_number, known
from .registry import negative, step


def fixed(value: Value) -> bool:
    """The same shape, not empty, at every set of sizes."""
    return value.rank > 0 and None not in value.dims and not value.empty


@step(4)
def gather(graph: Graph) -> None:
    value = graph.pick(lambda v: any(v.dims))
    axis = graph.choice([axis for axis, size in enumerate(value.dims) if size])
    size = value.dims[axis] or 0

    def within(other: Value) -> bool:
        arrays = [a for a in other.arrays + other.twins if a.size]
        return other.dtype in (np.int64, np.int32) and all(a.min() >= -size and a.max() < size for a in arrays)

    if graph.chance(0.7):
        shape = [graph.random.randint(1, 4) for _ in range(graph.random.randint(0, 2))]
        indices = np.asarray(graph.rng.integers(-size, size, shape), graph.choice([np.int64, np.int32]))
        graph.node("Gather", value, indices, axis=negative(graph, axis, value.rank, 0.3))
    else:
        graph.node("Gather", value, graph.pick(within), axis=negative(graph, axis, value.rank, 0.3))


@step(2)
def gather_elements(graph: Graph) -> None:
    value = graph.pick(fixed)
    dims, axis = known(value.dims), graph.random.randrange(value.rank)
    shape = [graph.random.randint(1, 5 if at == axis else size) for at, size in enumerate(dims)]
    graph.node("GatherElements", value, graph.rng.integers(-dims[axis], dims[axis], shape), axis=axis)


@step(2)
def gather_nd(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank > 0)
    depth = graph.random.randint(1, value.rank)
    dims = known(value.dims[:depth])
    if 0 in dims:
        raise Reject("empty")
    shape = [graph.random.randint(1, 3) for _ in range(graph.random.randint(0, 2))]
    indices = np.stack([graph.rng.integers(-size, size, shape) for size in dims], -1)
    graph.node("GatherND", value, indices.astype(np.int64))


def reduction(graph: Graph) -> str | None:
    if graph.opset < 16:
        return None
    return graph.choice(["none", "add", "mul", *(["max", "min"] if graph.opset >= 18 else [])])


@step(2)
def scatter_elements(graph: Graph) -> None:
    value, how = graph.pick(lambda v: fixed(v) and is_number(v)), reduction(graph)
    dims, axis = known(value.dims), graph.random.randrange(value.rank)
    shape = [graph.random.randint(1, size) for size in dims]
    indices = graph.rng.integers(-dims[axis], dims[axis], shape)
    if how in (None, "none"):  # no repeated index: the surviving write is unspecified
        indices = np.argsort(graph.rng.random(dims), axis)[tuple(np.s_[:size] for size in shape)]
    graph.node(
        "ScatterElements", value, indices.astype(np.int64), graph.numbers(shape, value.dtype), axis=axis, reduction=how
    )


@step(2)
def scatter_nd(graph: Graph) -> None:
    value, how = graph.pick(lambda v: fixed(v) and is_number(v)), reduction(graph)
    dims, depth = known(value.dims), graph.random.randint(1, value.rank)
    count = graph.random.randint(1, 3)
    indices = np.stack([graph.rng.integers(0, size, count) for size in dims[:depth]], -1)
    if how in (None, "none"):
        indices = np.unique(indices, axis=0)
    updates = graph.numbers([len(indices), *dims[depth:]], value.dtype)
    graph.node("ScatterND", value, indices.astype(np.int64), updates, reduction=how)


@step(1)
def one_hot(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype in (np.int32, np.int64))
    depth, pair = np.asarray(graph.choice([3, 5]), np.int64), np.array(graph.choice([[0, 1], [2, -3]]), np.float32)
    graph.node("OneHot", value, depth, pair, axis=graph.random.randint(-value.rank - 1, value.rank))


@step(1)
def nonzero(graph: Graph) -> None:
    graph.node("NonZero", graph.pick(lambda v: v.rank > 0 and v.dtype in (np.float32, np.int64, np.int32, bool)))


@step(1)
def compress(graph: Graph) -> None:
    value = graph.pick(lambda v: any(v.dims))
    axis = graph.choice([axis for axis, size in enumerate(value.dims) if size])
    chosen = graph.rng.random(graph.random.randint(1, value.dims[axis] or 1)) < 0.6
    graph.node("Compress", value, chosen, axis=axis)


@step(1)
def unique(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank > 0 and v.dtype in (np.float32, np.int64) and v.exact)
    axis = graph.random.randint(-value.rank, value.rank - 1) if graph.chance(0.4) else None
    graph.node("Unique", value, outputs=graph.choice([1, 1, 4]), axis=axis, sorted=graph.choice([1, 1, 0]))


@step(1)
def reverse_sequence(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank >= 2 and all(v.dims[:2]))
    batch = graph.choice([0, 1])
    sizes = known(value.dims[:2])
    lengths = graph.rng.integers(1, sizes[1 - batch] + 1, sizes[batch])
    graph.node("ReverseSequence", value, lengths, batch_axis=batch, time_axis=1 - batch)
