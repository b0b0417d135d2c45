"""gather and scatter: slices of an operand, read from or written to positions that are read from data.

There are three kinds of axes: axes that an index vector addresses, batch axes, and axes of a slice that the result (or the
updates) keeps. Both become one `gather_nd` or `scatter_nd` over an
operand whose addressed axes come first, with a grid of index vectors: one for every position of a slice along these axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, number, part, reshape, transpose
from burn.dialect.control import Loop
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, decide, product
from burn.dialect.mlir import ir
from burn.dialect.types import TensorType, type_of
from burn.errors import TypeMismatch
from burn.importers.lax.scalars import extreme, full, is_empty, kind_of, like
from burn.importers.lax.slicing import clamped

Combine = Callable[[Value, Value], Value]

MODES = ("clip", "fill", "promise")
"""Treatments of a slice that is not inside of the operand: its start is clamped; it is all `fill` (a scatter drops it); it does
not occur."""


@dataclass(frozen=True)
class Addressing:
    """The axes of a gather, or of a scatter with its updates as the result.

    offset: axes of the result that a slice has, in order. collapsed: axes of the operand, of slices of size 1, that the result
    lacks. addressed: the operand's axis of each entry of an index vector. vector: the axis of the indices that holds index
    vectors; their rank if an index is a scalar. operand_batch, index_batch: axes of operand and indices that go together."""

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    addressed: tuple[int, ...]
    vector: int
    operand_batch: tuple[int, ...] = ()
    index_batch: tuple[int, ...] = ()


@dataclass
class _Grid:
    """Index vectors for every position of every slice along the named axes of an operand.

    named: these axes. spans: the sizes of slices along them. batch: the shape of the indices without vectors. vectors: [batch..,
    spans.., named] int64. inside: [batch.., spans..] bool, None if every position is inside."""

    named: tuple[int, ...]
    spans: tuple[Dim, ...]
    batch: tuple[Dim, ...]
    vectors: Value
    inside: Value | None


def gather(
    x: Value,
    indices: Value,
    how: Addressing,
    sizes: Sequence[Dim],
    mode: str = "clip",
    fill: Value | None = None,
) -> Value:
    """A slice of x of the given sizes (one for each axis) for each index vector. Shapes: x [d..], indices [b.., k] -> the
    batch and offset axes of `how`.

    fill: a scalar for mode "fill". By default it is NaN, the smallest signed or the largest unsigned integer, or true, as in
    JAX."""
    type_ = type_of(x)
    kept = [axis for axis in range(type_.rank) if axis not in (*how.collapsed, *how.operand_batch)]
    lengths = _batch_shape(indices, how)
    shape = _merged(lengths, [sizes[axis] for axis in kept], how.offset)
    if is_empty(shape) or is_empty(type_.shape):
        return full(type_.with_shape(shape), 0)
    grid = _grid(x, indices, how, sizes, mode, whole=True)
    rest = [axis for axis in range(type_.rank) if axis not in grid.named]
    for axis in rest:
        x = part(x, axis, 0, sizes[axis])
    ordered = transpose(x, (*grid.named, *rest))
    depth = len(grid.named)
    if depth == 1:
        found = ops.gather(ordered, reshape(grid.vectors, (*grid.batch, *grid.spans)), axis=0)
    elif depth:
        found = ops.gather_nd(ordered, grid.vectors)
    else:
        found = broadcast_to(ordered, (*grid.batch, *type_of(ordered).shape))
    if grid.inside is not None:
        inside = reshape(grid.inside, (*type_of(grid.inside).shape, *(1,) * len(rest)))
        found = ops.select(inside, found, _fill(x) if fill is None else fill)
    return _arranged(found, lengths, (*grid.named, *rest), kept, [sizes[axis] for axis in kept], how.offset)


def _fill(x: Value) -> Value:
    kind, dtype = kind_of(x), type_of(x).dtype
    if kind in ("float", "small"):
        return like(math.nan, x)
    return like(True if kind == "bool" else extreme(dtype, kind == "uint"), x)


def _batch_shape(indices: Value, how: Addressing) -> tuple[Dim, ...]:
    return tuple(d for i, d in enumerate(type_of(indices).shape) if i != how.vector)


def _merged(batch: Sequence[Dim], kept: Sequence[Dim], offset: Sequence[int]) -> tuple[Dim, ...]:
    """The result's shape: `kept` at the axes `offset`, `batch` at the others."""
    rows, columns = iter(batch), iter(kept)
    return tuple(next(columns) if i in offset else next(rows) for i in range(len(batch) + len(kept)))


