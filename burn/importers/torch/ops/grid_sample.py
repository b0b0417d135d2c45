"""Images and volumes sampled between their elements.

torch's decomposition of grid_sampler_2d expands the coordinates over channels before it computes indices and weights. Here they
are computed once for each position of the grid, and an element of the image is a row of channels.
"""

from __future__ import annotations

from itertools import product as corners_of

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, part, reshape
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.types import HALF_DTYPES, type_of
from burn.importers.torch.node import Node, aten

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2

CUBIC_A = -0.75
"""The parameter of torch's cubic convolution."""

Tap = tuple[ir.Value, ir.Value | None]
"""A coordinate along one axis, a whole number, and its weight; None for 1."""


@aten("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    node: Node, x: ir.Value, grid: ir.Value, interpolation: int, padding: int, align_corners: bool
) -> ir.Value:
    """x [n, c, sizes..] at grid [n, positions.., axes], whose last axis is (x, y) or (x, y, z) in [-1, 1] ->
    [n, c, positions..]. Half precision is computed in float32, as torch does it."""
    n, channels, *sizes = type_of(x).shape
    positions = type_of(grid).shape[1:-1]
    dtype = type_of(x).dtype
    wide = "float32" if dtype in HALF_DTYPES else dtype
    grid, axes = convert(grid, wide), range(len(sizes))
    taps = []
    for axis, size in enumerate(sizes):
        coordinate = reshape(part(grid, len(sizes) + 1, len(sizes) - 1 - axis, 1), (n, *positions))
        taps.append(_taps(_placed(coordinate, size, align_corners), size, interpolation, padding, align_corners))
    last = ops.transpose(x, permutation=(0, *(axis + 2 for axis in axes), 1))
    rows = reshape(last, (n, product(sizes), channels))
    result = None
    for corner in corners_of(*taps):
        term = convert(_read(rows, [coordinate for coordinate, _ in corner], sizes), wide)
        weight = None
        for _, share in corner:
            weight = share if weight is None or share is None else ops.mul(weight, share)
        if weight is not None:
            term = ops.mul(term, reshape(weight, (n, *positions, 1)))
        result = term if result is None else ops.add(result, term)
    assert result is not None
    return ops.transpose(convert(result, dtype), permutation=(0, len(sizes) + 1, *(axis + 1 for axis in axes)))


def _taps(x: ir.Value, size: Dim, interpolation: int, padding: int, align_corners: bool) -> list[Tap]:
    """The elements along one axis that a coordinate reads. Cubic interpolation pads each of them, the others the coordinate."""
    one = number(1.0, type_of(x).dtype)
    if interpolation == NEAREST:
        return [(ops.round(_inside(x, size, padding, align_corners)), None)]
    if interpolation == LINEAR:
        x = _inside(x, size, padding, align_corners)
        low = ops.floor(x)
        share = ops.sub(x, low)
        return [(low, ops.sub(one, share)), (ops.add(low, one), share)]
    low = ops.floor(x)
    share = ops.sub(x, low)
    taps: list[Tap] = []
    for step in (-1, 0, 1, 2):
        distance = ops.sub(share, number(float(step), type_of(x).dtype))
        at = ops.add(low, number(float(step), type_of(x).dtype))
        taps.append((_inside(at, size, padding, align_corners), _cubic(ops.abs(distance), near=step in (0, 1))))
    return taps


def _cubic(distance: ir.Value, near: bool) -> ir.Value:
    """The weight of an element at a distance in [0, 1] if it is near, or in [1, 2]."""
    a = CUBIC_A
    first, *others = (a + 2, -(a + 3), 0.0, 1.0) if near else (a, -5 * a, 8 * a, -4 * a)
    result = number(first, type_of(distance).dtype)
    for coefficient in others:
        result = ops.add(ops.mul(result, distance), number(coefficient, type_of(distance).dtype))
    return result


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


def _read(x: ir.Value, coordinates: list[ir.Value], sizes: list[Dim]) -> ir.Value:
    """x [n, elements, c] of images with these sizes, at whole coordinates [n, positions..] -> [n, positions.., c]; 0 outside,
    and for a NaN."""
    inside = index = None
    shape = type_of(coordinates[0]).shape
    for coordinate, size in zip(coordinates, sizes, strict=True):
        dtype = type_of(coordinate).dtype
        zero = number(0.0, dtype)
        here = ops.and_(ops.ge(coordinate, zero), ops.le(coordinate, dim_value(size - 1, dtype)))
        column = convert(ops.select(here, coordinate, zero), "int64")
        index = column if index is None else ops.add(ops.mul(index, dim_value(size, "int64")), column)
        inside = here if inside is None else ops.and_(inside, here)
    assert inside is not None
    assert index is not None
    found = ops.gather_nd(x, reshape(index, (*shape, 1)), batch_dims=1)
    return ops.select(reshape(inside, (*shape, 1)), found, number(0.0, type_of(x).dtype))
