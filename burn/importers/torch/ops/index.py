"""Indexing by tensors, and ops whose sizes depend on data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, limit, number, part, reshape, transpose
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.searching import positions
from burn.dialect.types import FLOATS, broadcast_shapes, type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.sizes import asked_of, expression_of


@aten("embedding.default")
def embedding(node: Node, weight: ir.Value, indices: ir.Value, *rest: Any) -> ir.Value:
    return ops.gather(weight, ops.from_start(indices), axis=0)


@aten("index_select.default")
def index_select(node: Node, x: ir.Value, dim: int, index: ir.Value) -> ir.Value:
    if not type_of(x).rank:
        return x
    return ops.gather(x, ops.from_start(reshape(index, (type_of(index).elements,))), axis=node.axis(dim, x))


@aten("gather.default")
def gather(node: Node, x: ir.Value, dim: int, index: ir.Value, sparse_grad: bool = False) -> ir.Value:
    index = ops.from_start(index)
    if not type_of(x).rank or not type_of(index).rank:
        return reshape(
            ops.gather(reshape(x, (type_of(x).elements,)), reshape(index, (type_of(index).elements,)), axis=0),
            node.shape,
        )
    return ops.gather_elements(x, index, axis=node.axis(dim, x))


@aten("take.default")
def take(node: Node, x: ir.Value, index: ir.Value) -> ir.Value:
    return ops.gather(reshape(x, (type_of(x).elements,)), index, axis=0)


# ---- x[i, :, j] ---------------------------------------------------------------------------------------------------------
def _indices(node: Node, indices: list[Any]) -> tuple[list[int], list[ir.Value], tuple[Dim, ...]]:
    """The indexed axes, their indices, and the broadcast shape of those. A mask becomes the indices of its true elements, one
    tensor for each of its axes."""
    axes, found = [], []
    position = 0
    for index in indices:
        if index is None:
            position += 1
            continue
        if type_of(index).dtype in ("bool", "uint8"):
            for row in _where(node, index):
                axes.append(position)
                found.append(row)
                position += 1
            continue
        axes.append(position)
        found.append(convert(index, "int64"))
        position += 1
    shape = broadcast_shapes(*(type_of(p).shape for p in found))
    return axes, found, shape


def _where(node: Node, mask: ir.Value) -> list[ir.Value]:
    count = node.new_size("count")
    found = ops.nonzero(convert(mask, "bool"), count=str(count))
    rows = [ops.slice(found, starts=(i, 0), sizes=(1, count), steps=(1, 1)) for i in range(type_of(mask).rank)]
    return [reshape(row, (count,)) for row in rows]


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(node: Node, x: ir.Value, indices: list[Any]) -> ir.Value:
    """numpy's indexing with tensors: the indices broadcast; the axes that they name are replaced by theirs, in place when
    the axes lie side by side, else in front."""
    axes, found, shape = _indices(node, indices)
    type_ = type_of(x)
    if len(axes) == 1:
        result = ops.gather(x, found[0], axis=axes[0])
    else:
        rest = [i for i in range(type_.rank) if i not in axes]
        front = transpose(x, (*axes, *rest))
        columns = [reshape(broadcast_to(p, shape), (*shape, 1)) for p in found]
        result = ops.gather_nd(front, ops.concat(columns, axis=len(shape)))
        if axes == list(range(axes[0], axes[0] + len(axes))):
            n, before = len(shape), axes[0]
            order = (*range(n, n + before), *range(n), *range(n + before, n + len(rest)))
            result = transpose(result, order)
    if any(i is not None and type_of(i).dtype in ("bool", "uint8") for i in indices):
        _bind_sizes(node, type_of(result).shape)
    return result


def _bind_sizes(node: Node, shape: tuple[Dim, ...]) -> None:
    """torch's own symbols for sizes that depend on data are the ones that burn has found."""
    for have, want in zip(shape, node.meta.shape, strict=True):
        if isinstance(want, torch.SymInt):
            node.importer.sizes.bind(want, have)


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(
    node: Node, x: ir.Value, indices: list[Any], values: ir.Value, accumulate: bool = False, *rest: Any
) -> ir.Value:
    """x with values at the elements that `index` would read."""
    type_ = type_of(x)
    mask = next((i for i in indices if i is not None), None)
    if (
        mask is not None
        and type_of(mask).dtype == "bool"
        and type_of(values).elements == 1
        and not accumulate
        and len([i for i in indices if i is not None]) == 1
    ):
        before = next(k for k, i in enumerate(indices) if i is not None)
        after = type_.rank - before - type_of(mask).rank
        chosen = reshape(mask, (*type_of(mask).shape, *[1] * after))
        return ops.select(chosen, reshape(node.as_result(values), ()), x)
    axes, found, shape = _indices(node, indices)
    if len(axes) == 1 and len(shape) == 1:
        (axis,), (index,) = axes, found
        rows = broadcast_to(
            node.as_result(values), tuple(shape[0] if i == axis else d for i, d in enumerate(type_.shape))
        )
        return _rows_written(x, axis, index, rows, "add" if accumulate else "none", type_.shape)
    rest_axes = [i for i in range(type_.rank) if i not in axes]
    front = transpose(x, (*axes, *rest_axes))
    inner = tuple(type_.shape[i] for i in rest_axes)
    side_by_side = axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if side_by_side else 0
    n = len(shape)
    wanted = (*inner[:before], *shape, *inner[before:])
    updates = broadcast_to(node.as_result(values), wanted)
    updates = transpose(updates, (*range(before, before + n), *range(before), *range(before + n, len(wanted))))
    columns = [reshape(broadcast_to(p, shape), (*shape, 1)) for p in found]
    written = ops.scatter_nd(front, ops.concat(columns, axis=n), updates, reduction="add" if accumulate else "none")
    order = (*axes, *rest_axes)
    return transpose(written, tuple(order.index(i) for i in range(type_.rank)))


