"""Quantized tensors: their values are the stored integers."""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, number
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, numpy_dtype, type_of
from burn.importers.lax.scalars import extreme
from burn.importers.stablehlo.node import Node, rule
from burn.importers.stablehlo.syntax.module import QuantizedType, Ranked

Value = ir.Value


def _quantized(node: Node, type_: object) -> QuantizedType:
    element = type_.element if isinstance(type_, Ranked) else None
    if not isinstance(element, QuantizedType):
        node.fail(f"quantises {type_}, whose element type is not supported")
    return element


def _factors(node: Node, type_: QuantizedType, rank: int) -> tuple[Value, Value]:
    """Scales, and zero points in int64, such that both broadcast."""
    if type_.axis is None:
        return number(type_.scales[0], type_.expressed), number(type_.zeros[0], "int64")
    shape = tuple(len(type_.scales) if axis == type_.axis else 1 for axis in range(rank))
    scales = np.array(type_.scales, numpy_dtype(type_.expressed)).reshape(shape)
    zeros = np.array(type_.zeros, np.int64).reshape(shape)
    return node.importer.constant(scales, "scale"), node.importer.constant(zeros, "zero")


@rule("uniform_quantize")
def uniform_quantize(node: Node) -> Value:
    """round(x / scale) + zero point, ties to even, clamped to the range of the type. A quantized operand is dequantized first."""
    target = _quantized(node, node.op.type.results[0])
    x = node.x(0)
    if isinstance(getattr(node.operand_type(0), "element", None), QuantizedType):
        x = dequantized(node, x, _quantized(node, node.operand_type(0)))
    scale, zero = _factors(node, target, type_of(x).rank)
    steps = ops.round(ops.div(convert(x, target.expressed), scale))
    low = target.low if target.low is not None else extreme(target.dtype, False)
    high = target.high if target.high is not None else extreme(target.dtype, True)
    wide = "float64" if DTYPES[target.dtype].bits > 16 else "float32"
    moved = ops.add(convert(steps, wide), convert(zero, wide))
    clamped = ops.min(ops.max(moved, number(low, wide)), number(high, wide))
    return convert(clamped, target.dtype)


def dequantized(node: Node, x: Value, type_: QuantizedType) -> Value:
    scale, zero = _factors(node, type_, type_of(x).rank)
    return ops.mul(convert(ops.sub(convert(x, "int64"), zero), type_.expressed), scale)


@rule("uniform_dequantize")
def uniform_dequantize(node: Node) -> Value:
    """(x - zero point) * scale."""
    return dequantized(node, node.x(0), _quantized(node, node.operand_type(0)))