def _grid(x: Value, indices: Value, how: Addressing, sizes: Sequence[Dim], mode: str, whole: bool) -> _Grid:
    """whole: a slice that is not inside is outside as a whole, else only those of its positions that are."""
    if mode not in MODES:
        raise TypeMismatch("an unknown mode", [f"'{mode}' is none of {', '.join(MODES)}"])
    shape = type_of(x).shape
    lengths = _batch_shape(indices, how)
    rank = type_of(indices).rank
    if how.vector < rank:
        indices = transpose(indices, (*(i for i in range(rank) if i != how.vector), how.vector))
    else:
        indices = reshape(indices, (*type_of(indices).shape, 1))
    partial = [a for a in range(len(shape)) if decide(sizes[a], "==", shape[a]) is not True]
    named = tuple(
        a for a in range(len(shape)) if a in how.addressed or a in how.operand_batch or (not whole and a in partial)
    )
    spans = tuple(sizes[a] for a in named)
    grid_rank = len(lengths) + len(named)
    columns: list[Value] = []
    inside: Value | None = None
    for position, axis in enumerate(named):
        limit = shape[axis] - sizes[axis]
        if axis in how.addressed:
            entry = part(indices, len(lengths), how.addressed.index(axis), 1)
            start = _wide(reshape(entry, lengths))
            if mode == "clip":
                start = clamped(start, limit)
        elif axis in how.operand_batch:
            which = how.index_batch[how.operand_batch.index(axis)]
            which -= 1 if how.vector < which else 0
            along = tuple(lengths[which] if i == which else 1 for i in range(len(lengths)))
            start = broadcast_to(reshape(ops.iota(shape=(lengths[which],), axis=0), along), lengths)
        else:
            start = broadcast_to(number(0, "int64"), lengths)
        checked = mode == "fill" and axis in how.addressed
        if checked and whole:
            here = ops.and_(ops.ge(start, number(0, "int64")), ops.le(start, dim_value(limit)))
            inside = _both(inside, reshape(here, (*lengths, *(1,) * len(named))))
        column = reshape(start, (*lengths, *(1,) * len(named)))
        if sizes[axis] != 1:
            at = len(lengths) + position
            steps = ops.iota(shape=(sizes[axis],), axis=0)
            column = ops.add(column, reshape(steps, tuple(sizes[axis] if i == at else 1 for i in range(grid_rank))))
        if checked and not whole:
            inside = _both(inside, ops.and_(ops.ge(column, number(0, "int64")), ops.lt(column, dim_value(shape[axis]))))
        columns.append(column)
    full_shape = (*lengths, *spans)
    if inside is not None:
        columns = [ops.select(inside, column, number(0, "int64")) for column in columns]
        inside = broadcast_to(inside, full_shape)
    spread = [reshape(broadcast_to(column, full_shape), (*full_shape, 1)) for column in columns]
    vectors = ops.concat(spread, axis=grid_rank) if len(spread) > 1 else spread[0] if spread else indices
    return _Grid(named, spans, lengths, vectors, inside)


def _wide(start: Value) -> Value:
    """An index as int64; an unsigned one beyond is the largest."""
    if type_of(start).dtype == "uint64":
        start = ops.min(start, number(2**63 - 1, "uint64"))
    return convert(start, "int64")


def _both(a: Value | None, b: Value) -> Value:
    return b if a is None else ops.and_(a, b)


def _arranged(
    found: Value,
    batch: Sequence[Dim],
    order: Sequence[int],
    kept: Sequence[int],
    sizes: Sequence[Dim],
    offset: Sequence[int],
) -> Value:
    """From [batch.., slices with axes in `order`..] to the result. Axes that are not kept are of size 1."""
    count = len(batch)
    present = [axis for axis in order if axis in kept]
    by_axis = dict(zip(kept, sizes, strict=True))
    x = reshape(found, (*batch, *(by_axis[axis] for axis in present)))
    rows = iter(range(count))
    columns = iter([count + present.index(axis) for axis in kept])
    permutation = tuple(next(columns) if i in offset else next(rows) for i in range(count + len(kept)))
    return transpose(x, permutation)


# ---- scatter -----------------------------------------------------------------------------------------------------------
def scatter(
    x: Value,
    indices: Value,
    updates: Value,
    how: Addressing,
    reduction: str | Combine = "none",
    mode: str = "fill",
    whole: bool = False,
) -> Value:
    """x in which each slice that an index vector addresses is combined with its update. Shapes: x [d..], indices [b.., k],
    updates: the batch and offset axes of `how` -> x's.

    reduction: "none" (the last update counts), "add", "mul", "min", "max", or a function of two scalars: (the element so far,
    the update). With a function, updates are applied one after the other. mode "fill" drops updates that are not inside: single
    elements of a slice (StableHLO), or all of it (`whole`, XLA)."""
    type_, given = type_of(x), type_of(updates)
    kept = [axis for axis in range(type_.rank) if axis not in (*how.collapsed, *how.operand_batch)]
    lengths = _batch_shape(indices, how)
    windows = {axis: given.shape[at] for axis, at in zip(kept, how.offset, strict=True)}
    sizes = [windows.get(axis, 1) for axis in range(type_.rank)]
    if is_empty(given.shape) or is_empty(type_.shape):
        return x
    if isinstance(reduction, str) and type_.dtype == "bool" and reduction != "none":
        logical = {"add": "max", "mul": "min"}.get(reduction, reduction)
        wide = scatter(convert(x, "uint8"), indices, convert(updates, "uint8"), how, logical, mode, whole)
        return ops.ne(wide, number(0, "uint8"))
    grid = _grid(x, indices, how, sizes, mode, whole) if not whole else _whole(x, indices, how, sizes, mode)
    rest = [axis for axis in range(type_.rank) if axis not in grid.named]
    order = (*grid.named, *rest)
    batch_axes = [i for i in range(given.rank) if i not in how.offset]
    at = dict(zip(kept, how.offset, strict=True))
    present = [axis for axis in order if axis in at]
    rows = transpose(updates, (*batch_axes, *(at[axis] for axis in present)))
    rows = reshape(rows, (*lengths, *(sizes[axis] for axis in order)))
    if not grid.named:  # every update is for the whole operand
        total = product(lengths)
        return _in_order(x, reshape(rows, (total, *type_.shape)), reduction, total)
    ordered = transpose(x, order)
    vectors = grid.vectors
    if grid.inside is not None:
        ordered, vectors = _with_spare(ordered, vectors, grid.inside)
    if isinstance(reduction, str):
        written = ops.scatter_nd(ordered, vectors, rows, reduction=reduction)
    else:
        depth = len(grid.named)
        total = product((*lengths, *grid.spans))
        inner = tuple(type_of(ordered).shape[depth:])
        flat = reshape(rows, (total, *inner))
        written = _sequential(ordered, reshape(vectors, (total, depth)), flat, reduction, total)
    if grid.inside is not None:
        written = part(written, 0, 0, type_.shape[order[0]])
    return transpose(written, tuple(order.index(axis) for axis in range(type_.rank)))


