"""Counting and selection: bins, runs, modes, medians without NaN, and repeated indices."""

from __future__ import annotations

import math
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, number_like, part, reshape, transpose, wide
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, PARTS, TensorType, type_of
from burn.importers.torch.node import Node, aten
from burn.tensors import Tensor
from burn.tensors.base import made
from burn.tensors.control import loop


def tallied(order: ir.Value, size: Dim, values: ir.Value) -> ir.Value:
    """Sums of values [n], by their bins order [n], int64: [size]."""
    none = ops.full(shape=(size,), dtype=type_of(values).dtype, value=0.0)
    return ops.scatter_nd(none, reshape(order, (type_of(order).elements, 1)), values, reduction="add")


def ones_like(x: ir.Value, dtype: str) -> ir.Value:
    return ops.full(shape=type_of(x).shape, dtype=dtype, value=1.0)


# ---- bins ---------------------------------------------------------------------------------------------------------------
@aten("bincount.default")
def bincount(node: Node, x: ir.Value, weights: ir.Value | None = None, minlength: Any = 0) -> ir.Value:
    """How often each number occurs, or the sum of its weights: x [n] -> [max(x) + 1], or `minlength` if that is more."""
    x = convert(x, "int64")
    top = ops.add(ops.reduce(x, kind="max", axes=(0,)), number(1, "int64"))
    size = node.read_dim(ops.max(top, node.scalar(minlength, "int64")), node.meta.shape[0])
    if weights is None:
        return tallied(x, size, ones_like(x, "int64"))
    return tallied(x, size, convert(weights, "float32" if type_of(weights).dtype == "float32" else "float64"))


@aten("histc.default")
def histc(node: Node, x: ir.Value, bins: int = 100, low: float = 0, high: float = 0) -> ir.Value:
    """How many elements lie in each of `bins` equal parts of [low, high]; of all numbers' range where both are equal."""
    flat = reshape(x, (type_of(x).elements,))
    value = convert(flat, wide(type_of(x).dtype))
    if low == high:
        first, last = (ops.reduce(value, kind=kind, axes=(0,)) for kind in ("min", "max"))
        same = ops.eq(first, last)
        one = number_like(1, value)
        first, last = ops.select(same, ops.sub(first, one), first), ops.select(same, ops.add(last, one), last)
    else:
        first, last = number_like(low, value), number_like(high, value)
    inside = ops.and_(ops.ge(value, first), ops.le(value, last))
    steps = ops.mul(ops.sub(value, first), ops.div(number_like(bins, value), ops.sub(last, first)))
    index = ops.min(convert(ops.select(inside, steps, number_like(0, steps)), "int64"), number(bins - 1, "int64"))
    return node.as_result(tallied(index, bins, convert(inside, type_of(value).dtype)))


# ---- repetition and runs ------------------------------------------------------------------------------------------------
@aten("repeat_interleave.Tensor")
def repeat_interleave(node: Node, repeats: ir.Value, output_size: Any = None) -> ir.Value:
    """Index i, repeats[i] times: [n] -> [sum of repeats]. The first i follows the end of all smaller indices."""
    ends = ops.cumulative(convert(repeats, "int64"), kind="sum", axis=0)
    total = output_size
    if total is None:
        total = node.read_dim(ops.reduce(convert(repeats, "int64"), kind="sum", axes=(0,)), node.meta.shape[0])
    ended = tallied(ends, total + 1, ones_like(ends, "int64"))
    return node.as_result(part(ops.cumulative(ended, kind="sum", axis=0), 0, 0, total))


def run_begins(x: ir.Value, axis: int) -> ir.Value:
    """Where along an axis an element differs from the one before, or is the first."""
    shape = type_of(x).shape
    index = ops.iota(shape=(shape[axis],), axis=0)
    before = ops.gather(x, ops.max(ops.sub(index, number(1, "int64")), number(0, "int64")), axis=axis)
    first = ops.eq(index, number(0, "int64"))
    laid = tuple(d if i == axis else 1 for i, d in enumerate(shape))
    return ops.or_(ops.ne(x, before), reshape(first, laid))


