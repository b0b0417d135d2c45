"""Reading images between their pixels: what GridSample, DeformConv and RoiAlign have in common. Enter at `sample`.

Positions are in pixels, one float tensor for each spatial axis. A `Tap` is one of the pixels around a position, with
its weight; `gather_pixels` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, number, number_like, part, reshape, transpose, wide
from burn.dialect.dims import Dim
from burn.dialect.dims import product as dim_product
from burn.dialect.mlir import ir
from burn.dialect.resize import FILTERS
from burn.dialect.types import FLOATS, type_of

CUBIC_A = -0.75
PADDINGS = ("zeros", "border", "reflection")


@dataclass(frozen=True)
class Tap:
    """A pixel's index along one axis, its weight, and whether it lies in the image (None: it always does)."""

    index: ir.Value
    weight: ir.Value | None
    inside: ir.Value | None = None


def last(size: Dim, like: ir.Value) -> ir.Value:
    return dim_value(size - 1, type_of(like).dtype)


def clamp(x: ir.Value, size: Dim) -> ir.Value:
    """x moved into [0, size - 1]."""
    return ops.max(ops.min(x, last(size, x)), number_like(0, x))


def reflect(x: ir.Value, size: Dim, aligned: bool) -> ir.Value:
    """x mirrored at the image's edges until it lies inside: at the centres of the outer pixels, or at their borders."""
    dtype = type_of(x).dtype
    low = number(0.0 if aligned else -0.5, dtype)
    span = last(size, x) if aligned else dim_value(size, dtype)
    span = ops.max(span, number(1e-3, dtype))  # one pixel has no length between centres; its index is clamped later
    period = ops.mul(span, number(2.0, dtype))
    folded = ops.sub(span, ops.abs(ops.sub(ops.mod(ops.abs(ops.sub(x, low)), period), span)))
    outside = ops.or_(ops.lt(x, low), ops.gt(x, ops.add(low, span)))
    return ops.select(outside, ops.add(low, folded), x)


def taps(position: ir.Value, size: Dim, mode: str, padding: str, aligned: bool) -> list[Tap]:
    """The pixels that count for a position along one axis."""
    if mode == "nearest":
        return [_tap(position, None, size, padding, aligned)]
    base = ops.floor(position)
    if (
        mode == "linear"
    ):  # written so that the derivative is right at the pixels too: there it is that of the cell above
        share = ops.sub(position, base)
        one = number_like(1.0, share)
        weights = (ops.sub(one, share), share)
        return [_tap(p, w, size, padding, aligned) for p, w in zip((base, ops.add(base, one)), weights, strict=True)]
    kernel = FILTERS[mode]
    result = []
    for offset in range(1 - kernel.reach, kernel.reach + 1):
        neighbour = ops.add(base, number_like(float(offset), base))
        weight = kernel.weight(ops.abs(ops.sub(position, neighbour)), CUBIC_A)
        result.append(_tap(neighbour, weight, size, padding, aligned))
    return result


def _tap(neighbour: ir.Value, weight: ir.Value | None, size: Dim, padding: str, aligned: bool) -> Tap:
    inside = None
    if padding == "zeros":
        inside = ops.and_(ops.ge(neighbour, number_like(0.0, neighbour)), ops.le(neighbour, last(size, neighbour)))
    elif padding == "reflection":
        neighbour = reflect(neighbour, size, aligned)
    return Tap(ops.cast(clamp(neighbour, size), dtype="int64"), weight, inside)


Fetch = Callable[[ir.Value], ir.Value]
"""Pixels by their index in row-major order of the spatial axes."""


def gather_pixels(x: ir.Value) -> Fetch:
    """For x [n, c, d..]: index [n, p] -> pixels [n, c, p]."""
    batch, channels, *sizes = type_of(x).shape
    flat = reshape(x, (batch, channels, dim_product(sizes)))

    def fetch(index: ir.Value) -> ir.Value:
        count = type_of(index).shape[1]
        index = broadcast_to(reshape(index, (batch, 1, count)), (batch, channels, count))
        return ops.gather_elements(flat, index, axis=2)

    return fetch


