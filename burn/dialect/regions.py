"""Pooling over regions of interest: ONNX RoiAlign and MaxRoiPool, torchvision's four operators. Composites.

`roi_align` averages samples between pixels, `roi_pool` reads whole pixels. Both are differentiable only with respect to
the image: boxes are constants, as in torchvision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, limit, number, number_like, part, reshape, transpose, wide
from burn.dialect.dims import Dim, floordiv, product
from burn.dialect.mlir import ir
from burn.dialect.sampling import clamp, taps, total, weighted
from burn.dialect.types import type_of

ReadSize = Callable[[ir.Value], Dim]
"""Creates a new size from the one element of an integer tensor, read at run time."""

BEYOND = 6
"""Samples outside of the image, on either side, that are kept for a region that extends beyond it. All of them count as
0."""


@dataclass(frozen=True)
class Form:
    """The operators' differences.

    bins: along the height, along the width. scale: pixels per unit of the boxes' coordinates. shift: subtracted from
    them, in pixels. least: the smallest extent of a region, in pixels; None accepts any, including 0 and less.

    by_bin: position-sensitive pooling (arXiv:1605.06409): channel i of the result in bin b reads channel i * bins + b.
    """

    bins: tuple[Dim, Dim]
    scale: float | ir.Value = 1.0
    shift: float = 0.0
    least: float | None = None
    by_bin: bool = False

    def edge(self, rois: ir.Value, column: int, dtype: str) -> ir.Value:
        """One edge of every region in pixels. Shapes: rois [r, 4] -> [r, 1, 1]."""
        side = reshape(part(convert(rois, dtype), 1, column, 1), (type_of(rois).shape[0], 1, 1))
        scale = number(self.scale, dtype) if isinstance(self.scale, (int, float)) else convert(self.scale, dtype)
        return ops.sub(ops.mul(side, scale), number(self.shift, dtype))

    def extent(self, start: ir.Value, end: ir.Value) -> ir.Value:
        size = ops.sub(end, start)
        return size if self.least is None else ops.max(size, number_like(self.least, size))

    def channels(self, x: ir.Value) -> Dim:
        """The channels of the result."""
        channels = type_of(x).shape[1]
        return floordiv(channels, product(self.bins)) if self.by_bin else channels

    def pixels(self, x: ir.Value, images: ir.Value, grid: tuple[Dim, ...], index: ir.Value) -> ir.Value:
        """Pixels of every channel. x [n, c, h, w], images [r], index [r, bin, s, bin, s], in the image's row-major
        order, with shape `grid` -> [channels, r, bin, s, bin, s]."""
        batch, channels, height, width = type_of(x).shape
        regions, rows, _, columns, _ = grid
        area, own = dim_value(height * width), self.channels(x)
        flat_index = ops.add(index, reshape(ops.mul(images, area), (regions, 1, 1, 1, 1)))
        flat = reshape(transpose(x, (1, 0, 2, 3)), (channels, batch * height * width))
        if self.by_bin:
            flat = reshape(flat, (own, product(self.bins) * batch * height * width))
            bin_of = ops.add(
                ops.mul(ops.iota(shape=(1, rows, 1, 1, 1), axis=1), dim_value(columns)),
                ops.iota(shape=(1, 1, 1, columns, 1), axis=3),
            )
            flat_index = ops.add(flat_index, ops.mul(bin_of, dim_value(batch * height * width)))
        return ops.gather(flat, flat_index, axis=1)


# ---- samples between pixels -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Samples:
    """Samples along one axis. `position`: their positions [r, bin, s] in pixels. `has`: a mask of those that a region has,
    None if all have the same number. `count`: the number per bin, rounded up but not clamped at 0: [r, 1, 1] or []."""

    position: ir.Value
    used: ir.Value | None
    count: ir.Value


def _first_sample(begin: ir.Value, size: ir.Value, count: ir.Value, reach: ir.Value) -> ir.Value:
    """The number of a bin's first computed sample if it has more than `reach`. The next `reach` samples include all in
    the image, and at least one outside if there is any."""
    distance = ops.div(size, ops.max(count, number_like(1.0, count)))
    first = ops.floor(ops.div(ops.neg(begin), ops.max(distance, number_like(0.5, distance))))
    first = ops.max(ops.sub(first, number_like(float(BEYOND), first)), number_like(0.0, first))
    return ops.max(ops.min(first, ops.sub(count, reach)), number_like(0.0, first))


def _samples(start: ir.Value, extent: ir.Value, bins: Dim, ratio: int, pixels: Dim, read_size: ReadSize) -> _Samples:
    """ratio: samples in a bin; 0 or less uses as many as a region has pixels in a bin, rounded up. The program then has
    room for the most that any region has."""
    dtype, regions = type_of(start).dtype, type_of(start).shape[0]
    size = ops.div(extent, dim_value(bins, dtype))
    one = number(1.0, dtype)
    begin = ops.add(start, ops.mul(ops.iota(shape=(1, bins, 1), axis=1, dtype=dtype), size))
    room: Dim = ratio
    if ratio > 0:
        count = number(float(ratio), dtype)
        sub, used = ops.iota(shape=(1, 1, ratio), axis=2, dtype=dtype), None
    else:
        count = ops.ceil(size)
        reach = dim_value(pixels * 2 + 2 * BEYOND, dtype)  # samples are at least half a pixel apart
        most = ops.reduce(ops.cast(ops.min(count, reach), dtype="int64"), kind="max", axes=(0, 1, 2))
        room = read_size(ops.max(most, number(0, "int64")))
        sub = ops.add(ops.iota(shape=(1, 1, room), axis=2, dtype=dtype), _first_sample(begin, size, count, reach))
        used = ops.broadcast_to(ops.lt(sub, count), shape=(regions, bins, room))
    inner = ops.div(ops.mul(ops.add(sub, number(0.5, dtype)), size), ops.max(count, one))
    return _Samples(ops.broadcast_to(ops.add(begin, inner), shape=(regions, bins, room)), used, count)


def roi_align(
    x: ir.Value, rois: ir.Value, images: ir.Value, form: Form, ratio: int, mode: str, read_size: ReadSize
) -> ir.Value:
    """Bilinear samples of every bin, averaged (`mode` "avg") or their maximum, with each pixel weighted ("max").

    Shapes: x [n, c, h, w], rois [r, 4] (x1, y1, x2, y2), images [r] int64: the image of each -> [r, channels, bins..],
    of x's element type. Samples more than a pixel outside of the image count as 0. ratio: see `_samples`. A bin without
    samples is 0; in position-sensitive pooling it is 0 / 0, as in torchvision.
    """
    dtype, sizes, regions = wide(type_of(x).dtype), type_of(x).shape[2:], type_of(rois).shape[0]
    rois = ops.stop_gradient(rois)
    found = []
    for axis in (0, 1):
        start, end = form.edge(rois, 1 - axis, dtype), form.edge(rois, 3 - axis, dtype)
        found.append(_samples(start, form.extent(start, end), form.bins[axis], ratio, sizes[axis], read_size))
    (height, rows), (width, columns) = (type_of(s.position).shape[1:] for s in found)
    grid = (regions, height, rows, width, columns)
    count = product(grid[1:])

    def spread(v: ir.Value, axis: int) -> ir.Value:
        """One axis [r, bin, s], broadcast over the whole grid, as [r, count]."""
        r, b, s = type_of(v).shape
        v = reshape(v, (r, b, s, 1, 1) if axis == 0 else (r, 1, 1, b, s))
        return reshape(ops.broadcast_to(v, shape=grid), (regions, count))

    inside, axes = None, []
    for axis, size in enumerate(sizes):
        position = spread(found[axis].position, axis)
        here = ops.and_(ops.ge(position, number(-1.0, dtype)), ops.le(position, dim_value(size, dtype)))
        inside = here if inside is None else ops.and_(inside, here)
        axes.append(taps(clamp(position, size), size, "linear", "border", True))
    assert inside is not None

    def fetch(index: ir.Value) -> ir.Value:
        values = form.pixels(x, images, grid, reshape(index, grid))
        return transpose(reshape(values, (form.channels(x), regions, count)), (1, 0, 2))

    terms = weighted(fetch, axes, sizes, dtype)
    zero = number(0.0, dtype)
    values, neutral = total(terms), zero
    if mode == "max":
        values, neutral = terms[0], limit(dtype, highest=False)
        for term in terms[1:]:
            values = ops.max(values, term)
    values = ops.select(reshape(inside, (regions, 1, count)), values, zero)
    if found[0].used is not None and found[1].used is not None:
        used = ops.and_(spread(found[0].used, 0), spread(found[1].used, 1))
        values = ops.select(reshape(used, (regions, 1, count)), values, neutral)
    values = reshape(values, (regions, form.channels(x), height, rows, width, columns))
    out = ops.reduce(values, kind="sum" if mode == "avg" else "max", axes=(3, 5))
    if mode == "max":
        out = ops.select(ops.eq(out, neutral), zero, out)
    else:
        number_of = ops.mul(found[0].count, found[1].count)
        if not form.by_bin:
            number_of = ops.max(number_of, number(1.0, dtype))
        out = ops.div(out, reshape(number_of, (regions, 1, 1, 1) if type_of(number_of).rank else ()))
    return convert(out, type_of(x).dtype)


# ---- whole pixels ----------------------------------------------------------------------------------------------------------
LOWEST = -3.4028234663852886e38
"""The initial value of a maximum: the least float32, so that NaN and -inf are never a maximum."""


@dataclass(frozen=True)
class _Windows:
    """Pixels along one axis: the first pixel of each bin and the one after its last, [r, bin] int64; room: the most
    pixels of a bin."""

    first: ir.Value
    stop: ir.Value
    room: Dim

    def index(self, size: Dim) -> tuple[ir.Value, ir.Value]:
        """The pixels of every bin, and the mask of those that it has: [r, bin, room]."""
        regions, bins = type_of(self.first).shape
        first, stop = (reshape(v, (regions, bins, 1)) for v in (self.first, self.stop))
        at = ops.add(first, ops.iota(shape=(1, 1, self.room), axis=2))
        last = dim_value(size - 1)
        return ops.max(ops.min(at, last), number(0, "int64")), ops.lt(at, stop)


def _rounded(x: ir.Value) -> ir.Value:
    """Rounds to the nearest integer, ties away from zero."""
    whole = ops.trunc(x)
    up = ops.ge(ops.abs(ops.sub(x, whole)), number_like(0.5, x))
    return ops.select(up, ops.add(whole, ops.sign(x)), whole)


def _windows(
    form: Form, rois: ir.Value, axis: int, last: float, highest: Dim, dtype: str, read_size: ReadSize
) -> _Windows:
    """last: 1.0 if the pixel at a region's end belongs to it. highest: windows are clipped there."""
    bins, regions = form.bins[axis], type_of(rois).shape[0]
    start, end = (_rounded(form.edge(rois, column - axis, dtype)) for column in (1, 3))
    size = ops.div(form.extent(start, ops.add(end, number(last, dtype))), dim_value(bins, dtype))
    bin_of = ops.iota(shape=(1, bins, 1), axis=1, dtype=dtype)

    def cut(v: ir.Value) -> ir.Value:
        v = ops.min(ops.max(ops.add(v, start), number(0.0, dtype)), dim_value(highest, dtype))
        return reshape(ops.cast(v, dtype="int64"), (regions, bins))

    first = cut(ops.floor(ops.mul(bin_of, size)))
    stop = cut(ops.ceil(ops.mul(ops.add(bin_of, number(1.0, dtype)), size)))
    most = ops.reduce(ops.sub(stop, first), kind="max", axes=(0, 1))
    return _Windows(first, stop, read_size(ops.max(most, number(0, "int64"))))


