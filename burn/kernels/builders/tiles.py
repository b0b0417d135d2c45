"""Tiles transformed along both axes: loops over tiles transform columns into scratch memory, and then rows.

Fully unrolled code for a tile would be six times as long, and hardly faster.
"""

from __future__ import annotations

from burn.dialect.axis_tiles import JoinAxis, SplitAxis
from burn.dialect.dims import Dim, LoopVar, product
from burn.dialect.tiles import counts
from burn.dialect.types import type_of
from burn.kernels.body import Const, LoopKernel, Scalar, Stage, Where, Write
from burn.kernels.builders import axis_tiles
from burn.kernels.builders.builder import (
    Builder,
    Call,
    Computation,
    accumulate_type,
    anchor_of,
    convert,
    loop_index,
    loops,
)
from burn.kernels.builders.linear_maps import matvec, rows_of
from burn.kernels.lower import linear
from burn.kernels.preferences import Preferences

APART = 16
"""Elements between the rows of scratch memory. With a power of two they would share one cache set."""


def split(group: Computation, preferences: Preferences) -> list[Call]:
    """One `split_tiles` or `split_axis`."""
    op = anchor_of(group, "split")
    if isinstance(op, SplitAxis):
        return axis_tiles.split(group)
    x, result = type_of(op.x), type_of(op.operation.results[0])
    dtype = accumulate_type(x.dtype)
    rows = rows_of(op.matrix, op.size)
    builder = Builder(group)
    variables = loops((x.shape[0], *op.tiles, *x.shape[3:]))
    n, down, along, *rest = loop_index(variables)
    column, row = LoopVar("column", op.size), LoopVar("row", len(rows))
    (j,), (k,) = loop_index((column,)), loop_index((row,))

    def pixel(i: int) -> Scalar:
        """The pixel at row i of the tile and the current column."""
        within = ((down * op.step + i - op.low[0], i, i), (along * op.step + j - op.low[1], 0, op.size - 1))
        ranges = tuple(
            (at, size)
            for (at, first, last), low, count, size in zip(within, op.low, op.tiles, x.shape[1:3], strict=True)
            if first < low or not isinstance(size, int) or (count - 1) * op.step + last - low >= size
        )
        found = convert(builder.low.at(op.x, (n, *(at for at, *_ in within), *rest)), dtype)
        return Where(dtype, ranges, found, Const(dtype, 0)) if ranges else found

    held = _Held(builder, dtype, (len(rows), op.size), variables[-1])
    columns = matvec(rows, [pixel(i) for i in range(op.size)])
    mapped = tuple(Write(held.buffer, held.at(i, j), scalar) for i, scalar in enumerate(columns))
    tile = linear((n, down, along), (x.shape[0], *op.tiles))
    writes = tuple(
        Write(
            builder.out(0),
            linear((k * len(rows) + number, tile, *rest), result.shape),
            convert(scalar, result.dtype),
        )
        for number, scalar in enumerate(matvec(rows, [held.load(k, at) for at in range(op.size)]))
    )
    stages = (Stage((column, variables[-1]), (), mapped), Stage((row, variables[-1]), (), writes))
    transformed = builder.call(lambda buffers: LoopKernel(variables[:-1], stages, buffers))
    return [transformed, _zeros(group, op.spare)] if op.spare else [transformed]


def _zeros(group: Computation, spare: int) -> Call:
    """Writes the spare tiles."""
    result = type_of(group.yielded[0])
    builder = Builder(group)
    variables = loops((result.shape[0], spare, *result.shape[2:]))
    point, tile, *rest = loop_index(variables)
    offset = linear((point, result.shape[1] - spare + tile, *rest), result.shape)
    writes = (Write(builder.out(0), offset, Const(result.dtype, 0)),)
    return builder.call(lambda buffers: LoopKernel(variables, (Stage((), (), writes),), buffers))


def join(group: Computation, preferences: Preferences) -> list[Call]:
    """One `join_tiles` or `join_axis` with its epilogue: a kernel for whole tiles, and others for the partial tiles at the
    borders."""
    op = anchor_of(group, "join")
    if isinstance(op, JoinAxis):
        return axis_tiles.join(group)
    parts = [_parts(size, op.size) for size in op.sizes]
    return [_combined(group, down, along) for down in parts[0] for along in parts[1]]


Part = tuple[int, int, int]
"""(the first tile, the number of tiles, the size of each)"""


def _parts(size: int, tile: int) -> list[Part]:
    whole, left = divmod(size, tile)
    return [part for part in ((0, whole, tile), (whole, 1, left)) if part[1] and part[2]]


def _combined(group: Computation, down: Part, along: Part) -> Call:
    op = anchor_of(group, "join")
    x, result = type_of(op.x), op.operation.results[0]
    points = len(op.matrix) // op.size
    rows = rows_of(op.matrix, points)
    builder = Builder(group)
    variables = loops((op.batch, down[1], along[1], *x.shape[2:]))
    n, first, second, *rest = loop_index(variables)
    first, second = first + down[0], second + along[0]
    tile = linear((n, first, second), (op.batch, *counts(op.sizes, op.size)))
    column, row = LoopVar("column", points), LoopVar("row", down[2])
    (j,), (k,) = loop_index((column,)), loop_index((row,))
    held = _Held(builder, x.dtype, (op.size, points), variables[-1])
    columns = matvec(rows, [builder.low.at(op.x, (i * points + j, tile, *rest)) for i in range(points)])
    mapped = tuple(Write(held.buffer, held.at(i, j), scalar) for i, scalar in enumerate(columns))
    pixels = matvec(rows, [held.load(k, at) for at in range(points)])[: along[2]]
    writes = []
    for number, value in enumerate(group.yielded):
        for within, pixel in enumerate(pixels):
            builder.low.define(result, lambda index, pixel=pixel: pixel)
            index = (n, first * op.size + k, second * op.size + within, *rest)
            writes.append(
                Write(builder.out(number), linear(index, type_of(result).shape), builder.low.at(value, index))
            )
    stages = (Stage((column, variables[-1]), (), mapped), Stage((row, variables[-1]), (), tuple(writes)))
    return builder.call(lambda buffers: LoopKernel(variables[:-1], stages, buffers))


class _Held:
    """Scratch memory for tiles transformed along one axis, for all iterations of the innermost loop."""

    def __init__(self, builder: Builder, dtype: str, sizes: tuple[int, int], inner: LoopVar) -> None:
        self.builder, self.columns = builder, sizes[1]
        self.length = inner.extent + APART
        (self.inner,) = loop_index((inner,))
        self.buffer = builder.scratch(dtype, product(sizes) * self.length)

    def at(self, row: Dim, column: Dim) -> Dim:
        return (row * self.columns + column) * self.length + self.inner

    def load(self, row: Dim, column: Dim) -> Scalar:
        return self.builder.low.load(self.buffer, self.at(row, column))
