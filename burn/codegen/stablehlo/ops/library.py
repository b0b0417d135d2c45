"""Sorting, and the ops whose results have data-dependent sizes.

StableHLO has none of the latter. `COUNTED` computes their results in the largest possible size, and a count. A caller reads the
count on the host and cuts the results to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burn.codegen.stablehlo.builder import Builder, GatherAxes, Value
from burn.codegen.stablehlo.elements import highest
from burn.codegen.stablehlo.emitter import Site, emits
from burn.codegen.stablehlo.ops.casts import cast
from burn.codegen.stablehlo.ops.indexing import vectors as _vectors
from burn.dialect.types import DTYPES


def _ordered(b: Builder, x: Value, dtype: str) -> tuple[Value, ...]:
    """Sort keys with the order of burn's elements: small floats as float32, complex numbers by their real parts first."""
    kind = DTYPES[dtype].kind
    if kind == "complex":
        return b.parts(x)
    return (cast(b, x, dtype, "float32") if kind == "small" else x,)


@emits("sort")
def sort(site: Site) -> list[Value]:
    b, op, type_ = site.b, site.op, site.type(0)
    x = site.x(0)
    if not type_.rank:
        return [x, b.scalar(0, "int64")]
    axis = op.axis % type_.rank
    keys = _ordered(b, x, type_.dtype)
    xs = [*keys, b.iota(b.shape_of(x), axis, "int64"), *([] if keys == (x,) else [x])]
    if op.descending:  # stable in both directions
        made = [b.reverse(y, [axis]) for y in b.sort([b.reverse(y, [axis]) for y in xs], axis, len(keys))]
    else:
        made = b.sort(xs, axis, len(keys))
    return [made[0] if keys == (x,) else made[-1], made[len(keys)]]


Counted = Callable[[Site], tuple[list[Value], Value]]
"""(results in their largest size, count)."""

COUNTED: dict[str, Counted] = {}


def counted(name: str) -> Callable[[Counted], Counted]:
    def register(function: Counted) -> Counted:
        COUNTED[name] = function
        return function

    return register


def _sum(b: Builder, flags: Value, axes: Any) -> Value:
    return b.reduce("add", b.convert(flags, "int64"), 0, axes)


def _taken(b: Builder, x: Value, index: Value) -> Value:
    """Slices of x along its first axis."""
    sizes = [1, *b.shape_of(x)[1:]]
    vectors = b.reshape(index, (*b.shape_of(index), 1))
    return b.gather(x, vectors, GatherAxes(tuple(range(1, len(sizes))), (0,), (0,)), sizes)


@counted("nonzero")
def nonzero(site: Site) -> tuple[list[Value], Value]:
    """The row-major positions of the non-zero elements are sorted to the front."""
    b, type_ = site.b, site.type(0)
    shape, total = b.shape_of(site.x(0)), b.size(type_.elements)
    rank = max(type_.rank, 1)
    if total == 0:
        return [b.full(0, (rank, 0), "int64")], b.scalar(0, "int64")
    x = cast(b, b.reshape(site.x(0), (total,)), type_.dtype, "bool")
    index = b.iota((total,), 0, "int64")
    (front,) = b.sort([b.select(x, index, b.like(highest("int64"), index))], 0)
    columns = []
    behind = total
    for size in shape or (1,):
        behind //= size
        column = b.binary("divide", front, b.like(behind, front))
        columns.append(b.reshape(b.binary("remainder", column, b.like(size, front)), (1, total)))
    return [b.concat(columns, 0)], _sum(b, x, [0])