def _grid(windows: list[_Windows], sizes: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], ir.Value, ir.Value]:
    """The shape [r, bin, s, bin, s]; the pixels' indices in the image's row-major order; the mask of those that a bin
    has."""
    (rows, here), (columns, there) = (w.index(size) for w, size in zip(windows, sizes, strict=True))
    (r, bh, kh), (_, bw, kw) = type_of(rows).shape, type_of(columns).shape
    tall, flat = (r, bh, kh, 1, 1), (r, 1, 1, bw, kw)
    index = ops.add(ops.mul(reshape(rows, tall), dim_value(sizes[1])), reshape(columns, flat))
    return (r, bh, kh, bw, kw), index, ops.and_(reshape(here, tall), reshape(there, flat))


def roi_pool(
    x: ir.Value, rois: ir.Value, images: ir.Value, form: Form, read_size: ReadSize
) -> tuple[ir.Value, ir.Value]:
    """The maximum of every bin's pixels, and the index of that pixel (arXiv:1504.08083).

    Shapes: x [n, c, h, w], rois [r, 4], images [r] int64 -> [r, c, bins..] of x's element type and, int64, the first
    such pixel in the image's row-major order. An empty bin, or one without a number above `LOWEST`, is 0, and its pixel
    is -1.
    """
    batch, channels, *sizes = type_of(x).shape
    dtype, regions = wide(type_of(x).dtype), type_of(rois).shape[0]
    rois = ops.stop_gradient(rois)
    windows = [_windows(form, rois, axis, 1.0, sizes[axis], dtype, read_size) for axis in (0, 1)]
    grid, index, inside = _grid(windows, tuple(sizes))
    _, height, kh, width, kw = grid
    low = number(LOWEST, dtype)
    values = convert(form.pixels(ops.stop_gradient(x), images, grid, index), dtype)
    values = ops.select(ops.and_(inside, ops.gt(values, low)), values, low)
    values = transpose(values, (1, 0, 2, 4, 3, 5))  # [r, c, bin, bin, s, s]
    nothing = ops.full(
        shape=(regions, channels, height, width, 1), dtype=dtype, value=LOWEST
    )  # windows may all be empty
    values = ops.concat([reshape(values, (regions, channels, height, width, kh * kw)), nothing], axis=4)
    chosen = ops.arg_reduce(values, kind="max", axis=4)
    some = ops.gt(ops.reduce(values, kind="max", axes=(4,)), low)
    across = ops.max(dim_value(kw), number(1, "int64"))
    bins = (regions, 1, height, width)
    row = ops.add(reshape(windows[0].first, (regions, 1, height, 1)), ops.floordiv(chosen, across))
    column = ops.add(reshape(windows[1].first, (regions, 1, 1, width)), ops.mod(chosen, across))
    pixel = ops.select(some, ops.add(ops.mul(row, dim_value(sizes[1])), column), number(-1, "int64"))
    plane = ops.add(
        ops.mul(reshape(images, (regions, 1, 1, 1)), dim_value(channels)), ops.iota(shape=(1, channels, 1, 1), axis=1)
    )
    flat_index = ops.add(ops.mul(plane, dim_value(sizes[0] * sizes[1])), ops.max(pixel, number(0, "int64")))
    read = ops.gather(reshape(x, (batch * channels * sizes[0] * sizes[1],)), flat_index, axis=0)
    filled = ops.and_(
        reshape(ops.gt(windows[0].stop, windows[0].first), (regions, 1, height, 1)),
        reshape(ops.gt(windows[1].stop, windows[1].first), (regions, 1, 1, width)),
    )
    rest = ops.select(
        ops.broadcast_to(filled, shape=bins), number(LOWEST, type_of(x).dtype), number(0.0, type_of(x).dtype)
    )
    return ops.select(some, read, rest), pixel


