"""Activations, whole."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, wide
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, type_of
from burn.importers.torch.node import Node, aten


@aten("relu.default")
def relu(node: Node, x: ir.Value) -> ir.Value:
    return ops.relu(x)


@aten("relu6.default")
def relu6(node: Node, x: ir.Value) -> ir.Value:
    return ops.clip(x, number_like(0, x), number_like(6, x), strict=True)


@aten("hardtanh.default")
def hardtanh(node: Node, x: ir.Value, low: float, high: float) -> ir.Value:
    return ops.clip(x, number_like(low, x), number_like(high, x), strict=True)


@aten("gelu.default")
def gelu(node: Node, x: ir.Value, approximate: str = "none") -> ir.Value:
    return ops.gelu(x, approximate=approximate)


@aten("silu.default")
def silu(node: Node, x: ir.Value) -> ir.Value:
    if type_of(x).dtype in PARTS:
        return ops.mul(x, ops.sigmoid(x))
    return ops.silu(x)


@aten("mish.default")
def mish(node: Node, x: ir.Value) -> ir.Value:
    return ops.mish(x)


@aten("leaky_relu.default")
def leaky_relu(node: Node, x: ir.Value, slope: float) -> ir.Value:
    return ops.leaky_relu(x, alpha=float(slope))


@aten("_prelu_kernel.default")
def prelu(node: Node, x: ir.Value, slope: ir.Value) -> ir.Value:
    return ops.prelu(x, slope)


@aten("elu.default")
def elu(node: Node, x: ir.Value, alpha: float, scale: float, input_scale: float) -> ir.Value:
    """scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))"""
    if input_scale == 1:
        return ops.selu(x, alpha=float(alpha), gamma=float(scale)) if scale != 1 else ops.elu(x, alpha=float(alpha))
    if scale == 1 and alpha * input_scale == 1:
        return ops.celu(x, alpha=float(alpha))
    value = convert(x, wide(type_of(x).dtype))
    held = ops.select(ops.gt(value, number_like(0, value)), number_like(0, value), value)  # whose exponential is finite
    low = ops.mul(ops.expm1(ops.mul(held, number_like(input_scale, value))), number_like(alpha * scale, value))
    high = ops.mul(value, number_like(scale, value))
    return convert(ops.select(ops.gt(value, number_like(0, value)), high, low), type_of(x).dtype)


@aten("celu.default")
def celu(node: Node, x: ir.Value, alpha: float = 1.0) -> ir.Value:
    return ops.celu(x, alpha=float(alpha))


@aten("hardsigmoid.default")
def hardsigmoid(node: Node, x: ir.Value) -> ir.Value:
    return ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


@aten("hardswish.default")
def hardswish(node: Node, x: ir.Value) -> ir.Value:
    return ops.hard_swish(x)


@aten("softplus.default")
def softplus(node: Node, x: ir.Value, beta: float, threshold: float) -> ir.Value:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""
    scaled = x if beta == 1 else ops.mul(x, number_like(beta, x))
    value = ops.softplus(scaled)
    value = value if beta == 1 else ops.div(value, number_like(beta, x))
    return ops.select(ops.gt(scaled, number_like(threshold, x)), x, value)


@aten("log_sigmoid_forward.default")
def log_sigmoid(node: Node, x: ir.Value) -> list[ir.Value]:
    """(log(sigmoid(x)), exp(-|x|)), the second for torch's own gradient on CPUs."""
    return [ops.neg(ops.softplus(ops.neg(x))), ops.exp(ops.neg(ops.abs(x)))]


@aten("_softmax.default", "softmax.int", "_log_softmax.default", "log_softmax.int")
def softmax(node: Node, x: ir.Value, dim: int, dtype: Any = None) -> ir.Value:
    """The result's type already includes `dtype` and `half_to_float`."""
    x = node.as_result(x)
    function = ops.log_softmax if "log" in node.op else ops.softmax
    if type_of(x).rank == 0:
        return ops.full(shape=(), dtype=node.dtype, value=0.0 if "log" in node.op else 1.0)
    return function(x, axis=node.axis(dim, x))