@aten("unique_consecutive.default")
def unique_consecutive(node: Node, x: ir.Value, inverse: bool, counts: bool, dim: int | None = None) -> list[Any]:
    """The first of every run of equal elements (or slices along `dim`), each element's run, and the runs' lengths."""
    shape = type_of(x).shape
    if dim is None:
        x, axis = reshape(x, (type_of(x).elements,)), 0
    else:
        axis = node.axis(dim, x)
    n = type_of(x).shape[axis]
    begins = run_begins(x, axis)
    others = tuple(i for i in range(type_of(x).rank) if i != axis)
    if others:
        begins = ops.reduce(begins, kind="any", axes=others)
    count = node.new_size("runs")
    first = reshape(ops.nonzero(begins, count=str(count)), (count,))
    node.importer.sizes.bind(node.meta[0].shape[axis], count)
    run = ops.sub(ops.cumulative(convert(begins, "int64"), kind="sum", axis=0), number(1, "int64"))
    nothing = ops.full(shape=(0,), dtype="int64", value=0.0)
    order = nothing if tuple(node.meta[1].shape) == (0,) else reshape(run, shape if dim is None else (n,))
    lengths = tallied(run, count, ones_like(run, "int64")) if counts else nothing
    return [ops.gather(x, first, axis=axis), order, lengths]


@aten("nonzero_static.default")
def nonzero_static(node: Node, x: ir.Value, *, size: Dim, fill_value: int = -1) -> ir.Value:
    """The indices of the first `size` non-zero elements, one row each; rows of `fill_value` if there are fewer."""
    rank = type_of(x).rank
    if not rank:
        return ops.full(shape=(size, 0), dtype="int64", value=0.0)
    found = ops.nonzero(x, count=str(node.new_size("count")))
    rest = ops.full(shape=(rank, size), dtype="int64", value=float(fill_value), bits=fill_value)
    return transpose(part(ops.concat([found, rest], axis=1), 1, 0, size), (1, 0))


# ---- one of a row -------------------------------------------------------------------------------------------------------
@aten("mode.default")
def mode(node: Node, x: ir.Value, dim: int = -1, keepdim: bool = False) -> list[ir.Value]:
    """The most frequent element, the smallest of several, and where it stands last."""
    if not type_of(x).rank:
        return [x, number(0, "int64")]
    axis = node.axis(dim, x)
    values, order = ops.sort(x, axis=axis, descending=False)
    index = ops.iota(shape=type_of(x).shape, axis=axis)
    begins = ops.select(run_begins(values, axis), index, number(0, "int64"))
    length = ops.sub(index, ops.cumulative(begins, kind="max", axis=axis))
    return _taken(node, (values, order), ops.arg_reduce(length, kind="max", axis=axis, keepdims=True), axis)