def ps_roi_pool(x: ir.Value, rois: ir.Value, images: ir.Value, form: Form, read_size: ReadSize) -> ir.Value:
    """The mean of every bin's pixels, each bin from channels of its own (arXiv:1605.06409, torchvision ps_roi_pool).

    Shapes: x [n, c, h, w], rois [r, 4], images [r] int64 -> [r, c / bins, bins..]. Empty bins are 0. As in torchvision, windows
    never reach the last row and column."""
    sizes = type_of(x).shape[2:]
    dtype, regions = wide(type_of(x).dtype), type_of(rois).shape[0]
    rois = ops.stop_gradient(rois)
    windows = [_windows(form, rois, axis, 0.0, sizes[axis] - 1, dtype, read_size) for axis in (0, 1)]
    grid, index, inside = _grid(windows, tuple(sizes))
    values = convert(form.pixels(x, images, grid, index), dtype)
    values = ops.select(inside, values, number(0.0, dtype))
    out = transpose(ops.reduce(values, kind="sum", axes=(3, 5)), (1, 0, 2, 3))
    height, width = (ops.cast(ops.sub(w.stop, w.first), dtype=dtype) for w in windows)
    area = ops.mul(reshape(height, (regions, 1, form.bins[0], 1)), reshape(width, (regions, 1, 1, form.bins[1])))
    out = ops.div(out, ops.max(area, number(1.0, dtype)))
    return convert(ops.select(ops.gt(area, number(0.0, dtype)), out, number(0.0, dtype)), type_of(x).dtype)


def channel_mapping(x: ir.Value, regions: Dim, form: Form) -> ir.Value:
    """The channel of x for every element of a position-sensitive result: [r, c / bins, bins..], int64."""
    shape = (regions, form.channels(x), *form.bins)
    bin_of = ops.add(ops.mul(ops.iota(shape=shape, axis=2), dim_value(form.bins[1])), ops.iota(shape=shape, axis=3))
    return ops.add(ops.mul(ops.iota(shape=shape, axis=1), dim_value(product(form.bins))), bin_of)