@counted("unique")
def unique(site: Site) -> tuple[list[Value], Value]:
    """Rows are sorted; each that differs from the one before starts a group. NaNs are equal to each other."""
    b, op, type_ = site.b, site.op, site.type(0)
    axis = 0 if op.axis is None else op.axis % type_.rank
    x = site.x(0)
    if op.axis is None:
        x = b.reshape(x, (b.size(type_.elements),))
    shape = b.shape_of(x)
    n, others = shape[axis], (*shape[:axis], *shape[axis + 1 :])
    order = [axis, *(a for a in range(len(shape)) if a != axis)]
    rows = b.transpose(x, order) if axis else x
    if n == 0:
        empty = b.full(0, (0,), "int64")
        return [x, empty, empty, empty], b.scalar(0, "int64")
    width = math.prod(others)
    flat = b.reshape(rows, (n, width))
    index = b.iota((n,), 0, "int64")
    columns = [b.reshape(b.slice(flat, (0, i), (n, i + 1), (1, 1)), (n,)) for i in range(width)]
    keys = [key for column in columns for key in _ordered(b, column, type_.dtype)]
    *keys, origin = b.sort([*keys, index], 0, len(keys)) if keys else [index]
    first = b.compare("EQ", index, b.like(0, index))
    fresh = first
    for key in keys:
        before = b.concat([b.slice(key, (0,), (1,), (1,)), b.slice(key, (0,), (n - 1,), (1,))], 0)
        differs = b.compare("NE", key, before)
        if DTYPES[b.dtype_of(key)].kind == "float":
            differs = b.and_(differs, b.not_(b.and_(b.is_nan(key), b.is_nan(before))))
        fresh = b.or_(fresh, differs)
    count = _sum(b, fresh, [0])
    one = b.convert(fresh, "int64")
    group = b.binary("subtract", b.cumulative("add", one, 0, 0, False), b.like(1, one))  # of each sorted row
    starts = b.select(fresh, index, b.like(n, index))
    (starts,) = b.sort([starts], 0)  # of each group, in the sorted order
    ends = b.concat([b.slice(starts, (1,), (n,), (1,)), b.full(n, (1,), "int64")], 0)
    counts = b.binary("subtract", b.binary("minimum", ends, b.like(n, ends)), starts)
    leaders = _taken(
        b, origin, b.binary("minimum", starts, b.like(n - 1, starts))
    )  # first occurrence: sorts are stable
    leaders = b.select(b.compare("LT", starts, b.like(n, starts)), leaders, b.like(highest("int64"), leaders))
    _, inverse = b.sort([origin, group], 0)
    if not op.sorted:
        leaders, counts, number = b.sort([leaders, counts, index], 0)
        _, rank = b.sort([number, index], 0)
        inverse = _taken(b, rank, inverse)
    kept = b.binary("minimum", leaders, b.like(n - 1, leaders))
    values = _taken(b, rows, kept)
    if axis:
        values = b.transpose(values, [order.index(a) for a in range(len(shape))])
    return [values, leaders, inverse, counts], count


# ---- boxes -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Boxes:
    """The lower corners, the higher ones, the areas; in the element type of the boxes, which all steps round to."""

    low: tuple[Value, Value]
    high: tuple[Value, Value]
    area: Value

    def map(self, function: Callable[[Value], Value]) -> _Boxes:
        a, b, c, d, e = map(function, (*self.low, *self.high, self.area))
        return _Boxes((a, b), (c, d), e)


def _least(b: Builder, x: Value, y: Value, op: str) -> Value:
    """`op` minimum or maximum; the other one of a NaN."""
    return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, b.binary(op, x, y)))


def _boxes(b: Builder, boxes: Value, form: str) -> _Boxes:
    """boxes [batch, n, 4] -> [batch, n] each."""
    batch, n, _ = b.shape_of(boxes)
    columns = [b.reshape(b.slice(boxes, (0, 0, i), (batch, n, i + 1), (1, 1, 1)), (batch, n)) for i in range(4)]
    low, high = [], []
    for first, second in zip(columns[:2], columns[2:], strict=True):
        if form == "center":
            half = b.binary("divide", second, b.like(2, second))
            first, second = b.binary("subtract", first, half), b.binary("add", first, half)
        low.append(first if form == "ordered" else _least(b, first, second, "minimum"))
        high.append(second if form == "ordered" else _least(b, first, second, "maximum"))
    extents = [b.binary("subtract", to, start) for start, to in zip(low, high, strict=True)]
    return _Boxes((low[0], low[1]), (high[0], high[1]), b.binary("multiply", *extents))


