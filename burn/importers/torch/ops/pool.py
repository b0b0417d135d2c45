"""Pooling over windows, and over as many windows as the result is to have."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.reduction import ReducedWindows
from burn.dialect.compose import along, convert, dim_value, limit, mean, number, reshape, transpose, wide
from burn.dialect.dims import Dim, ceildiv, dim_max, dim_min, product
from burn.dialect.mlir import ir
from burn.dialect.reduction import window_size
from burn.dialect.types import TensorType, type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.contract import each

UNROLLED = 64
"""Elements of a window that are written one by one."""

# Every builder works on [.., d1 .. dn]: leading axes, batch and channels or more or less, are left alone.


class Windows:
    """Windows over the last n axes; `high` reaches as far as the last window does in ceil mode."""

    def __init__(
        self, x: TensorType, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, n: int
    ) -> None:
        self.n = n
        self.lead = x.rank - n
        self.kernel = each(kernel, n)
        self.strides = each(stride, n) if stride else self.kernel
        self.low = each(padding, n)
        self.dilations = each(dilation, n)
        self.dims = x.shape[self.lead :]
        self.high = tuple(self._high(i) if ceil else p for i, p in enumerate(self.low))

    def _high(self, i: int) -> Dim:
        """A last window that would begin in the padding is left out."""
        reach = (self.kernel[i] - 1) * self.dilations[i] + 1
        low, d, s = self.low[i], self.dims[i], self.strides[i]
        windows = dim_min(ceildiv(2 * low + d - reach, s) + 1, ceildiv(low + d, s))
        return dim_max(0, (windows - 1) * s + reach - low - d)

    @property
    def sizes(self) -> tuple[Dim, ...]:
        rows = zip(self.dims, self.kernel, self.strides, self.dilations, self.low, self.high, strict=True)
        return tuple(window_size(*row) for row in rows)

    def slide(self, x: ir.Value, kind: str) -> ir.Value:
        one, none = (1,) * self.lead, (0,) * self.lead
        return ops.window_reduce(
            x,
            kind=kind,
            window=(*one, *self.kernel),
            strides=(*one, *self.strides),
            dilations=(*one, *self.dilations),
            low=(*none, *self.low),
            high=(*none, *self.high),
        )


def _n(node: Node) -> int:
    """The spatial axes, from the operator's name: max_pool2d -> 2."""
    return int(node.op.split(".")[1].split("pool")[1][0])


@aten(*(f"max_pool{n}d.default" for n in (1, 2, 3)), *(f"max_pool{n}d_with_indices.default" for n in (2, 3)))
def max_pool(
    node: Node,
    x: ir.Value,
    kernel: Any,
    stride: Any = (),
    padding: Any = (0,),
    dilation: Any = (1,),
    ceil: bool = False,
) -> Any:
    """The maxima, and with indices the index of each in the flattened spatial axes."""
    w = Windows(type_of(x), kernel, stride, padding, dilation, ceil, _n(node))
    best = w.slide(x, "max")
    if "with_indices" not in node.op:
        return best
    return [best, _flat_index(x, w) if node.uses(1) else None]


def _gathered(cells: ir.Value, lead: int, shape: tuple[Dim, ...]) -> ir.Value:
    """[*lead, d1, k1 .. dn, kn], the elements of windows beside each spatial axis, as [*lead, d1 .. dn, k1 * .. * kn]."""
    outer, inner = (range(first, type_of(cells).rank, 2) for first in (lead, lead + 1))
    return reshape(transpose(cells, (*range(lead), *outer, *inner)), shape)


def _step(inside: ir.Value, kernel: Sequence[Dim], axis: int) -> ir.Value:
    """The index along one axis of a window's element, of its index in the flattened window."""
    after = dim_value(product(kernel[axis + 1 :]))
    return ops.mod(ops.div(inside, after), dim_value(kernel[axis]))


def _flat_index(x: ir.Value, w: Windows) -> ir.Value:
    """Where each window's first maximum lies in the flattened spatial axes. A window without a number above the lowest has its
    first element in the image."""
    inside = convert(_compared(x, w) if prod(w.kernel) <= UNROLLED else _written_out(x, w), "int64")
    index: Any = number(0, "int64")
    for i in range(w.n):
        step = _step(inside, w.kernel, i)
        window = along(ops.iota(shape=(w.sizes[i],), axis=0), w.lead + i, w.lead + w.n)
        begin = ops.sub(ops.mul(window, number(w.strides[i], "int64")), number(w.low[i], "int64"))
        dilation = number(w.dilations[i], "int64")
        coordinate = ops.add(begin, ops.mul(step, dilation))
        if w.low[i]:
            first = ops.sub(begin, ops.mul(ops.floordiv(begin, dilation), dilation))
            coordinate = ops.select(ops.lt(coordinate, number(0, "int64")), first, coordinate)
        index = ops.add(ops.mul(index, dim_value(w.dims[i])), coordinate)
    return index


