"""Reductions over axes, and cumulative reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, limit, number, number_like, reshape, wide
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.runtime import axis_mask, integers, read_sizes, sizes_kept

Step = Callable[[ir.Value], ir.Value]


def _same(x: ir.Value) -> ir.Value:
    return x


def _square(x: ir.Value) -> ir.Value:
    return ops.mul(x, x)


def _root(x: ir.Value) -> ir.Value:
    """The square root; integers take the way over float64, as numpy does."""
    dtype = type_of(x).dtype
    return ops.root(x) if dtype in FLOATS else convert(ops.sqrt(ops.cast(x, dtype="float64")), dtype)


def _log(x: ir.Value) -> ir.Value:
    dtype = type_of(x).dtype
    return ops.log(x) if dtype in FLOATS else convert(ops.log(ops.cast(x, dtype="float64")), dtype)


@dataclass(frozen=True)
class Reduction:
    """A reduction operator: what is done to the elements, how they are joined, and what is done to the result."""

    kind: str
    before: Step = _same
    after: Step = _same
    axes_operand_since: int = 18


REDUCTIONS = {
    "ReduceSum": Reduction("sum", axes_operand_since=13),
    "ReduceMean": Reduction("sum"),
    "ReduceProd": Reduction("prod"),
    "ReduceMax": Reduction("max"),
    "ReduceMin": Reduction("min"),
    "ReduceL1": Reduction("sum", before=lambda x: ops.abs(x)),
    "ReduceL2": Reduction("sum", before=_square, after=_root),
    "ReduceLogSum": Reduction("sum", after=_log),
    "ReduceSumSquare": Reduction("sum", before=_square),
    "ReduceLogSumExp": Reduction("sum"),
}


@onnx_op(*REDUCTIONS)
def reduce(node: Node) -> ir.Value:
    x, type_ = node.required(0), node.type(0)
    row = REDUCTIONS[node.op]
    axes, noop, keepdims = _axes(node, row), bool(node.int("noop_with_empty_axes", 0)), bool(node.int("keepdims", 1))
    if axes is not None and not axes and noop:
        return _elementwise(node, row, x)
    if axes == ():
        axes = tuple(range(type_.rank))
    over = Over(node, axes, keepdims)
    dtype = type_.dtype
    if dtype == "bool":
        return over.reduce(x, {"max": "any", "min": "all"}.get(row.kind, row.kind))
    value = convert(x, wide(dtype))
    if node.op == "ReduceLogSumExp":
        return convert(_log_sum_exp(value, over), dtype)
    result = row.after(over.reduce(row.before(value), row.kind))
    if node.op == "ReduceMean":
        result = ops.div(result, over.count(type_of(value).dtype))
    return convert(result, dtype)


def _elementwise(node: Node, row: Reduction, x: ir.Value) -> ir.Value:
    """Each element reduced on its own."""
    if node.op == "ReduceLogSumExp":
        return x
    dtype = type_of(x).dtype
    value = convert(x, wide(dtype)) if dtype != "bool" else x
    return convert(row.after(row.before(value)), dtype)


def _axes(node: Node, row: Reduction) -> tuple[int, ...] | None:
    """The axes; () for all of them, None when they come from data."""
    rank = node.type(0).rank
    if node.opset < row.axes_operand_since:
        axes = node.ints("axes", ())
    elif not node.has_input(1):
        axes = ()
    else:
        array = node.constant(1)
        if array is None:
            if node.type_only(1).elements == 0:
                return ()
            return None
        axes = tuple(int(a) for a in array.reshape(-1))
    return node.axes(axes, rank)


def _log_sum_exp(x: ir.Value, over: Over) -> ir.Value:
    """With the maximum taken out, so that no power overflows; an infinite maximum is left in."""
    if type_of(x).dtype not in FLOATS:
        return convert(_log_sum_exp(ops.cast(x, dtype="float64"), over), type_of(x).dtype)
    top = over.kept().reduce(x, "max")
    finite = ops.not_(ops.or_(ops.isinf(top), ops.isnan(top)))
    shift = ops.select(finite, top, number_like(0, x))
    logs = ops.log(over.kept().reduce(ops.exp(ops.sub(x, shift)), "sum"))
    return over.dropped(ops.add(logs, shift))


class Over:
    """Reductions of one node over its axes, known or coming from data (axes None), with or without them kept as size 1.

    Axes from data: the sizes of the result are read at run time, and every element is scattered to its index in it."""

    def __init__(self, node: Node, axes: tuple[int, ...] | None, keepdims: bool) -> None:
        self.node, self.axes, self.keepdims = node, axes, keepdims
        self.shape = node.type(0).shape
        self.reduced: tuple[Dim, ...] = ()  # with the axes kept as 1
        self.result: tuple[Dim, ...] = ()
        if axes is None:
            self._read_shape()
        else:
            self.reduced = tuple(1 if i in axes else d for i, d in enumerate(self.shape))
            self.result = self.reduced if keepdims else tuple(d for i, d in enumerate(self.shape) if i not in axes)

    def _read_shape(self) -> None:
        node, rank = self.node, len(self.shape)
        chosen = axis_mask(node, node.required(1), rank)
        if not node.int("noop_with_empty_axes", 0) and not isinstance(node.type(1).elements, int):
            empty = ops.eq(dim_value(node.type(1).elements), number(0, "int64"))
            chosen = ops.or_(chosen, empty)  # no axes are all of them
        sizes = ops.select(chosen, number(1, "int64"), integers(node, self.shape))
        self.reduced = self.result = read_sizes(node, sizes)
        if not self.keepdims:
            count = node.type(1).elements
            if not isinstance(count, int):
                hint = "give the size a value: burn.load(..., dims=...)"
                node.fail(f"the rank of the result follows from how many axes there are, {count}", hint=hint)
            if count > rank:
                node.fail(f"{count} axes do not fit {node.type(0)}")
            self.result = read_sizes(node, sizes_kept(sizes, chosen, rank - count))

    def kept(self) -> Over:
        """The same with the axes kept."""
        other = object.__new__(Over)
        other.__dict__ = {**self.__dict__, "keepdims": True, "result": self.reduced}
        return other

    def dropped(self, x: ir.Value) -> ir.Value:
        """Reshapes a result with kept axes to the node's result shape."""
        return reshape(x, self.result)

    def count(self, dtype: str) -> ir.Value:
        """How many elements each result joins."""
        if self.axes is not None:
            return dim_value(product(self.shape[a] for a in self.axes), dtype)
        return convert(ops.div(dim_value(product(self.shape)), dim_value(product(self.reduced))), dtype)

    def reduce(self, x: ir.Value, kind: str) -> ir.Value:
        if self.axes is not None:
            return ops.reduce(x, kind=kind, axes=self.axes, keepdims=self.keepdims)
        if type_of(x).dtype == "bool":
            return ops.cast(self.reduce(ops.cast(x, dtype="uint8"), {"any": "max", "all": "min"}[kind]), dtype="bool")
        return self._scatter(x, kind)

    def _scatter(self, x: ir.Value, kind: str) -> ir.Value:
        dtype, total = type_of(x).dtype, product(self.shape)
        flat: Any = number(0, "int64")
        stride: Any = number(1, "int64")
        for axis in reversed(range(len(self.shape))):
            own = dim_value(self.reduced[axis])
            coordinate = ops.iota(shape=tuple(d if i == axis else 1 for i, d in enumerate(self.shape)), axis=axis)
            coordinate = ops.min(coordinate, ops.sub(own, number(1, "int64")))
            flat = ops.add(flat, ops.mul(coordinate, stride))
            stride = ops.mul(stride, own)
        start = {"sum": number(0, dtype), "prod": number(1, dtype)}.get(kind)
        if start is None:
            start = limit(dtype, highest=kind == "min")
        onto = ops.broadcast_to(start, shape=(product(self.reduced),))
        indices = reshape(ops.broadcast_to(flat, shape=self.shape), (total,))
        names = {"sum": "add", "prod": "mul"}
        joined = ops.scatter_elements(onto, indices, reshape(x, (total,)), axis=0, reduction=names.get(kind, kind))
        return reshape(joined, self.result)


@onnx_op("CumSum", "CumProd")
def cumulative(node: Node) -> ir.Value:
    """An axis that comes from data is chosen among the results for all of them."""
    x, type_ = node.required(0), node.type(0)
    options = {
        "kind": "sum" if node.op == "CumSum" else "prod",
        "exclusive": bool(node.int("exclusive", 0)),
        "reverse": bool(node.int("reverse", 0)),
    }
    known = node.scalar(1)
    if isinstance(known, int):
        return ops.cumulative(x, axis=node.axis(known, type_.rank), **options)
    axis = reshape(node.required(1), ())
    axis = ops.select(ops.lt(axis, number_like(0, axis)), ops.add(axis, number_like(type_.rank, axis)), axis)
    result = ops.cumulative(x, axis=0, **options)
    for flat in range(1, type_.rank):
        other = ops.cumulative(x, axis=flat, **options)
        result = ops.select(ops.eq(axis, number_like(flat, axis)), other, result)
    return result