# ---- scatter ------------------------------------------------------------------------------------------------------------
@aten("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add.default")
def scatter(node: Node, x: ir.Value, dim: int, index: ir.Value, src: Any, reduce: str = "") -> ir.Value:
    kind = {"": "none", "add": "add", "multiply": "mul"}["add" if "scatter_add" in node.op else reduce]
    return _scattered(node, x, dim, index, src, kind)


def _scattered(node: Node, x: ir.Value, dim: int, index: ir.Value, src: Any, kind: str) -> ir.Value:
    """Where src is larger than index, the part of it that index covers counts."""
    shape = type_of(x).shape
    if not shape:
        x, index = reshape(x, (1,)), reshape(index, (1,))
        src = reshape(src, (1,)) if isinstance(src, ir.Value) else src
        return reshape(_scattered(node, x, 0, index, src, kind), ())
    sizes = type_of(index).shape
    if isinstance(src, ir.Value) and type_of(src).rank:
        updates = convert(src, type_of(x).dtype)
        if type_of(updates).shape != sizes:
            updates = ops.slice(updates, starts=(0,) * len(sizes), sizes=sizes, steps=(1,) * len(sizes))
    else:
        updates = broadcast_to(node.scalar(src, type_of(x).dtype), sizes)
    return ops.scatter_elements(x, ops.from_start(index), updates, axis=node.axis(dim, x), reduction=kind)


REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def combined(
    node: Node, x: ir.Value, src: ir.Value, reduce: str, include_self: bool, write: Callable[..., ir.Value]
) -> ir.Value:
    """x with src combined into it. `write(into, values, kind)` scatters. Without the old values, the written elements start from
    the reduction's identity. A mean of integers is rounded down."""
    if reduce not in REDUCTIONS:
        node.fail(f"there is no reduction '{reduce}'")
    kind, type_ = REDUCTIONS[reduce], type_of(x)
    if include_self and reduce != "mean":
        return write(x, src, kind)
    one = ops.broadcast_to(number(1, "int64"), shape=type_of(src).shape)
    times = write(ops.full(shape=type_.shape, dtype="int64", value=0.0), one, "add")
    if not include_self:
        start = (
            limit(type_.dtype, highest=kind == "min") if kind in ("max", "min") else number(kind == "mul", type_.dtype)
        )
        x = ops.select(ops.gt(times, number(0, "int64")), start, x)
    total = write(x, src, kind)
    if reduce != "mean":
        return total
    own = number(1, "int64")
    divisor = convert(ops.add(times, own) if include_self else ops.max(times, own), type_.dtype)
    return ops.div(total, divisor) if type_.dtype in FLOATS else ops.floordiv(total, divisor)


@aten("scatter_reduce.two")
def scatter_reduce(
    node: Node, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduce: str, include_self: bool = True
) -> ir.Value:
    def write(into: ir.Value, values: ir.Value, kind: str) -> ir.Value:
        return _scattered(node, into, dim, index, values, kind)

    sizes = type_of(index).shape
    if sizes and type_of(src).shape != sizes:
        src = ops.slice(src, starts=(0,) * len(sizes), sizes=sizes, steps=(1,) * len(sizes))
    return combined(node, x, src, reduce, include_self, write)