def _padded(x: ir.Value, w: Windows) -> ir.Value:
    if not any((*w.low, *w.high)):
        return x
    lowest = limit(type_of(x).dtype, highest=False)
    return ops.pad(x, lowest, low=(*[0] * w.lead, *w.low), high=(*[0] * w.lead, *w.high))


def _compared(x: ir.Value, w: Windows) -> ir.Value:
    """The number of the first maximum in its window: the window's elements one by one, as slices."""
    best, cells, dtype = w.slide(x, "max"), _padded(x, w), "uint8"
    floating = type_of(x).dtype.startswith(("float", "bfloat"))
    shape = type_of(best).shape
    taken: Any = number(0, dtype)
    positions = list(itertools.product(*map(range, w.kernel)))
    for i, position in reversed(list(enumerate(positions))):
        starts = tuple(p * t for p, t in zip(position, w.dilations, strict=True))
        under = ops.slice(cells, starts=(*[0] * w.lead, *starts), sizes=shape, steps=(*[1] * w.lead, *w.strides))
        reached = ops.eq(under, best)
        reached = ops.or_(reached, ops.isnan(under)) if floating else reached
        taken = ops.select(reached, number(i, dtype), taken)
    return taken


def _written_out(x: ir.Value, w: Windows) -> ir.Value:
    """The same, by every window written out along a last axis."""
    lead, n, sizes, cells = w.lead, w.n, w.sizes, _padded(x, w)
    for i in range(n):
        starts = ops.mul(ops.iota(shape=(sizes[i], 1), axis=0), number(w.strides[i], "int64"))
        steps = ops.mul(ops.iota(shape=(1, w.kernel[i]), axis=1), number(w.dilations[i], "int64"))
        cells = ops.gather(cells, ops.add(starts, steps), axis=lead + 2 * i)
    cells = _gathered(cells, lead, (*type_of(x).shape[:lead], *sizes, product(w.kernel)))
    return ops.arg_reduce(cells, kind="max", axis=lead + n)


@aten(*(f"max_pool{n}d_with_indices_backward.default" for n in (2, 3)))
def max_pool_backward(
    node: Node,
    grad: ir.Value,
    x: ir.Value,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    indices: ir.Value,
) -> ir.Value:
    """Every window's gradient goes to its maximum: an element sums the gradients of windows whose index it is. Large windows
    scatter."""
    n, dtype = _n(node), type_of(grad).dtype
    w = Windows(type_of(x), kernel, stride, padding, dilation, ceil, n)
    image = product(w.dims)
    if prod(w.kernel) <= UNROLLED:
        own = reshape(ops.iota(shape=(image,), axis=0), (*[1] * w.lead, *w.dims))
        one, none = (1,) * w.lead, (0,) * w.lead
        windows = ReducedWindows(
            type_of(x).shape,
            type_of(grad).shape,
            (*one, *w.kernel),
            (*one, *w.strides),
            (*one, *w.dilations),
            (*none, *w.low),
            (*none, *w.high),
        )
        return convert(windows.spread_by_index(convert(grad, wide(dtype)), indices, own), dtype)
    flat = (product(type_of(x).shape[: w.lead]), image)
    rows = (flat[0], product(type_of(grad).shape[w.lead :]))
    zeros = ops.full(shape=flat, dtype=dtype, value=0.0)
    made = ops.scatter_elements(zeros, reshape(indices, rows), reshape(grad, rows), axis=1, reduction="add")
    return reshape(made, type_of(x).shape)


@aten(*(f"avg_pool{n}d.default" for n in (1, 2, 3)))
def avg_pool(
    node: Node,
    x: ir.Value,
    kernel: Any,
    stride: Any = (),
    padding: Any = (0,),
    ceil: bool = False,
    include_pad: bool = True,
    divisor: int | None = None,
) -> ir.Value:
    """Padding counts when `include_pad` says so; what a last window reaches beyond the padding never does."""
    dtype, w = type_of(x).dtype, Windows(type_of(x), kernel, stride, padding, (1,), ceil, _n(node))
    total = w.slide(convert(x, wide(dtype)), "sum")
    return convert(ops.div(total, counts(w, include_pad, divisor, type_of(total).dtype)), dtype)


def counts(w: Windows, include_pad: bool, divisor: int | None, dtype: str) -> ir.Value:
    """How many elements each window holds: a product over axes."""
    edge = w.low if include_pad else (0,) * w.n
    if divisor is not None or (edge == w.low and w.high == w.low):
        return number(prod(w.kernel) if divisor is None else divisor, dtype)
    total: Any = None
    for i in range(w.n):
        ones = ops.full(shape=(2 * edge[i] + w.dims[i],), dtype=dtype, value=1.0)
        high = dim_max(0, w.high[i] - edge[i])
        counted = ops.window_reduce(
            ones,
            kind="sum",
            window=(w.kernel[i],),
            strides=(w.strides[i],),
            dilations=(1,),
            low=(w.low[i] - edge[i],),
            high=(high,),
        )
        factor = along(counted, w.lead + i, w.lead + w.n)
        total = factor if total is None else ops.mul(total, factor)
    return total


