"""Volumes sampled between their elements: grid_sampler_3d. torch decomposes the one of images itself."""

from __future__ import annotations

from itertools import product as corners_of

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, part, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER, REFLECTION = 0, 1, 2


@aten("grid_sampler_3d.default")
def grid_sampler_3d(
    node: Node, x: ir.Value, grid: ir.Value, interpolation: int, padding: int, align_corners: bool
) -> ir.Value:
    """x [n, c, D, H, W] at grid [n, d, h, w, 3], whose last axis is (x, y, z) in [-1, 1] -> [n, c, d, h, w]."""
    n, _, *sizes = type_of(x).shape
    positions = type_of(grid).shape[1:4]
    rows = []
    for i, size in enumerate(reversed(sizes)):
        coordinate = reshape(part(grid, 4, i, 1), (n, *positions))
        rows.insert(0, _inside(_placed(coordinate, size, align_corners), size, padding, align_corners))
    last = ops.transpose(x, permutation=(0, 2, 3, 4, 1))  # an element is a row of channels
    if interpolation == NEAREST:
        result = _read(last, [ops.round(r) for r in rows], sizes)
    else:
        low = [ops.floor(r) for r in rows]
        result = None
        for corner in corners_of((0, 1), repeat=3):
            weight = None
            ends = []
            for row, floor, up in zip(rows, low, corner, strict=True):
                one = number(1.0, type_of(row).dtype)
                share = ops.sub(row, floor)
                share = share if up else ops.sub(one, share)
                weight = share if weight is None else ops.mul(weight, share)
                ends.append(ops.add(floor, one) if up else floor)
            assert weight is not None
            term = ops.mul(_read(last, ends, sizes), reshape(weight, (n, *positions, 1)))
            result = term if result is None else ops.add(result, term)
    assert result is not None
    return ops.transpose(result, permutation=(0, 4, 1, 2, 3))


def _placed(x: ir.Value, size: Dim, align_corners: bool) -> ir.Value:
    """[-1, 1] as coordinates: the outer elements' centres, or the volume's edges at -1/2 and size - 1/2."""
    dtype = type_of(x).dtype
    width, half = dim_value(size, dtype), number(0.5, dtype)
    centre = ops.sub(ops.mul(width, half), half)
    return ops.add(ops.mul(x, centre if align_corners else ops.mul(width, half)), centre)


def _inside(x: ir.Value, size: Dim, padding: int, align_corners: bool) -> ir.Value:
    """Coordinates after padding: unchanged, clamped to the border, or reflected at it."""
    if padding == ZEROS:
        return x
    dtype = type_of(x).dtype
    zero, last = number(0.0, dtype), dim_value(size - 1, dtype)
    if padding == REFLECTION:
        first = zero if align_corners else number(-0.5, dtype)
        span = last if align_corners else dim_value(size, dtype)
        away = ops.abs(ops.sub(x, first))
        turns, extra = ops.floor(ops.div(away, span)), ops.fmod(away, span)
        even = ops.eq(ops.fmod(turns, number(2.0, dtype)), zero)
        mirrored = ops.add(ops.select(even, extra, ops.sub(span, extra)), first)
        x = ops.select(ops.eq(span, zero), zero, mirrored)
    return ops.min(ops.max(x, zero), last)


def _read(x: ir.Value, rows: list[ir.Value], sizes: list[Dim]) -> ir.Value:
    """x [n, D, H, W, c] at integer coordinates [n, d, h, w] -> [n, d, h, w, c]; 0 outside, and for a NaN."""
    inside, columns = None, []
    shape = type_of(rows[0]).shape
    for row, size in zip(rows, sizes, strict=True):
        dtype = type_of(row).dtype
        zero = number(0.0, dtype)
        here = ops.and_(ops.ge(row, zero), ops.le(row, dim_value(size - 1, dtype)))
        columns.append(reshape(convert(ops.select(here, row, zero), "int64"), (*shape, 1)))
        inside = here if inside is None else ops.and_(inside, here)
    assert inside is not None
    found = ops.gather_nd(x, ops.concat(columns, axis=len(shape)), batch_dims=1)
    return ops.select(reshape(inside, (*shape, 1)), found, number(0.0, type_of(x).dtype))
