"""Quantised operators of com.microsoft: arithmetic on quantised tensors, and weights of a few bits.

An operand comes as three: x, its scale, its zero point. `real` makes one number of them, `quantised` the reverse.
"""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.blocks import numbers
from burn.dialect.compose import along, check_size, convert, mean, number_like, part, reshape, transpose
from burn.dialect.dims import ceildiv
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.contract import matmul
from burn.importers.onnx.ops.normalize import softmax_of
from burn.importers.onnx.ops.pool import averaged
from burn.importers.onnx.ops.quantize import dequantize_linear, dynamic_range, quantize_linear
from burn.importers.onnx.ops.vendor import DOMAIN

onnx_op("QuantizeLinear", domain=DOMAIN)(quantize_linear)
onnx_op("DequantizeLinear", domain=DOMAIN)(dequantize_linear)


def real(node: Node, index: int, axis: int = 0) -> ir.Value:
    """Operand `index` with the scale and zero point after it, in float32."""
    return ops.dequantize(
        node.required(index), node.required(index + 1), node.input(index + 2), dtype="float32", axis=axis
    )


def quantised(node: Node, x: ir.Value, scale: int, like: int = 0) -> ir.Value:
    """x with the scale and zero point at `scale`; of operand `like`'s type where there is no zero point."""
    zero = node.input(scale + 1)
    dtype = node.type(like).dtype if zero is None else type_of(zero).dtype
    return ops.quantize(x, node.required(scale), zero, dtype=dtype, axis=0)


@onnx_op("QLinearAdd", domain=DOMAIN)
def qlinear_add(node: Node) -> ir.Value:
    return quantised(node, ops.add(real(node, 0), real(node, 3)), 6)


@onnx_op("QLinearMul", domain=DOMAIN)
def qlinear_mul(node: Node) -> ir.Value:
    return quantised(node, ops.mul(real(node, 0), real(node, 3)), 6)


FUNCTIONS: dict[str, Callable[[Node, ir.Value], ir.Value]] = {
    "QLinearSigmoid": lambda node, x: ops.sigmoid(x),
    "QLinearLeakyRelu": lambda node, x: ops.leaky_relu(x, alpha=node.float("alpha", 0.01)),
    "QLinearSoftmax": lambda node, x: softmax_of(node, x, ops.softmax, node.int("opset")),
    "QLinearGlobalAveragePool": lambda node, x: _pooled(node, x),
    "QLinearAveragePool": lambda node, x: _averaged(node, x),
    "QLinearReduceMean": lambda node, x: _reduced(node, x),
}
"""Operators of one operand: x, scale, zero point, the result's scale and zero point."""


def _pooled(node: Node, x: ir.Value) -> ir.Value:
    rank = type_of(x).rank
    first = 1 if node.int("channels_last", 0) == 1 else 2
    return mean(x, tuple(range(first, first + rank - 2)), keepdims=True)


def _averaged(node: Node, x: ir.Value) -> ir.Value:
    if node.int("channels_last", 0) != 1:
        return averaged(node, x)
    rank = type_of(x).rank
    pooled = averaged(node, transpose(x, (0, rank - 1, *range(1, rank - 1))))
    return transpose(pooled, (0, *range(2, rank), 1))


def _reduced(node: Node, x: ir.Value) -> ir.Value:
    rank = type_of(x).rank
    axes = node.axes(node.ints("axes", tuple(range(rank))), rank)
    return mean(x, tuple(axes), keepdims=node.int("keepdims", 1) == 1)


def _enter(name: str, function: Callable[[Node, ir.Value], ir.Value]) -> None:
    @onnx_op(name, domain=DOMAIN)
    def build(node: Node) -> ir.Value:
        return quantised(node, function(node, real(node, 0)), 3)


for _name, _function in FUNCTIONS.items():
    _enter(_name, _function)


@onnx_op("QLinearWhere", domain=DOMAIN)
def qlinear_where(node: Node) -> ir.Value:
    return quantised(node, ops.select(node.required(0), real(node, 1), real(node, 4)), 7, like=1)


@onnx_op("QLinearConcat", domain=DOMAIN)
def qlinear_concat(node: Node) -> ir.Value:
    """The result's scale and zero point first, then three operands for each part."""
    parts = [real(node, index) for index in range(2, len(node.inputs), 3)]
    rank = type_of(parts[0]).rank
    return quantised(node, ops.concat(parts, axis=node.axis(node.int("axis"), rank)), 0, like=2)