def _whole(x: Value, indices: Value, how: Addressing, sizes: Sequence[Dim], mode: str) -> _Grid:
    """A grid that also names the axes along which an update is smaller than the operand."""
    shape = type_of(x).shape
    partial = [a for a in range(len(shape)) if decide(sizes[a], "==", shape[a]) is not True]
    missing = tuple(a for a in partial if a not in how.addressed and a not in how.operand_batch)
    if not missing:
        return _grid(x, indices, how, sizes, mode, whole=True)
    rank = type_of(indices).rank
    if how.vector == rank:
        indices = reshape(indices, (*type_of(indices).shape, 1))
    zeros = tuple(len(missing) if i == how.vector else d for i, d in enumerate(type_of(indices).shape))
    none = broadcast_to(number(0, type_of(indices).dtype), zeros)
    more = Addressing(
        how.offset, how.collapsed, (*how.addressed, *missing), how.vector, how.operand_batch, how.index_batch
    )
    return _grid(x, ops.concat([indices, none], axis=how.vector), more, sizes, mode, whole=True)


def _with_spare(x: Value, vectors: Value, inside: Value) -> tuple[Value, Value]:
    """x with one more row, to which all updates go that are not inside."""
    type_ = type_of(x)
    high = (1,) + (0,) * (type_.rank - 1)
    wide = ops.pad(x, like(0, x), low=(0,) * type_.rank, high=high)
    shape = type_of(vectors).shape
    depth = shape[-1]
    first = part(vectors, len(shape) - 1, 0, 1)
    moved = ops.select(reshape(inside, (*shape[:-1], 1)), first, dim_value(type_.shape[0]))
    if depth == 1:
        return wide, moved
    assert isinstance(depth, int)
    return wide, ops.concat([moved, part(vectors, len(shape) - 1, 1, depth - 1)], axis=len(shape) - 1)


def _in_order(x: Value, rows: Value, reduction: str | Combine, total: Dim) -> Value:
    """Updates of the whole operand, one after the other."""
    if reduction == "none":
        last = part(rows, 0, total - 1, 1)
        return reshape(last, type_of(x).shape)
    if isinstance(reduction, str):
        kind = {"add": "sum", "mul": "prod"}.get(reduction, reduction)
        together = ops.reduce(rows, kind=kind, axes=(0,))
        return {"sum": ops.add, "prod": ops.mul, "max": ops.max, "min": ops.min}[kind](x, together)
    flat = reshape(x, (1, *type_of(x).shape))
    index = broadcast_to(number(0, "int64"), (total, 1))
    written = _sequential(flat, index, rows, reduction, total)
    return reshape(written, type_of(x).shape)


def _sequential(x: Value, vectors: Value, rows: Value, combine: Combine, total: Dim) -> Value:
    """One update after the other: x [named.., rest..], vectors [total, named], rows [total, rest..]. `combine` is called once,
    with tensors [rest..] in place of scalars."""
    if not isinstance(x, ir.Value):
        raise TypeMismatch("a scatter by a function is not recorded", ["build it at the insertion point"])
    types = [TensorType("int64", ()), TensorType("bool", ()), type_of(x)]
    loop = Loop.create(dim_value(total), None, [x], result_types=[type_of(x)])
    block = loop.regions[0].blocks.append(*(t.to_mlir() for t in types))
    with ir.InsertionPoint(block):
        step, going, present = block.arguments
        at = ops.gather(vectors, reshape(step, (1,)), axis=0)
        update = ops.gather(rows, reshape(step, (1,)), axis=0)
        combined = combine(ops.gather_nd(present, at), update)
        ops.yield_([going, ops.scatter_nd(present, at, broadcast_to(combined, type_of(update).shape))])
    return loop.results[0]