@aten("nanmedian.default", "nanmedian.dim")
def nanmedian(node: Node, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of the elements that are not NaN (NaN sorts last); NaN if there are none."""
    if not type_of(x).rank:
        return x if dim is None else [x, number(0, "int64")]
    if dim is None:
        x, axis = reshape(x, (type_of(x).elements,)), 0
    else:
        axis = node.axis(dim, x)
    values, order = ops.sort(x, axis=axis, descending=False)
    one = number(1, "int64")
    if type_of(x).dtype in FLOATS:
        counted = ops.reduce(convert(ops.not_(ops.isnan(x)), "int64"), kind="sum", axes=(axis,), keepdims=True)
        last = ops.sub(counted, one)
    else:
        row = TensorType("int64", tuple(1 if i == axis else d for i, d in enumerate(type_of(x).shape)))
        last = ops.broadcast_to(ops.sub(dim_value(type_of(x).shape[axis]), one), shape=row.shape)
    middle = ops.shift_right(ops.max(last, number(0, "int64")), one)
    if dim is None:
        return reshape(ops.gather_elements(values, middle, axis=axis), ())
    return _taken(node, (values, order), middle, axis)


def _taken(node: Node, pair: tuple[ir.Value, ir.Value], index: ir.Value, axis: int) -> list[ir.Value]:
    shape = node.result_type(0).shape
    return [reshape(ops.gather_elements(v, index, axis=axis), shape) for v in pair]


# ---- running ------------------------------------------------------------------------------------------------------------
@aten("logcumsumexp.default")
def logcumsumexp(node: Node, x: ir.Value, dim: int) -> ir.Value:
    """log of the running sum of exp(x), in float64 relative to the largest: a sum less than e^-700 of it is -inf."""
    if not type_of(x).rank:
        return x
    axis = node.axis(dim, x)
    if type_of(x).dtype in PARTS:
        return node.as_result(_added_exponents(made(convert(x, "complex128")), axis).value)
    value = convert(x, "float64")
    top = ops.reduce(value, kind="max", axes=(axis,), keepdims=True)
    top = ops.select(ops.isinf(top), number(0.0, "float64"), top)
    total = ops.cumulative(ops.exp(ops.sub(value, top)), kind="sum", axis=axis)
    return node.as_result(ops.add(ops.log(total), top))


def _added_exponents(x: Tensor, axis: int) -> Tensor:
    """log(exp(a) + exp(b)) from element to element along an axis, as b + log(1 + exp(a - b)) with the larger real part in b. The
    imaginary part is that of b and an angle: it may leave (-pi, pi], as in torch."""
    rows = x.moveaxis(axis, 0)
    start = (rows._cut(0, 0, 1).sum(0).real * 0.0 - math.inf).astype("complex128")

    def add(step: Tensor, going: Tensor, total: Tensor) -> tuple:
        row = rows.take(step, 0)
        swapped = row.real < total.real
        low, high = swapped.where(row, total), swapped.where(total, row)
        infinite = low.real.isinf() & (low.real == high.real)
        apart = high + infinite.where(0.0, low - high).exp().log1p()
        together = (low.real < 0).where(low, (low.exp() + high.exp()).log())
        total = (low.isnan() | high.isnan()).where(complex(math.nan, math.nan), infinite.where(together, apart))
        return going, total, total

    return loop(add, (start,), trips=rows.type.shape[0], scans=1)[1].moveaxis(0, axis)


# ---- compressed sparse rows ---------------------------------------------------------------------------------------------
@aten("_convert_indices_from_coo_to_csr.default")
def row_pointers(node: Node, rows: ir.Value, size: Any, *, out_int32: bool = False) -> ir.Value:
    """Sorted row indices [n] of a matrix of `size` rows -> the index of each row's first element, [size + 1]."""
    return _counted_up_to(node, ops.add(convert(rows, "int64"), number(1, "int64")), node.shape[0])


@aten("_convert_indices_from_csr_to_coo.default")
def row_indices(
    node: Node, pointers: ir.Value, columns: ir.Value, *, out_int32: bool = False, transpose: bool = False
) -> ir.Value:
    """Row pointers [rows + 1] and column indices [n] -> the row and the column of each element, [2, n]. Matrices that are
    stacked are not supported."""
    if type_of(columns).rank != 1:
        node.fail("a batch of compressed matrices is not supported")
    (count,), last = type_of(columns).shape, type_of(pointers).shape[0] - 1
    ends = convert(part(pointers, 0, 1, last), "int64")  # of empty rows behind the last element, too: at index n
    rows = part(_counted_up_to(node, ends, count + 1), 0, 0, count)
    pair = (convert(columns, node.dtype), rows) if transpose else (rows, convert(columns, node.dtype))
    return ops.concat([reshape(each, (1, count)) for each in pair], axis=0)


def _counted_up_to(node: Node, indices: ir.Value, size: Dim) -> ir.Value:
    """For each index below `size`, how many of `indices` [n], int64, are at most it."""
    counts = tallied(indices, size, ones_like(indices, "int64"))
    return node.as_result(ops.cumulative(counts, kind="sum", axis=0))