def _overlap(b: Builder, x: _Boxes, y: _Boxes, limit: Value, form: str) -> Value:
    """True where the intersection is more than `limit` of the union."""
    extents = []
    for axis in (0, 1):
        end = _least(b, x.high[axis], y.high[axis], "minimum")
        extent = b.binary("subtract", end, _least(b, x.low[axis], y.low[axis], "maximum"))
        extents.append(b.select(b.compare("GT", extent, b.like(0, extent)), extent, b.like(0, extent)))
    both = b.binary("multiply", *extents)
    whole = b.binary("subtract", b.binary("add", x.area, y.area), both)
    shape = b.shape_of(both)
    limit = b.spread(limit, shape)
    share = b.convert(b.binary("divide", both, whole), "float64")
    found = b.and_(b.compare("NE", whole, b.like(0, whole)), b.compare("GT", share, limit))
    meets = b.and_(*(b.compare("GT", extent, b.like(0, extent)) for extent in extents))
    if form == "ordered":
        meets = b.or_(meets, b.compare("LT", limit, b.like(0, limit)))
    else:
        meets = b.and_(meets, b.and_(*(b.compare("GT", z.area, b.like(0, z.area)) for z in (x, y))))
    return b.and_(meets, found)


@counted("non_max_suppression")
def non_max_suppression(site: Site) -> tuple[list[Value], Value]:
    """A loop over the boxes of all batches and classes at once, the best first."""
    b, op = site.b, site.op
    operands = [None if value is None else site.value(value) for value in op.args]
    boxes, scores, maximum, limit, threshold = operands
    batch, classes, n = b.shape_of(scores)
    if batch * classes * n == 0:
        return [b.full(0, (0, 3), "int64")], b.scalar(0, "int64")
    shape = (batch, classes, n)
    backwards = [b.reverse(x, [2]) for x in (scores, b.iota(shape, 2, "int64"))]
    score, order = (b.reverse(x, [2]) for x in b.sort(backwards, 2))
    index_vectors = _vectors(b, [b.iota(shape, 0, "int64"), order])
    rows = (n, batch, classes)

    def by_rank(x: Value) -> Value:
        """[batch, n] -> [n, batch, classes], in the order of scores."""
        return b.transpose(b.gather(x, index_vectors, GatherAxes((), (0, 1), (0, 1)), (1, 1)), (2, 0, 1))

    ranked = _boxes(b, boxes, op.form).map(by_rank)
    valid = b.full(True, rows, "bool")
    if threshold is not None:
        wide = b.convert(b.transpose(score, (2, 0, 1)), "float64")
        valid = b.compare("GT", wide, b.spread(threshold, rows))
    most = b.spread(maximum, rows[1:])

    def going(carried: Sequence[Value]) -> Value:
        return b.compare("LT", carried[0], b.scalar(n, "int64"))

    def body(carried: Sequence[Value]) -> list[Value]:
        number, kept, count = carried
        at = b.reshape(number, (1,))
        one = ranked.map(lambda x: b.spread(_taken(b, x, at), rows))
        overlapped = b.reduce("or", b.and_(kept, _overlap(b, one, ranked, limit, op.form)), False, [0])
        fits = b.and_(b.not_(overlapped), b.compare("LT", count, most))
        fits = b.and_(fits, b.reshape(_taken(b, valid, at), rows[1:]))
        kept = b.update(kept, b.reshape(fits, (1, *rows[1:])), number)
        return [b.binary("add", number, b.scalar(1, "int64")), kept, b.binary("add", count, b.convert(fits, "int64"))]

    start = [b.scalar(0, "int64"), b.full(False, rows, "bool"), b.full(0, rows[1:], "int64")]
    kept = b.reshape(b.transpose(b.loop(going, body, start, n)[1], (1, 2, 0)), (batch * classes * n,))
    index = b.iota((batch * classes * n,), 0, "int64")
    _, *columns = b.sort(
        [
            b.select(kept, index, b.like(highest("int64"), index)),
            *(
                b.reshape(x, (batch * classes * n,))
                for x in (b.iota(shape, 0, "int64"), b.iota(shape, 1, "int64"), order)
            ),
        ],
        0,
    )
    made = b.concat([b.reshape(column, (batch * classes * n, 1)) for column in columns], 1)
    return [made], _sum(b, kept, [0])
