"""Reductions, running reductions, sorting, statistics."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import check_size, convert, count, dim_value, limit, number, number_like, part, reshape, wide
from burn.dialect.compose import mean as mean_of
from burn.dialect.dims import Dim, floordiv
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, PARTS, type_of
from burn.importers.torch.node import Node, aten


def reduced(x: ir.Value, kind: str, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
    return ops.reduce(x, kind=kind, axes=axes, keepdims=keepdims) if type_of(x).rank else x


@aten("sum.default", "sum.dim_IntList")
def sum_(node: Node, x: ir.Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> ir.Value:
    """Integers and bools add up in int64."""
    return reduced(node.as_result(x), "sum", node.axes(dim, x), keepdim)


@aten("mean.default", "mean.dim")
def mean(node: Node, x: ir.Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> ir.Value:
    value = convert(x, wide(node.dtype))
    return convert(mean_of(value, node.axes(dim, x), keepdim) if type_of(x).rank else value, node.dtype)


@aten("prod.default", "prod.dim_int")
def prod(node: Node, x: ir.Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> ir.Value:
    return reduced(node.as_result(x), "prod", node.axes(dim, x), keepdim)


EXTREMES = {"max": "max", "min": "min", "amax": "max", "amin": "min"}


@aten("amax.default", "amin.default", "max.default", "min.default")
def extreme(node: Node, x: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    return _extreme(x, EXTREMES[node.op.split(".")[1]], node.axes(dim, x), keepdim)


def _extreme(x: ir.Value, kind: str, axes: tuple[int, ...], keepdim: bool) -> ir.Value:
    if type_of(x).dtype == "bool":
        kind = {"max": "any", "min": "all"}[kind]
    return reduced(x, kind, axes, keepdim)


@aten("_is_all_true.default", "_is_any_true.default")
def of_bools(node: Node, x: ir.Value) -> ir.Value:
    return reduced(x, "all" if "all" in node.op else "any", node.axes(None, x), False)


@aten("max.dim", "min.dim")
def extreme_and_index(node: Node, x: ir.Value, dim: int, keepdim: bool = False) -> list[ir.Value]:
    kind = EXTREMES[node.op.split(".")[1]]
    if not type_of(x).rank:
        return [x, number(0, "int64")]
    axis = node.axis(dim, x)
    index = ops.arg_reduce(
        convert(x, "uint8") if type_of(x).dtype == "bool" else x, kind=kind, axis=axis, keepdims=keepdim
    )
    return [_extreme(x, kind, (axis,), keepdim), index]


@aten("argmax.default", "argmin.default")
def argument(node: Node, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> ir.Value:
    type_ = type_of(x)
    if not type_.rank:
        return number(0, "int64")
    x = convert(x, "uint8") if type_.dtype == "bool" else x
    kind = "max" if "argmax" in node.op else "min"
    if dim is None:
        flat = ops.arg_reduce(reshape(x, (type_.elements,)), kind=kind, axis=0)
        return reshape(flat, node.shape)
    return ops.arg_reduce(x, kind=kind, axis=node.axis(dim, x), keepdims=keepdim)


@aten(*(f"{name}.{overload}" for name in ("any", "all") for overload in ("default", "dim", "dims")))
def truth(node: Node, x: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    kind = node.op.split(".")[1]
    if isinstance(dim, list) and not dim:
        return node.as_result(convert(x, "bool"))
    return node.as_result(reduced(convert(x, "bool"), kind, node.axes(dim, x), keepdim))


# ---- variance -----------------------------------------------------------------------------------------------------------
def moments(x: ir.Value, axes: tuple[int, ...], correction: Any, keepdim: bool) -> tuple[ir.Value, ir.Value]:
    """(variance, mean), the sum of squared differences over n - correction."""
    centre = mean_of(x, axes, keepdims=True)
    centred = ops.sub(x, centre)
    square = ops.mul(centred, centred)
    if type_of(x).dtype in PARTS:
        square = ops.real(ops.mul(centred, ops.conj(centred)))
    total = ops.reduce(square, kind="sum", axes=axes, keepdims=keepdim)
    dtype = type_of(total).dtype
    number_ = dim_value(count(type_of(x), axes), dtype)
    divisor = ops.max(ops.sub(number_, number(correction, dtype)), number(0, dtype))
    kept = centre if keepdim else reshape(centre, type_of(total).shape)
    return ops.div(total, divisor), kept


@aten(
    *(
        f"{name}.{overload}"
        for name in ("var", "std", "var_mean", "std_mean")
        for overload in ("correction", "dim", "default")
    )
)
def variance(node: Node, x: ir.Value, *rest: Any, correction: Any = None, keepdim: bool = False) -> Any:
    """Overloads: (), (unbiased), (dim, unbiased, keepdim), and (dim, correction=, keepdim=)."""
    overload = node.op.rsplit(".", 1)[1]
    dim = rest[0] if overload != "default" else None
    if overload != "correction":
        unbiased = rest[-2] if overload == "dim" else rest[-1]
        correction, keepdim = (1 if unbiased else 0), (rest[-1] if overload == "dim" else False)
    dtype = type_of(x).dtype
    value = convert(x, wide(dtype))
    if not type_of(x).rank:
        value = reshape(value, (1,))
    spread, centre = moments(value, node.axes(dim, value), 1 if correction is None else correction, keepdim)
    if "std" in node.op:
        spread = ops.root(spread)
    spread, centre = convert(spread, PARTS.get(dtype, dtype)), convert(centre, dtype)
    return [spread, centre] if "mean" in node.op else spread


# ---- running ------------------------------------------------------------------------------------------------------------
@aten("cumsum.default", "cumprod.default")
def cumulative(node: Node, x: ir.Value, dim: int, dtype: Any = None) -> ir.Value:
    x = node.as_result(x)
    if not type_of(x).rank:
        return x
    return ops.cumulative(x, kind="sum" if "sum" in node.op else "prod", axis=node.axis(dim, x))


@aten("cummax.default", "cummin.default")
def cumulative_extreme(node: Node, x: ir.Value, dim: int) -> list[Any]:
    """The index is the last so far at which the running extreme occurs."""
    if not type_of(x).rank:
        return [x, number(0, "int64")]
    axis = node.axis(dim, x)
    if type_of(x).dtype == "bool":
        best, index = cumulative_extreme(node, convert(x, "uint8"), dim)
        return [convert(best, "bool"), index]
    best = ops.cumulative(x, kind="max" if "max" in node.op else "min", axis=axis)
    index = ops.iota(shape=type_of(x).shape, axis=axis)
    same = ops.eq(x, best)
    if type_of(x).dtype in FLOATS:
        same = ops.or_(same, ops.isnan(x))
    reached = ops.select(same, index, number(0, "int64"))
    return [best, ops.cumulative(reached, kind="max", axis=axis)]


# ---- order --------------------------------------------------------------------------------------------------------------
@aten("sort.default", "sort.stable", "argsort.default", "argsort.stable")
def sort(node: Node, x: ir.Value, dim: Any = -1, descending: bool = False, **keywords: Any) -> Any:
    dim, descending = keywords.get("dim", dim), keywords.get("descending", descending)
    if not type_of(x).rank:
        values, indices = x, number(0, "int64")
    else:
        values, indices = ops.sort(x, axis=node.axis(dim, x), descending=descending)
    return indices if "argsort" in node.op else [values, indices]


@aten("topk.default")
def topk(node: Node, x: ir.Value, k: Dim, dim: int = -1, largest: bool = True, sorted_: bool = True) -> list[ir.Value]:
    if not type_of(x).rank:
        return [x, number(0, "int64")]
    axis = node.axis(dim, x)
    check_size(k, "<=", type_of(x).shape[axis], "topk has so many elements to choose")
    values, indices = ops.sort(x, axis=axis, descending=largest)
    return [part(values, axis, 0, k), part(indices, axis, 0, k)]


@aten("kthvalue.default")
def kthvalue(node: Node, x: ir.Value, k: int, dim: int = -1, keepdim: bool = False) -> list[ir.Value]:
    axis = node.axis(dim, x)
    values, indices = ops.sort(x, axis=axis, descending=False)
    return [reshape(part(v, axis, k - 1, 1), node.result_type(0).shape) for v in (values, indices)]


@aten("median.default", "median.dim")
def median(node: Node, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the two in the middle; NaN where there is one (they sort last, so that the last element tells)."""
    if dim is None:
        x, axis = reshape(x, (type_of(x).elements,)), 0
    else:
        axis = node.axis(dim, x)
    if not type_of(x).rank:
        return [x, number(0, "int64")]
    values, indices = ops.sort(x, axis=axis, descending=False)
    size = type_of(x).shape[axis]
    middle = floordiv(size - 1, 2)
    results = [(part(v, axis, middle, 1), part(v, axis, size - 1, 1)) for v in (values, indices)]
    if type_of(x).dtype in FLOATS:
        spoilt = ops.isnan(results[0][1])
        chosen = [ops.select(spoilt, last, value) for value, last in results]
    else:
        chosen = [value for value, _ in results]
    if dim is None:
        return reshape(chosen[0], ())
    return [reshape(v, node.result_type(0).shape) for v in chosen]


@aten("logsumexp.default")
def logsumexp(node: Node, x: ir.Value, dim: Any, keepdim: bool = False) -> ir.Value:
    x = node.as_result(x)
    axes = node.axes(dim, x)
    size = ops.real(x) if type_of(x).dtype in PARTS else x
    top = reduced(size, "max", axes, True)
    finite = ops.select(ops.eq(ops.abs(top), limit(type_of(size).dtype, highest=True)), number_like(0, size), top)
    finite = convert(finite, type_of(x).dtype)
    total = reduced(ops.exp(ops.sub(x, finite)), "sum", axes, keepdim)
    return ops.add(ops.log(total), reshape(finite, type_of(total).shape))