# ---- adaptive -----------------------------------------------------------------------------------------------------------
@aten(
    "_adaptive_avg_pool2d.default",
    "_adaptive_avg_pool3d.default",
    *(f"adaptive_avg_pool{n}d.default" for n in (1, 2, 3)),
)
def adaptive_avg_pool(node: Node, x: ir.Value, size: list[Dim]) -> ir.Value:
    """Means over parts of each axis that are as equal as can be."""
    dtype = type_of(x).dtype
    value = convert(x, wide(dtype))
    lead = type_of(x).rank - len(size)
    if all(s == 1 for s in size):
        axes = tuple(range(lead, lead + len(size)))

        return convert(mean(value, axes, keepdims=True), dtype)
    for i, wanted in enumerate(size):
        value = _adaptive_mean(value, lead + i, wanted)
    return convert(value, dtype)


def _adaptive_mean(x: ir.Value, axis: int, wanted: Dim) -> ir.Value:
    """Output i is the mean of elements floor(i d / n) to ceil((i + 1) d / n): a matmul with a matrix of weights."""
    dtype, d = type_of(x).dtype, type_of(x).shape[axis]
    if d == wanted:
        return x
    pooled = ops.dot_general(x, shares(d, wanted, dtype), lhs_contract=(axis,), rhs_contract=(1,))
    rank = type_of(x).rank
    return transpose(pooled, (*range(axis), rank - 1, *range(axis, rank - 1)))


def shares(d: Dim, wanted: Dim, dtype: str) -> ir.Value:
    """[wanted, d]: how much each element counts in each part."""
    low, high = _bounds(d, wanted)
    element = ops.iota(shape=(1, d), axis=1)
    inside = ops.and_(ops.ge(element, low), ops.lt(element, high))
    return ops.div(convert(inside, dtype), convert(ops.sub(high, low), dtype))


def _bounds(d: Dim, wanted: Dim) -> tuple[ir.Value, ir.Value]:
    index, n = ops.iota(shape=(wanted, 1), axis=0), dim_value(wanted)
    size, one = dim_value(d), number(1, "int64")
    low = ops.floordiv(ops.mul(index, size), n)
    high = ops.floordiv(ops.sub(ops.add(ops.mul(ops.add(index, one), size), n), one), n)
    return low, high


@aten(*(f"adaptive_max_pool{n}d.default" for n in (1, 2, 3)))
def adaptive_max_pool(node: Node, x: ir.Value, size: list[Dim]) -> list[Any]:
    """Without indices, maxima along one axis after another. With them every part is written out to the length of the longest, the
    rest with the lowest number."""
    n = len(size)
    if not node.uses(1):
        for axis, wanted in enumerate(size, type_of(x).rank - n):
            x = _adaptive_maxima(x, axis, wanted)
        return [x, None]
    lead, dims = type_of(x).rank - n, type_of(x).shape[-n:]
    lowest = limit(type_of(x).dtype, highest=False)
    cells, lengths, at = x, [], []
    for i, (d, wanted) in enumerate(zip(dims, size, strict=True)):
        low, high = _bounds(d, wanted)
        length = _longest(d, wanted)
        reach = ops.add(low, ops.iota(shape=(1, length), axis=1))
        inside = ops.lt(reach, high)
        index = ops.select(inside, reach, low)
        cells = ops.gather(cells, index, axis=lead + 2 * i)
        where = tuple(v if j in (lead + 2 * i, lead + 2 * i + 1) else 1 for j, v in enumerate(type_of(cells).shape))
        cells = ops.select(reshape(inside, where), cells, lowest)
        lengths.append(length)
        at.append(index)
    cells = _gathered(cells, lead, (*type_of(x).shape[:lead], *size, product(lengths)))
    best = ops.reduce(cells, kind="max", axes=(lead + n,))
    inside = ops.arg_reduce(cells, kind="max", axis=lead + n)
    total: Any = number(0, "int64")
    for i in range(n):
        step = _step(inside, lengths, i)
        first = along(
            reshape(ops.slice(at[i], starts=(0, 0), sizes=(size[i], 1), steps=(1, 1)), (size[i],)),
            lead + i,
            lead + n,
        )
        total = ops.add(ops.mul(total, dim_value(dims[i])), ops.add(first, step))
    return [best, total]


def _longest(d: Dim, wanted: Dim) -> Dim:
    """The most elements of one of the `wanted` parts of an axis."""
    return ceildiv(d, wanted) + (0 if isinstance(d, int) and isinstance(wanted, int) and d % wanted == 0 else 1)


def _adaptive_maxima(x: ir.Value, axis: int, wanted: Dim) -> ir.Value:
    """The maxima of the parts of an axis. Shorter parts repeat their last element."""
    d = type_of(x).shape[axis]
    if d == wanted:
        return x
    low, high = _bounds(d, wanted)
    reach = ops.add(low, ops.iota(shape=(1, _longest(d, wanted)), axis=1))
    index = ops.min(reach, ops.sub(high, number(1, "int64")))
    return ops.reduce(ops.gather(x, index, axis=axis), kind="max", axes=(axis + 1,))