@aten("index_reduce.default")
def index_reduce(
    node: Node, x: ir.Value, dim: int, index: ir.Value, source: ir.Value, reduce: str, *, include_self: bool = True
) -> ir.Value:
    shape = type_of(x).shape or (1,)
    flat, rows = (reshape(v, s) for v, s in ((x, shape), (source, type_of(source).shape or (1,))))
    axis = node.axis(dim, flat)
    index = ops.from_start(index)

    def write(into: ir.Value, values: ir.Value, kind: str) -> ir.Value:
        return _rows_written(into, axis, index, values, kind, shape)

    return reshape(combined(node, flat, rows, reduce, include_self, write), type_of(x).shape)


@aten("put.default")
def put(node: Node, x: ir.Value, index: ir.Value, source: ir.Value, accumulate: bool = False) -> ir.Value:
    """Writes at indices of the flattened x."""
    n, total = type_of(index).elements, type_of(x).elements
    targets = reshape(convert(index, "int64"), (n, 1))
    kind = "add" if accumulate else "none"
    written = ops.scatter_nd(reshape(x, (total,)), targets, reshape(source, (n,)), reduction=kind)
    return reshape(written, type_of(x).shape)


@aten("index_add.default")
def index_add(node: Node, x: ir.Value, dim: int, index: ir.Value, source: ir.Value, alpha: Any = 1) -> ir.Value:
    source = node.as_result(source)
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        source = ops.mul(source, node.scalar(alpha))
    if not type_of(x).rank:
        total = ops.reduce(reshape(source, (type_of(source).elements,)), kind="sum", axes=(0,))
        return ops.add(x, total)
    axis, shape = node.axis(dim, x), type_of(x).shape
    return _rows_written(x, axis, ops.from_start(index), source, "add", shape)


@aten("index_copy.default", "index_fill.int_Scalar", "index_fill.int_Tensor")
def index_copy(node: Node, x: ir.Value, dim: int, index: ir.Value, source: Any) -> ir.Value:
    if not type_of(x).rank:
        return reshape(node.scalar(source), ())
    if "index_copy" in node.op:  # index_fill lets an index count from the end
        index = ops.from_start(index)
    axis, shape = node.axis(dim, x), type_of(x).shape
    rows = tuple(type_of(index).elements if i == axis else d for i, d in enumerate(shape))
    return _rows_written(x, axis, index, broadcast_to(node.scalar(source), rows), "none", shape)


def _rows_written(
    x: ir.Value, axis: int, index: ir.Value, rows: ir.Value, kind: str, shape: tuple[Dim, ...]
) -> ir.Value:
    """x with rows across `axis` combined with the old ones. One row needs no transpose and keeps its offset in memory: this is
    how keys and values are cached."""
    count = type_of(index).elements
    if count == 1:
        targets = broadcast_to(reshape(convert(index, "int64"), tuple(1 for _ in shape)), type_of(rows).shape)
        return ops.scatter_elements(x, targets, rows, axis=axis, reduction=kind)
    order = (axis, *(i for i in range(len(shape)) if i != axis))
    column = reshape(convert(index, "int64"), (count, 1))
    written = ops.scatter_nd(transpose(x, order), column, transpose(rows, order), reduction=kind)
    return transpose(written, tuple(order.index(i) for i in range(len(shape))))


@aten("masked_scatter.default")
def masked_scatter(node: Node, x: ir.Value, mask: ir.Value, source: ir.Value) -> ir.Value:
    """x with the elements of source, in order, at the true elements of the mask."""
    shape = node.shape
    total = product(shape)
    chosen = reshape(broadcast_to(mask, shape), (total,))
    order = ops.cumulative(convert(chosen, "int64"), kind="sum", axis=0, exclusive=True)
    last = ops.sub(dim_value(type_of(source).elements), number(1, "int64"))
    taken = ops.gather(reshape(source, (type_of(source).elements,)), ops.min(order, last), axis=0)
    flat = reshape(broadcast_to(x, shape), (total,))
    return reshape(ops.select(chosen, taken, flat), shape)