def weighted(fetch: Fetch, axes: Sequence[Sequence[Tap]], sizes: Sequence[Dim], dtype: str) -> list[ir.Value]:
    """Every combination of taps: pixel times weight [n, c, p]."""
    terms = []
    for combination in product(*axes):
        index = weight = inside = None
        for tap, size in zip(combination, sizes, strict=True):
            index = tap.index if index is None else ops.add(ops.mul(index, dim_value(size)), tap.index)
            if tap.weight is not None:
                weight = tap.weight if weight is None else ops.mul(weight, tap.weight)
            if tap.inside is not None:
                inside = tap.inside if inside is None else ops.and_(inside, tap.inside)
        assert index is not None
        batch, count = type_of(index).shape
        term = convert(fetch(index), dtype)
        if weight is not None:
            term = ops.mul(term, reshape(convert(weight, dtype), (batch, 1, count)))
        if inside is not None:
            term = ops.select(reshape(inside, (batch, 1, count)), term, number(0.0, dtype))
        terms.append(term)
    return terms


def total(terms: Sequence[ir.Value]) -> ir.Value:
    result = terms[0]
    for term in terms[1:]:
        result = ops.add(result, term)
    return result


def sample(x: ir.Value, positions: Sequence[ir.Value], mode: str, padding: str, aligned: bool, dtype: str) -> ir.Value:
    """x [n, c, d..] at positions [n, p], one for each spatial axis -> [n, c, p], of `dtype`."""
    sizes = type_of(x).shape[2:]
    axes = [taps(p, size, mode, padding, aligned) for p, size in zip(positions, sizes, strict=True)]
    return total(weighted(gather_pixels(x), axes, sizes, dtype))


def sample_grid(x: ir.Value, grid: ir.Value, mode: str, padding: str, aligned: bool) -> ir.Value:
    """x [n, c, d..] at grid [n, e.., k], whose coordinates in [-1, 1] name the last axis first -> [n, c, e..]. mode: "nearest",
    "linear" or "cubic"."""
    batch, channels, *sizes = type_of(x).shape
    indices = type_of(grid).shape[1:-1]
    working = wide(type_of(grid).dtype)
    count = dim_product(indices)
    positions = []
    for axis, size in enumerate(sizes):
        column = reshape(part(grid, type_of(grid).rank - 1, len(sizes) - 1 - axis, 1), (batch, count))
        position = pixels(convert(column, working), size, aligned)
        if mode == "nearest":
            position = ops.round(position)
        if padding == "border" and mode != "cubic":  # cubic neighbours are clamped one by one, as in PyTorch
            position = clamp(position, size)
        elif padding == "reflection":
            position = reflect(position, size, aligned)
        positions.append(position)
    dtype = type_of(x).dtype
    value_type = wide(dtype) if dtype in FLOATS else "float32"
    if mode == "nearest":
        value_type = dtype
    return reshape(
        convert(sample(x, positions, mode, padding, aligned, value_type), dtype), (batch, channels, *indices)
    )


def pixels(x: ir.Value, size: Dim, aligned: bool) -> ir.Value:
    """A coordinate in [-1, 1] in pixels: the ends are the outer pixels' centres if `aligned`, else their borders."""
    dtype = type_of(x).dtype
    one, half = number(1.0, dtype), number(0.5, dtype)
    if aligned:
        return ops.mul(ops.mul(ops.add(x, one), half), dim_value(size - 1, dtype))
    return ops.mul(ops.sub(ops.mul(ops.add(x, one), dim_value(size, dtype)), one), half)


def affine_points(theta: ir.Value, sizes: tuple[Dim, ...], aligned: bool) -> ir.Value:
    """theta [n, k, k + 1] applied to the homogeneous coordinates of every pixel of k axes -> [n, sizes.., k]."""
    rank, dtype = len(sizes), type_of(theta).dtype
    columns = []
    for axis in reversed(range(rank)):
        steps = ops.iota(shape=(*sizes, 1), axis=axis, dtype="float64")
        if aligned:
            step = ops.div(number(2.0, "float64"), dim_value(sizes[axis] - 1, "float64"))
            coordinate = ops.sub(ops.mul(steps, step), number(1.0, "float64"))
        else:
            odd = ops.add(ops.mul(steps, number(2.0, "float64")), number(1.0, "float64"))
            coordinate = ops.sub(ops.div(odd, dim_value(sizes[axis], "float64")), number(1.0, "float64"))
        columns.append(coordinate)
    columns.append(ops.full(shape=(*sizes, 1), dtype="float64", value=1.0))
    indices = convert(ops.concat(columns, axis=rank), dtype)
    out = ops.dot_general(theta, indices, lhs_contract=(2,), rhs_contract=(rank,))  # [n, k, d..]
    return transpose(out, (0, *range(2, rank + 2), 1))
