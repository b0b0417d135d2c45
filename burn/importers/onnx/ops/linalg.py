"""Linear algebra beyond matmul: determinants."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, reshape, wide
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.loops import Step, Trips, repeat
from burn.importers.onnx.node import Node, onnx_op


def exchanged(matrix: ir.Value, step: ir.Value, row: ir.Value) -> tuple[ir.Value, ir.Value]:
    """matrix [b, n, m] with the largest pivot of column `step` brought to row `step`, and where it came from [b, 1].

    row: the rows' numbers [1, n]."""
    batch, n, width = type_of(matrix).shape
    column = ops.gather(matrix, step, axis=2)
    size = ops.select(ops.ge(row, step), ops.abs(column), number(-1.0, type_of(matrix).dtype))
    pivot_row = ops.arg_reduce(size, kind="max", axis=1, keepdims=True)
    source = ops.select(ops.eq(row, step), pivot_row, ops.select(ops.eq(row, pivot_row), step, row))
    rows = ops.broadcast_to(reshape(source, (batch, n, 1)), shape=(batch, n, width))
    return ops.gather_elements(matrix, rows, axis=1), pivot_row


def inverse(node: Node, x: ir.Value) -> ir.Value:
    """Inverses of [.., n, n], by Gauss-Jordan elimination with the largest pivot of each column."""
    type_ = type_of(x)
    if type_.rank < 2 or type_.shape[-1] != type_.shape[-2]:
        node.fail(f"takes square matrices, not {type_}")
    *lead, n, _ = type_.shape
    batch, dtype = product(lead), wide(type_.dtype)
    row = ops.iota(shape=(1, n), axis=1)
    unit = ops.eq(ops.iota(shape=(n, n), axis=0), ops.iota(shape=(n, n), axis=1))
    unit = ops.broadcast_to(ops.cast(unit, dtype=dtype), shape=(batch, n, n))
    beside = ops.concat([reshape(convert(x, dtype), (batch, n, n)), unit], axis=2)

    def eliminate(step: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        matrix, _ = exchanged(carried[0], step, row)
        pivots = ops.gather(matrix, step, axis=1)  # [b, 2 n]
        pivots = ops.div(pivots, reshape(ops.gather(pivots, step, axis=1), (batch, 1)))
        factor = reshape(ops.gather(matrix, step, axis=2), (batch, n, 1))
        own = reshape(pivots, (batch, 1, n * 2))
        here = reshape(ops.eq(row, step), (1, n, 1))
        return Step(None, [ops.select(here, own, ops.sub(matrix, ops.mul(factor, own)))], [])

    (beside,), _ = repeat(node, Trips(dim_value(n), n), [beside], 0, eliminate, 20, goes_on=True)
    right = ops.slice(beside, starts=(0, 0, n), sizes=(batch, n, n), steps=(1, 1, 1))
    return reshape(convert(right, type_.dtype), type_.shape)


@onnx_op("Det")
def det(node: Node) -> ir.Value:
    """Elimination with the largest pivot of each column: all pivots multiplied, negated for each swap of rows."""
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
        matrix, pivot_row = exchanged(matrix, step, row)
        pivots = ops.gather(matrix, step, axis=1)  # [b, n]
        pivot = ops.gather(pivots, step, axis=1)  # [b]
        moved = ops.ne(reshape(pivot_row, (batch,)), step)
        value = ops.mul(value, ops.select(moved, ops.neg(pivot), pivot))
        safe = ops.select(ops.eq(pivot, zero), one, pivot)  # a column of zeros has nothing to eliminate
        factor = ops.div(ops.gather(matrix, step, axis=2), reshape(safe, (batch, 1)))
        factor = ops.select(ops.gt(row, step), factor, zero)
        change = ops.mul(reshape(factor, (batch, n, 1)), reshape(pivots, (batch, 1, n)))
        return Step(None, [ops.sub(matrix, change), value], [])

    start = ops.full(shape=(batch,), dtype=dtype, value=1.0)
    (_, value), _ = repeat(node, Trips(dim_value(n), n), [matrix, start], 0, eliminate, 20, goes_on=True)
    return reshape(convert(value, type_.dtype), tuple(lead))
