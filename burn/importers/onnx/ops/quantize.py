"""Quantisation: QuantizeLinear and DequantizeLinear, dynamic quantisation, and the products of quantised tensors."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, number
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op


@onnx_op("QuantizeLinear")
def quantize_linear(node: Node) -> ir.Value:
    x, scale, zero = node.required(0), node.required(1), node.input(2)
    given = node.dtype("output_dtype", None) if node.int("output_dtype", 0) else None
    dtype = given or ("uint8" if zero is None else type_of(zero).dtype)
    if zero is not None and type_of(zero).dtype != dtype:
        node.fail(f"is {dtype}, but the zero point is {type_of(zero).dtype}", "output_dtype")
    return ops.quantize(
        x,
        scale,
        zero,
        dtype=dtype,
        axis=_axis(node),
        block=node.int("block_size", 0),
        saturate=node.int("saturate", 1) == 1,
        precision=node.dtype("precision", None) if node.int("precision", 0) else None,
    )


@onnx_op("DequantizeLinear")
def dequantize_linear(node: Node) -> ir.Value:
    x, scale, zero = node.required(0), node.required(1), node.input(2)
    given = node.dtype("output_dtype", None) if node.int("output_dtype", 0) else None
    scale_type = type_of(scale).dtype
    dtype = given or ("float32" if scale_type == "float8_e8m0fnu" else scale_type)
    return ops.dequantize(x, scale, zero, dtype=dtype, axis=_axis(node), block=node.int("block_size", 0))


def _axis(node: Node) -> int:
    """Where the scales lie; without meaning, and often out of range, for one scale."""
    rank = node.type(0).rank
    if node.type(1).shape in ((), (1,)):
        return 0
    return node.axis(node.int("axis", 1), rank)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> list[ir.Value]:
    """uint8 with the scale that the tensor's own range asks for; zero is always in that range."""
    x = node.required(0)
    dtype, axes = type_of(x).dtype, tuple(range(type_of(x).rank))
    zero = number(0.0, dtype)
    low = ops.min(ops.reduce(x, kind="min", axes=axes), zero)
    high = ops.max(ops.reduce(x, kind="max", axes=axes), zero)
    scale = ops.div(ops.sub(high, low), number(255.0, dtype))
    whole = ops.eq(scale, zero)  # a tensor of zeros: any scale will do, but not 0 / 0
    safe = ops.select(whole, number(1.0, dtype), scale)
    place = ops.round(ops.div(ops.neg(low), safe))
    point = ops.cast(ops.min(ops.max(place, zero), number(255.0, dtype)), dtype="uint8")
    return [ops.quantize(x, safe, point, dtype="uint8"), convert(scale, dtype), point]
