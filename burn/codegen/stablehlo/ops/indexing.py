"""Gather and scatter. Negative indices count from the end, and one out of range ends a run with checks."""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.stablehlo.builder import Builder, GatherAxes, Size, Value
from burn.codegen.stablehlo.emitter import Site, emits
from burn.codegen.stablehlo.ops.casts import cast
from burn.dialect.indexing import FROM_START
from burn.runtime.abi import Status

REDUCTIONS = {"none": "set", "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


def _positions(site: Site, which: int, size: Size) -> Value:
    """Indices as int64 that count from the start, along an axis of `size`; checked."""
    b = site.b
    index = cast(b, site.x(which), site.type(which).dtype, "int64")
    length = b.spread(b.size_value(size), b.shape_of(index))
    zero = b.like(0, index)
    found = b.select(b.compare("LT", index, zero), b.binary("add", index, length), index)
    bad = b.or_(b.compare("LT", found, zero), b.compare("GE", found, length))
    _check(site, bad, index)
    return found


def _check(site: Site, bad: Value, index: Value) -> None:
    b = site.b
    below = b.compare("LT", index, b.like(-FROM_START // 2, index))
    told = b.select(below, b.binary("add", index, b.like(FROM_START, index)), index)
    site.emission.check(Status.INDEX_OUT_OF_RANGE, site.op, bad, told)


def _is_empty(shape: Sequence[Size]) -> bool:
    return any(isinstance(size, int) and size == 0 for size in shape)


def vectors(b: Builder, parts: Sequence[Value]) -> Value:
    """Index vectors: parts of one shape, stacked along a new last axis."""
    shape = b.shape_of(parts[0])
    return b.concat([b.reshape(part, (*shape, 1)) for part in parts], len(shape))


@emits("gather")
def gather(site: Site) -> Value:
    b, op = site.b, site.op
    x, rank = site.x(0), site.type(0).rank
    axis, sizes = op.axis % rank, list(b.shape_of(x))
    count = site.type(1).rank
    index = _positions(site, 1, sizes[axis])
    if _is_empty(site.shape()):
        return b.full(0, site.shape(), b.dtype_of(x))
    sizes[axis] = 1
    window = (*range(axis), *range(axis + count, rank - 1 + count))
    starts = b.reshape(index, (*b.shape_of(index), 1))
    return b.gather(x, starts, GatherAxes(window, (axis,), (axis,)), sizes)


@emits("gather_elements")
def gather_elements(site: Site) -> Value:
    b, x = site.b, site.x(0)
    if not site.type(0).rank:
        _positions(site, 1, 1)
        return x
    index_vectors = _element_vectors(site)
    if _is_empty(site.shape()):
        return b.full(0, site.shape(), b.dtype_of(x))
    every = tuple(range(site.type(0).rank))
    return b.gather(x, index_vectors, GatherAxes((), every, every), [1] * len(every))


def _element_vectors(site: Site) -> Value:
    """For each element of the indices the index vector of one element of x."""
    b, rank = site.b, site.type(0).rank
    axis = site.op.axis % rank
    index = _positions(site, 1, b.shape_of(site.x(0))[axis])
    shape = b.shape_of(index)
    return vectors(b, [index if a == axis else b.iota(shape, a, "int64") for a in range(rank)])


@emits("gather_nd")
def gather_nd(site: Site) -> Value:
    b, op, x = site.b, site.op, site.x(0)
    batch, rank = op.batch_dims, site.type(0).rank
    index_vectors, depth = _nd_vectors(site, batch)
    if _is_empty(site.shape()):
        return b.full(0, site.shape(), b.dtype_of(x))
    named = tuple(range(batch + depth))
    outer = site.type(1).rank - 1
    window = tuple(range(outer, outer + rank - len(named)))
    sizes = [1 if a in named else d for a, d in enumerate(b.shape_of(x))]
    if not named:
        return b.spread(x, site.shape())
    return b.gather(x, index_vectors, GatherAxes(window, named, named), sizes)


def _nd_vectors(site: Site, batch: int) -> tuple[Value, int]:
    """Index vectors over all indexed axes of x, those of the batch included, and the number of axes that the indices name."""
    b, indices = site.b, site.x(1)
    index = cast(b, indices, site.type(1).dtype, "int64")
    shape = b.shape_of(index)
    depth = shape[-1]
    assert isinstance(depth, int)
    if not depth:
        outer = shape[:-1]
        return (vectors(b, [b.iota(outer, a, "int64") for a in range(batch)]) if batch else index), 0
    sizes = b.shape_of(site.x(0))[batch : batch + depth]
    lengths = b.concat([b.reshape(b.size_value(size), (1,)) for size in sizes], 0)
    lengths, zero = b.spread(lengths, shape), b.like(0, index)
    found = b.select(b.compare("LT", index, zero), b.binary("add", index, lengths), index)
    _check(site, b.or_(b.compare("LT", found, zero), b.compare("GE", found, lengths)), index)
    if batch:
        outer = shape[:-1]
        index_vectors = vectors(b, [b.iota(outer, a, "int64") for a in range(batch)])
        found = b.concat([index_vectors, found], len(shape) - 1)
    return found, depth


@emits("scatter_elements")
def scatter_elements(site: Site) -> Value:
    b, x, rank = site.b, site.x(0), site.type(0).rank
    if not rank:
        _positions(site, 1, 1)
        return _combined(site, x, site.x(2))
    index_vectors = _element_vectors(site)
    if _is_empty(b.shape_of(site.x(2))) or _is_empty(b.shape_of(x)):
        return x
    every = tuple(range(rank))
    return _scattered(site, index_vectors, GatherAxes((), every, every))


def _combined(site: Site, x: Value, update: Value) -> Value:
    reduction = REDUCTIONS[site.op.reduction]
    return update if reduction == "set" else site.b.binary(reduction, x, update)


@emits("scatter_nd")
def scatter_nd(site: Site) -> Value:
    b, x, rank = site.b, site.x(0), site.type(0).rank
    index_vectors, depth = _nd_vectors(site, 0)
    if _is_empty(b.shape_of(site.x(2))) or _is_empty(b.shape_of(x)):
        return x
    outer = site.type(1).rank - 1
    window = tuple(range(outer, outer + rank - depth))
    return _scattered(site, index_vectors, GatherAxes(window, tuple(range(depth)), tuple(range(depth))))


def _scattered(site: Site, index_vectors: Value, axes: GatherAxes) -> Value:
    """Updates of bool and of narrow integers only replace, or are extremes."""
    b, x, updates = site.b, site.x(0), site.x(2)
    return b.scatter(REDUCTIONS[site.op.reduction], x, index_vectors, updates, axes)
