"""Tiles transformed along one axis: a loop over tiles and channels, without scratch memory."""

from __future__ import annotations

from burn.dialect.dims import Dim, LoopVar
from burn.dialect.types import type_of
from burn.kernels.body import Const, LoopKernel, Scalar, Stage, Where, Write
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
from burn.kernels.lower import Indices, linear

Range = tuple[int, int]
"""(the first, the number)"""


def split(group: Computation) -> list[Call]:
    """One `split_axis`."""
    op = anchor_of(group, "split")
    x, result, axis = type_of(op.x), type_of(op.operation.results[0]), op.axis
    dtype, length, channels = accumulate_type(x.dtype), x.shape[axis], x.shape[-1]
    builder = Builder(group)
    tiles = _Tiles(x.shape, axis, (0, op.blocks), (0, op.dilation))

    def element(i: int) -> Scalar:
        """The tile's element i."""
        at = (tiles.block * op.step + i) * op.dilation + tiles.phase - op.low
        last = ((op.blocks - 1) * op.step + i) * op.dilation + op.dilation - 1 - op.low
        found = convert(builder.low.at(op.x, tiles.index(at)), dtype)
        inside = i * op.dilation >= op.low and isinstance(length, int) and last < length
        return found if inside else Where(dtype, ((at, length),), found, Const(dtype, 0))

    writes = tuple(
        Write(
            builder.out(0),
            linear(tiles.index(tiles.block * op.dilation + tiles.phase, number * channels), result.shape),
            convert(scalar, result.dtype),
        )
        for number, scalar in enumerate(matvec(rows_of(op.matrix, op.size), [element(i) for i in range(op.size)]))
    )
    return [builder.call(lambda buffers: LoopKernel(tiles.variables, (Stage((), (), writes),), buffers))]


def join(group: Computation) -> list[Call]:
    """One `join_axis` with its epilogue: a kernel for whole tiles, and others for the tiles that hang over."""
    op = anchor_of(group, "join")
    each = op.size * op.dilation
    whole, left = divmod(op.length, each)
    full, longer = divmod(left, op.dilation)  # in the last block, the first `longer` phases have an element more
    parts = [
        ((0, whole), (0, op.dilation), op.size),
        ((whole, 1), (0, longer), full + 1),
        ((whole, 1), (longer, op.dilation - longer), full),
    ]
    return [_joined(group, *part) for part in parts if part[0][1] and part[1][1] and part[2]]


def _joined(group: Computation, blocks: Range, phases: Range, count: int) -> Call:
    """The first `count` elements of some tiles."""
    op = anchor_of(group, "join")
    x, result, axis = type_of(op.x), op.operation.results[0], op.axis
    shape = type_of(result).shape
    builder = Builder(group)
    tiles = _Tiles(shape, axis, blocks, phases)
    points = len(op.matrix) // op.size
    tile = tiles.block * op.dilation + tiles.phase
    numbers: list[Scalar] = [builder.low.at(op.x, tiles.index(tile, number * shape[-1])) for number in range(points)]
    elements = matvec(rows_of(op.matrix, points), [convert(n, accumulate_type(x.dtype)) for n in numbers])[:count]
    writes = []
    for number, value in enumerate(group.yielded):
        for i, scalar in enumerate(elements):
            builder.low.define(result, lambda index, scalar=scalar: convert(scalar, x.dtype))
            index = tiles.index((tiles.block * op.size + i) * op.dilation + tiles.phase)
            writes.append(Write(builder.out(number), linear(index, shape), builder.low.at(value, index)))
    return builder.call(lambda buffers: LoopKernel(tiles.variables, (Stage((), (), tuple(writes)),), buffers))


class _Tiles:
    """Loops over images of a shape, whose axis is replaced by loops over ranges of blocks and of phases."""

    def __init__(self, shape: tuple[Dim, ...], axis: int, blocks: Range, phases: Range) -> None:
        self.axis = axis
        around = loops(shape)
        pair = LoopVar("block", blocks[1]), LoopVar("phase", phases[1])
        self.variables = (*around[:axis], *pair, *around[axis + 1 :])
        self.around = loop_index(around)
        block, phase = loop_index(pair)
        self.block, self.phase = block + blocks[0], phase + phases[0]

    def index(self, at: Dim, channel: Dim = 0) -> Indices:
        """The index of an element: the one at `at` of the axis, that many channels behind the loop's."""
        before, after = self.around[: self.axis], self.around[self.axis + 1 : -1]
        return (*before, at, *after, self.around[-1] + channel)