@aten("masked_scatter_backward.default")
def masked_scatter_backward(node: Node, grad: ir.Value, mask: ir.Value, sizes: list[Dim]) -> ir.Value:
    """The gradient of `source`: element n is that of the n-th true element of the mask, 0 if there are fewer."""
    shape = type_of(grad).shape
    count, total = product(shape), product(sizes)
    chosen = reshape(broadcast_to(mask, shape), (count,))
    order = ops.cumulative(convert(chosen, "int64"), kind="sum", axis=0, exclusive=True)
    target = ops.select(chosen, ops.min(order, dim_value(total)), dim_value(total))  # one element more takes the others
    updates = ops.select(chosen, reshape(grad, (count,)), number(0, type_of(grad).dtype))
    zeros = ops.full(shape=(total + 1,), dtype=type_of(grad).dtype, value=0.0)
    written = ops.scatter_nd(zeros, reshape(target, (count, 1)), updates, reduction="add")
    return reshape(part(written, 0, 0, total), tuple(sizes))


# ---- what depends on data -----------------------------------------------------------------------------------------------
@aten("nonzero.default")
def nonzero(node: Node, x: ir.Value) -> ir.Value:
    """The indices of the non-zero elements, one row each."""
    count = node.new_size("count")
    node.importer.sizes.bind(node.meta.shape[0], count)
    if not type_of(x).rank:
        found = ops.nonzero(reshape(x, (1,)), count=str(count))
        return ops.slice(transpose(found, (1, 0)), starts=(0, 0), sizes=(count, 0), steps=(1, 1))
    return transpose(ops.nonzero(x, count=str(count)), (1, 0))


@aten("masked_select.default")
def masked_select(node: Node, x: ir.Value, mask: ir.Value) -> ir.Value:
    shape = broadcast_shapes(type_of(x).shape, type_of(mask).shape)
    total = product(shape)
    (selected,) = _where(node, reshape(broadcast_to(mask, shape), (total,)))
    node.importer.sizes.bind(node.meta.shape[0], type_of(selected).shape[0])
    return ops.gather(reshape(broadcast_to(x, shape), (total,)), selected, axis=0)


@aten("_unique2.default", "unique_dim.default")
def unique(node: Node, x: ir.Value, *rest: Any) -> list[Any]:
    """Values in ascending order, for each element the place of its value, and how often each occurs."""
    count = node.new_size("count")
    axis = None
    if "unique_dim" in node.op:
        axis = node.axis(rest[0], x)
    values, _, inverse, occurrences = ops.unique(x, count=str(count), axis=axis)
    size = node.meta[0].shape[0 if axis is None else axis]
    node.importer.sizes.bind(size, count)
    nothing = ops.full(shape=(0,), dtype="int64", value=0.0)  # torch's, for what was not asked for
    wanted = [not isinstance(m.shape[0] if m.ndim else 1, int) or m.numel() != 0 for m in node.meta[1:3]]
    inverse = reshape(inverse, node.result_type(1).shape) if wanted[0] else nothing
    return [values, inverse, occurrences if wanted[1] else nothing]


@aten("_local_scalar_dense.default", "item.default")
def item(node: Node, x: ir.Value) -> Any:
    """A tensor's one element as a number: an integer becomes a size, a float or bool stays a scalar."""
    meta = node.meta
    scalar = reshape(x, ())
    if isinstance(meta, torch.SymInt):
        return node.read_dim(scalar, meta)
    expression, sizes = asked_of(meta), node.importer.sizes
    if isinstance(meta, torch.SymBool):
        if isinstance(expression, sympy.Eq) and isinstance(expression.lhs, sympy.Symbol) and expression.rhs == 1:
            sizes.symbols[expression.lhs] = node.read_dim(scalar, meta)  # torch reckons with a number that is 0 or 1
        return convert(scalar, "bool")
    value = convert(scalar, "float64")
    sizes.floats |= dict.fromkeys((expression, expression_of(meta)), value)
    return value


@aten("searchsorted.Tensor", "searchsorted.Scalar", "bucketize.Tensor", "bucketize.Scalar")
def searchsorted(node: Node, a: Any, b: Any, **keywords: Any) -> ir.Value:
    """How many of the sorted numbers lie below each value (or, from the right, not above it)."""
    a, b = (v if isinstance(v, ir.Value) else node.scalar(v, type_of(o).dtype) for v, o in ((a, b), (b, a)))
    edges, values = (b, a) if "bucketize" in node.op else (a, b)
    right = keywords.get("right") or keywords.get("side") == "right"
    if keywords.get("sorter") is not None:
        node.fail("a sorter is not supported")
    rank = type_of(edges).rank
    if rank > 1 and type_of(values).rank != rank:
        node.fail(f"sorted rows {type_of(edges)} do not fit {type_of(values)}")
    found = positions(edges, convert(values, type_of(edges).dtype), right=bool(right))
    return convert(found, node.dtype)
