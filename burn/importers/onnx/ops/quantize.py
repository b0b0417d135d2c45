"""Quantisation: QuantizeLinear and DequantizeLinear, dynamic quantisation, and matmuls of quantised tensors."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import along, convert, number, reshape
from burn.dialect.mlir import ir
from burn.dialect.quantize import integer_range
from burn.dialect.types import INTEGERS, type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.contract import centred, convolve, matmul


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
        node.no_effect("axis", because="one scale serves all elements")
        return 0
    return node.axis(node.int("axis", 1), rank)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> list[ir.Value]:
    x = node.required(0)
    scale, divisor, point = dynamic_range(x)
    return [ops.quantize(x, divisor, point, dtype="uint8"), scale, point]


def dynamic_range(x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The uint8 quantisation of a tensor by its own range, extended to include zero: scale, divisor, zero point.
    A tensor of zeros has scale 0, but is divided by 1."""
    dtype, axes = type_of(x).dtype, tuple(range(type_of(x).rank))
    zero, top = number(0.0, dtype), number(255.0, dtype)
    low = ops.min(ops.reduce(x, kind="min", axes=axes), zero)
    high = ops.max(ops.reduce(x, kind="max", axes=axes), zero)
    scale = ops.div(ops.sub(high, low), top)
    divisor = ops.select(ops.eq(scale, zero), number(1.0, dtype), scale)
    rounded = ops.round(ops.div(ops.neg(low), divisor))
    return scale, divisor, ops.cast(ops.min(ops.max(rounded, zero), top), dtype="uint8")


@onnx_op("QLinearMatMul")
def qlinear_matmul(node: Node) -> ir.Value:
    """The matmul of two quantised matrices, requantised. a's parameters may differ by row, b's by column."""
    rank = node.type(0).rank
    a = integers(centred(node, 0, 2, rank - 2 if rank > 1 else None))
    b = integers(centred(node, 3, 5, node.type(3).rank - 1))
    matmul_ = matmul(node, a, b, dtype="int32")
    last = type_of(matmul_).rank
    scale = ops.mul(_scale(node, 1, last - 2, last), _scale(node, 4, last - 1, last))
    return requantised(node, matmul_, scale, 6, 7)


@onnx_op("QLinearConv")
def qlinear_conv(node: Node) -> ir.Value:
    """A convolution of quantised tensors, quantised again. The weight's parameters may differ by output channel."""
    return quantised_convolution(node, integers(centred(node, 0, 2, None)))


def quantised_convolution(node: Node, x: ir.Value) -> ir.Value:
    """QLinearConv of a dequantised operand 0, [n, c, d..]."""
    total = convolve(node, x, integers(centred(node, 3, 5, 0)), dtype="int32")
    rank = type_of(total).rank
    if node.has_input(8):
        total = ops.add(total, along(node.required(8), 1, rank))
    scale = ops.mul(_scale(node, 1, None, rank), _scale(node, 4, 1, rank))
    return requantised(node, total, scale, 6, 7)


def integers(x: ir.Value) -> ir.Value:
    return convert(x, "int32")


def _scale(node: Node, index: int, axis: int | None, rank: int) -> ir.Value:
    """A scale in float32: one number, a vector along `axis`, or a tensor that already broadcasts."""
    x = convert(node.required(index), "float32")
    type_ = type_of(x)
    if type_.elements == 1:
        return reshape(x, ())
    if type_.rank != 1:
        return x
    if axis is None:
        node.fail(f"operand {index} must be one scale, not {type_}")
    return along(x, axis, rank)


def requantised(node: Node, total: ir.Value, scale: ir.Value, result_scale: int, zero: int) -> ir.Value:
    """round(total * scale / the result's scale) + its zero point, in the zero point's type."""
    rank = type_of(total).rank
    factor = ops.div(scale, _scale(node, result_scale, rank - 1, rank))
    dtype = node.type(zero).dtype if node.has_input(zero) else node.type(0).dtype
    if dtype not in INTEGERS:
        node.fail(f"does not quantise to {dtype}")
    steps = ops.round(ops.mul(convert(total, "float32"), factor))
    if node.has_input(zero):
        steps = ops.add(steps, _scale(node, zero, rank - 1, rank))
    low, high = integer_range(dtype)
    return ops.cast(ops.min(ops.max(steps, number(low, "float32")), number(high, "float32")), dtype=dtype)