@onnx_op("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(node: Node) -> ir.Value:
    """A, B, their scales, their zero points, a bias. B's parameters may differ by column."""
    columns = node.type(1).rank - 1
    a = ops.dequantize(node.required(0), node.required(2), node.input(4), dtype="float32", axis=0)
    b = ops.dequantize(node.required(1), node.required(3), node.input(5), dtype="float32", axis=columns)
    result = convert(matmul(node, a, b), node.type(2).dtype)
    return ops.add(result, node.required(6)) if node.has_input(6) else result


@onnx_op("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(node: Node) -> ir.Value:
    """A is quantised to uint8 by its own range, then multiplied with the quantised B."""
    x = node.required(0)
    _, scale, point = dynamic_range(x)
    a = ops.dequantize(ops.quantize(x, scale, point, dtype="uint8", axis=0), scale, point, dtype="float32", axis=0)
    b = ops.dequantize(node.required(1), node.required(2), node.input(3), dtype="float32", axis=node.type(1).rank - 1)
    result = matmul(node, a, b)
    return ops.add(result, node.required(4)) if node.has_input(4) else result


@onnx_op("QGemm", domain=DOMAIN)
def qgemm(node: Node) -> ir.Value:
    """alpha * A B + C of quantised matrices, quantised again, or in float32 if the result has no scale."""
    transposed = node.int("transB", 0) == 1
    a, b = real(node, 0), real(node, 3, axis=0 if transposed else 1)
    left = 0 if node.int("transA", 0) == 1 else 1
    result = ops.dot_general(a, b, lhs_contract=(left,), rhs_contract=(1 if transposed else 0,))
    result = ops.mul(result, number_like(node.float("alpha", 1.0), result))
    if node.has_input(6):  # int32, in units of both scales
        unit = ops.mul(reshape(node.required(1), ()), _row(node.required(4)))
        unit = ops.mul(unit, number_like(node.float("alpha", 1.0), unit))
        result = ops.add(result, ops.mul(convert(node.required(6), "float32"), unit))
    return quantised(node, result, 7) if node.has_input(7) else result


def _row(scale: ir.Value) -> ir.Value:
    return reshape(scale, ()) if type_of(scale).elements == 1 else along(scale, 1, 2)


@onnx_op("MatMulNBits", domain=DOMAIN)
def matmul_n_bits(node: Node) -> ir.Value:
    """A [.., K] times the transpose of a weight [N, K] stored in blocks of a few bits with a scale each."""
    x, packed, scales = (node.required(i) for i in range(3))
    depth, rows, bits, block = node.int("K"), node.int("N"), node.int("bits", 4), node.int("block_size")
    if bits not in (2, 4, 8):
        node.fail(f"must be 2, 4 or 8, not {bits}", "bits")
    if block < 1 or depth < 1 or rows < 1 or block * bits % 8:
        node.fail(f"blocks of {block} numbers of {bits} bits do not fill a weight [{rows}, {depth}]", "block_size")
    if node.has_input(4):
        node.fail("an order of columns (g_idx) is not supported")
    if node.int("weight_prepacked", 0):
        node.fail("weights in the layout of one device are not supported", "weight_prepacked")
    node.no_effect("accuracy_level", because="it allows less exact products, and does not ask for them")
    *outer, given = type_of(x).shape
    check_size(given, "==", depth, "the last axis of A has K elements")
    x = reshape(x, (*outer, depth))
    blocks = int(str(ceildiv(depth, block)))
    weight = reshape(packed, (rows, blocks, block * bits // 8))
    zero: ir.Value | None = None
    if node.has_input(3):
        zero = node.required(3)
        if type_of(zero).dtype == "uint8":
            width = int(str(ceildiv(blocks * bits, 8)))
            zero = part(numbers(reshape(zero, (rows, width)), bits), 1, 0, blocks)
        zero = convert(reshape(zero, (rows, blocks)), type_of(scales).dtype)
    result = ops.block_dot(x, weight, reshape(scales, (rows, blocks)), zero, bits=bits, block=block)
    return ops.add(result, node.required(5)) if node.has_input(5) else result
