"""Linear algebra beyond products: determinants."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, reshape, wide
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.control import Step, Trips, repeat


@onnx_op("Det")
def det(node: Node) -> ir.Value:
    """By elimination with the largest pivot of each column: the pivots' product, negated for each exchange of rows."""
    type_ = node.type(0)
    if type_.rank < 2 or type_.shape[-1] != type_.shape[-2]:
        node.fail(f"takes square matrices, not {type_}")
    *lead, n, _ = type_.shape
    batch = product(lead)
    dtype = wide(type_.dtype)
    matrix = reshape(convert(node.required(0), dtype), (batch, n, n))
    row = ops.iota(shape=(1, n), axis=1)
    zero, one = number(0.0, dtype), number(1.0, dtype)

    def eliminate(step: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        matrix, value = carried
        column = ops.gather(matrix, step, axis=2)
        size = ops.select(ops.ge(row, step), ops.abs(column), number(-1.0, dtype))
        pivot_row = ops.arg_reduce(size, kind="max", axis=1, keepdims=True)  # [b, 1]
        # the rows `step` and `pivot_row` change places
        source = ops.select(ops.eq(row, step), pivot_row, ops.select(ops.eq(row, pivot_row), step, row))
        places = ops.broadcast_to(reshape(source, (batch, n, 1)), shape=(batch, n, n))
        matrix = ops.gather_elements(matrix, places, axis=1)
        pivots = ops.gather(matrix, step, axis=1)  # [b, n]
        pivot = ops.gather(pivots, step, axis=1)  # [b]
        exchanged = ops.ne(reshape(pivot_row, (batch,)), step)
        value = ops.mul(value, ops.select(exchanged, ops.neg(pivot), pivot))
        safe = ops.select(ops.eq(pivot, zero), one, pivot)  # a column of zeros has nothing to eliminate
        factor = ops.div(ops.gather(matrix, step, axis=2), reshape(safe, (batch, 1)))
        factor = ops.select(ops.gt(row, step), factor, zero)
        change = ops.mul(reshape(factor, (batch, n, 1)), reshape(pivots, (batch, 1, n)))
        return Step(None, [ops.sub(matrix, change), value], [])

    start = ops.full(shape=(batch,), dtype=dtype, value=1.0)
    (_, value), _ = repeat(node, Trips(dim_value(n), n), [matrix, start], 0, eliminate, 20, goes_on=True)
    return reshape(convert(value, type_.dtype), tuple(lead))
