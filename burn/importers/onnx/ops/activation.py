"""Activations: operators that are composites of burn's own under another name, with the defaults of ONNX."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import along, number, number_like
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op

# Operator -> (burn's op, {attribute: default}).
ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "Celu": ("celu", {"alpha": 1.0}),
    "Elu": ("elu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": ("hard_swish", {}),
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Mish": ("mish", {}),
    "Relu": ("relu", {}),
    "Softplus": ("softplus", {}),
    "Softsign": ("softsign", {}),
    "Swish": ("silu", {"alpha": 1.0}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
}


@onnx_op(*ACTIVATIONS)
def activation(node: Node) -> ir.Value:
    name, defaults = ACTIVATIONS[node.op]
    attributes = {key: node.float(key, default) for key, default in defaults.items()}
    return getattr(ops, name)(node.required(0), **attributes)


@onnx_op("Selu")
def selu(node: Node) -> ir.Value:
    """The constants were written with fewer digits before opset 6."""
    alpha, gamma = (1.6732, 1.0507) if node.opset < 6 else (1.67326319217681884765625, 1.05070102214813232421875)
    return ops.selu(node.required(0), alpha=node.float("alpha", alpha), gamma=node.float("gamma", gamma))


@onnx_op("Gelu")
def gelu(node: Node) -> ir.Value:
    return ops.gelu(node.required(0), approximate=node.string("approximate", "none"))


@onnx_op("PRelu")
def prelu(node: Node) -> ir.Value:
    """Before opset 7 a vector of slopes belonged to the channels, axis 1."""
    slope, rank = node.required(1), node.type(0).rank
    if node.opset < 7 and node.type(1).rank == 1:
        slope = along(slope, 1, rank)
    return ops.prelu(node.required(0), slope)


@onnx_op("SwiGLU")
def swiglu(node: Node) -> ir.Value:
    return ops.mul(ops.silu(node.required(0), alpha=node.float("alpha", 1.0)), node.required(1))


@onnx_op("Shrink")
def shrink(node: Node) -> ir.Value:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    x = node.required(0)
    bias, bound = number_like(node.float("bias", 0.0), x), number_like(node.float("lambd", 0.5), x)
    below = ops.select(ops.lt(x, ops.neg(bound)), ops.add(x, bias), number_like(0, x))
    return ops.select(ops.gt(x, bound), ops.sub(x, bias), below)


@onnx_op("Clip")
def clip(node: Node) -> ir.Value:
    """The bounds were attributes before opset 11."""
    x = node.required(0)
    if node.opset < 11:
        dtype = type_of(x).dtype
        low, high = (None if not node.has(n) else number(node.float(n), dtype) for n in ("min", "max"))
    else:
        low, high = node.input(1), node.input(2)
    return ops.clip(x, low, high)
